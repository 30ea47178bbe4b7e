//! The part of promise 2 about random numbers: jitter is a function of run seed, task and attempt
//! alone, and two tasks never share it.

use std::collections::BTreeMap;

use retrial::policy::{Jitter, Limit};
use retrial::run::{RunId, TaskId};
use retrial::time::Nanos;

use super::history::{Retry, TaskHistory};
use super::{Report, policy_model};
use crate::evidence::RunEvidence;

/// The same seed, task and attempt gave two delays.
pub const JITTER_NOT_A_FUNCTION: &str = "jitter_not_a_function";
/// Several tasks drew the same jitter.
pub const JITTER_SHARED: &str = "jitter_shared";

/// One task drew the same jitter before several attempts.
pub const JITTER_REPEATED: &str = "jitter_repeated";

/// Jitter narrower than this may coincide by chance, in nanoseconds.
const WIDE: u128 = 1_000_000;

/// The delays that were right.
type Range = (u128, u128);

/// The drawn jitter of all runs.
#[derive(Default)]
pub(super) struct Drawn<'e> {
    by_place: BTreeMap<(u64, TaskId, u32, Range), (Nanos, &'e str)>,
    by_attempt: BTreeMap<(RunId, u32, Range), Vec<Nanos>>,
    /// How far into its range each draw fell, in millionths.
    by_task: BTreeMap<(RunId, TaskId), Vec<u128>>,
}

impl<'e> Drawn<'e> {
    pub(super) fn note(
        &mut self,
        report: &mut Report,
        run: &'e RunEvidence,
        task: &TaskHistory<'e>,
        retry: &Retry<'e>,
    ) {
        let (Some((_, rule)), Some(n)) = (retry.governs, retry.count) else { return };
        let Some(range) = policy_model::delays(rule, n, retry.previous) else { return };
        if rule.backoff.jitter == Jitter::None || range.high - range.low < WIDE {
            return;
        }
        let range = (range.low, range.high);
        let into = u128::from(retry.backoff.get()).saturating_sub(range.0);
        // Draws that were raised to the floor coincide.
        let raised = into == 0 && rule.limit == Limit::Unlimited && range.0 == policy_model::FLOOR;
        let of_attempt = self.by_attempt.entry((run.id, retry.attempt, range)).or_default();
        of_attempt.extend((!raised).then_some(retry.backoff));
        // A draw at either end of its range says nothing of its share.
        if into > 0 && into < range.1 - range.0 {
            let share = into * 1_000_000 / (range.1 - range.0);
            self.by_task.entry((run.id, task.task)).or_default().push(share);
        }
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
        for ((run, task), shares) in &self.by_task {
            // Rounding to whole nanoseconds moves a share by a millionth or two.
            let same = shares.iter().all(|s| s.abs_diff(shares[0]) <= 2);
            report.check(shares.len() < 3 || !same, *run, JITTER_REPEATED, || {
                format!("task {task} drew {} times at {} millionths", shares.len(), shares[0])
            });
        }
    }
}
