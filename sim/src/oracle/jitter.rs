//! The part of promise 2 about chance: jitter is a function of run seed, task and attempt alone, and
//! two tasks never share it (spec decision 9).

use std::collections::BTreeMap;

use retrial::policy::Jitter;
use retrial::run::{RunId, TaskId};
use retrial::time::Nanos;

use super::history::{Retry, TaskHistory};
use super::{Report, model};
use crate::evidence::RunEvidence;

/// The same seed, task and attempt gave two delays.
pub const JITTER_NOT_A_FUNCTION: &str = "jitter_not_a_function";
/// Several tasks drew the same jitter.
pub const JITTER_SHARED: &str = "jitter_shared";

/// Jitter narrower than this may coincide by chance, in nanoseconds.
const WIDE: u128 = 1_000_000;

/// The delays that were right.
type Range = (u128, u128);

/// What jitter gave, over all runs.
#[derive(Default)]
pub(super) struct Drawn<'e> {
    by_place: BTreeMap<(u64, TaskId, u32, Range), (Nanos, &'e str)>,
    by_attempt: BTreeMap<(RunId, u32, Range), Vec<Nanos>>,
}

impl<'e> Drawn<'e> {
    pub(super) fn note(
        &mut self,
        report: &mut Report,
        run: &'e RunEvidence,
        task: &TaskHistory<'e>,
        retry: &Retry<'e>,
    ) {
        let n = retry.attempt.max(2) - 1;
        let Some(rule) = model::rule(&task.step.policy, retry.failure) else { return };
        let Some(range) = model::delays(rule, n, retry.previous) else { return };
        if rule.backoff.jitter == Jitter::None || range.high - range.low < WIDE {
            return;
        }
        let range = (range.low, range.high);
        self.by_attempt.entry((run.id, retry.attempt, range)).or_default().push(retry.backoff);
        let place = (run.seed, task.task, retry.attempt, range);
        let name = run.workflow.name();
        let before = *self.by_place.entry(place).or_insert((retry.backoff, name));
        let same = before.0 == retry.backoff || before.1 != name;
        report.check(same, run.id, JITTER_NOT_A_FUNCTION, || {
            format!("{} before, {} now: {}", before.0, retry.backoff, retry.scheduled.show())
        });
    }

    pub(super) fn judge(&self, report: &mut Report) {
        for ((run, attempt, ..), drawn) in &self.by_attempt {
            let shared = drawn.len() >= 3 && drawn.iter().all(|d| *d == drawn[0]);
            report.check(!shared, *run, JITTER_SHARED, || {
                format!("{} tasks drew {} before attempt {attempt}", drawn.len(), drawn[0])
            });
        }
    }
}
