//! Promise 5 where bits have rotted: damage is noticed, never believed. Rotted records may be lost,
//! and together with a crash the last commits may be rolled back. But no value is read that was
//! never written.

use std::collections::BTreeMap;

use retrial::run::{Recorded, RunId};

use super::{Promise, Replayer, Report, is_guarded, replay, silence, termination};
use crate::evidence::Evidence;

/// The store returns an event that was never written there.
pub const INVENTED: &str = "invented";

/// Something that had rotted was reported: a run as damaged, or the whole store.
pub(super) const REPORTED: &str = "rot reported";
/// A store that had rotted went on.
pub(super) const SURVIVED: &str = "rot survived";

/// The judgement of a world with rotted bits: it ends, the remaining events can be folded, all of
/// them were written once, and no secret shows. The other promises are about records that may be
/// lost here.
pub(super) fn judge_all(evidence: &Evidence, replayer: &dyn Replayer) -> Vec<Report> {
    let each = Promise::ALL.into_iter().map(|promise| match promise {
        Promise::Termination => ends(evidence),
        Promise::Replay => replay::judge(evidence, replayer),
        Promise::Durability => written(evidence),
        Promise::Silence => silence::judge(evidence),
        promise => Report::new(promise),
    });
    each.collect()
}

/// Runs end, unless they are damaged or use guards, which may be.
fn ends(evidence: &Evidence) -> Report {
    let mut report = termination::judge(evidence);
    let guarded = |run: RunId| evidence.runs.iter().any(|r| r.id == run && is_guarded(&r.workflow));
    report.findings.retain(|found| !(found.is_stuck() && found.run.is_some_and(guarded)));
    report
}

fn written(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Durability);
    let mut sent: BTreeMap<(RunId, u64), Vec<&Recorded>> = BTreeMap::new();
    for writing in &evidence.sent {
        for (number, event) in (writing.first.0..).zip(&writing.events) {
            sent.entry((writing.run, number)).or_default().push(event);
        }
    }
    let damaged = evidence.store_lost || evidence.runs.iter().any(|run| run.damaged);
    report.met(if damaged { REPORTED } else { SURVIVED });
    for run in evidence.runs.iter().filter(|run| !run.damaged) {
        for (number, event) in (run.first.0..).zip(&run.events) {
            let known = sent.get(&(run.id, number)).is_some_and(|all| all.contains(&event));
            report.check(known, run.id, INVENTED, || {
                format!("event #{number} is {:?} and was never written", event.event.name())
            });
        }
    }
    report
}
