//! The part of promise 2 about recorded times: how long an attempt took, and how a task spent its
//! time. Computed from the times of starts and failures.

use retrial::run::{Event, TaskTime};
use retrial::time::{Nanos, Timestamp};

use super::Report;
use super::history::TaskHistory;

/// An attempt took another time than its event says.
pub const WRONG_TOOK: &str = "wrong_took";
/// A task's time went elsewhere than its end says.
pub const WRONG_SPENT: &str = "wrong_spent";

/// Judges a task with its whole history.
pub(super) fn judge(report: &mut Report, task: &TaskHistory<'_>) {
    if !task.whole {
        return;
    }
    let run = task.run.id;
    let (mut failing, mut waiting) = (Nanos::ZERO, Nanos::ZERO);
    let mut last: Option<Timestamp> = None;
    for entry in &task.entries {
        let passed = last.map_or(Nanos::ZERO, |last| entry.at.since(last));
        let end = match entry.event {
            Event::AttemptStarted { .. } => {
                waiting = waiting.saturating_add(passed);
                last = Some(entry.at);
                continue;
            }
            Event::AttemptFailed { took, .. } => {
                report.check(*took == passed, run, WRONG_TOOK, || {
                    format!("it took {passed}, not {took}: {}", entry.show())
                });
                failing = failing.saturating_add(passed);
                last = Some(entry.at);
                continue;
            }
            Event::TaskSucceeded { spent, .. } => {
                (spent, TaskTime { working: passed, failing, waiting })
            }
            Event::TaskFailed { spent, .. } => {
                // With its last attempt, or when that came up too late to start.
                let waiting = waiting.saturating_add(passed);
                (spent, TaskTime { working: Nanos::ZERO, failing, waiting })
            }
            _ => continue,
        };
        report.check(*end.0 == end.1, run, WRONG_SPENT, || {
            format!("its time was {:?}, not {:?}: {}", end.1, end.0, entry.show())
        });
    }
}
