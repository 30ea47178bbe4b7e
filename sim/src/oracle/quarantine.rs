//! Quarantine (X14): a task whose attempts lost their node as often in a row as allowed is held, and
//! starts only when somebody has released it.

use std::collections::BTreeMap;

use retrial::run::{Event, TaskId};

use super::Report;
use super::history::{Entry, entries};
use crate::evidence::{Evidence, RunEvidence};

/// The task should have been held.
pub const NOT_QUARANTINED: &str = "not_quarantined";
/// It was held although fewer attempts than allowed in a row had lost their node.
pub const QUARANTINED_EARLY: &str = "quarantined_early";
/// An attempt of a held task started.
pub const STARTED_IN_QUARANTINE: &str = "started_in_quarantine";
/// A task was released that was not held, or that nobody had asked to release.
pub const RELEASED_UNASKED: &str = "released_unasked";

/// A task was held.
pub const QUARANTINE: &str = "quarantine";

/// One task so far.
struct Track {
    /// The attempts in a row that lost their node; unknown until something starts the count anew,
    /// where earlier events are trimmed.
    lost: Option<u32>,
    is_held: bool,
}

pub(super) fn judge(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let limit = evidence.quarantine_after.map(std::num::NonZeroU32::get);
    let all: Vec<Entry<'_>> = entries(run).collect();
    let mut tracks: BTreeMap<TaskId, Track> = BTreeMap::new();
    for (place, entry) in all.iter().enumerate() {
        let Some(task) = entry.event.task() else { continue };
        let whole = run.first.0 == 0;
        let new = || Track { lost: whole.then_some(0), is_held: false };
        let track = tracks.entry(task).or_insert_with(new);
        match entry.event {
            Event::AttemptFailed { failure, .. } => {
                let is_lost = failure.code().as_str() == "LEASE_LOST";
                track.lost = if is_lost { track.lost.map(|n| n + 1) } else { Some(0) };
            }
            Event::RetryScheduled { .. } => {
                let next = all.get(place + 1).map(|e| e.event);
                let held =
                    matches!(next, Some(Event::TaskQuarantined { task: t, .. }) if *t == task);
                let Some(lost) = track.lost else { continue };
                let must = limit.is_some_and(|most| lost >= most);
                report.check(held || !must, run.id, NOT_QUARANTINED, || entry.show());
            }
            Event::TaskQuarantined { lost, .. } => {
                report.met(QUARANTINE);
                let right = limit.is_some_and(|most| *lost >= most)
                    && track.lost.is_none_or(|n| n == *lost)
                    && !track.is_held;
                report.check(right, run.id, QUARANTINED_EARLY, || entry.show());
                (track.is_held, track.lost) = (true, Some(*lost));
            }
            Event::TaskReleased { .. } => {
                let asked = run.is_webhook || run.redrives.is_some() || run.release_asked;
                let right = asked && (track.is_held || track.lost.is_none());
                report.check(right, run.id, RELEASED_UNASKED, || entry.show());
                (track.is_held, track.lost) = (false, Some(0));
            }
            Event::AttemptStarted { .. } => {
                report.check(!track.is_held, run.id, STARTED_IN_QUARANTINE, || entry.show());
            }
            _ => {}
        }
    }
}
