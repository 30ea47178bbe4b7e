//! The part of promise 2 about a node with few places: what is due does not wait while there is a place
//! for it. Judged where faults struck at endpoints alone, of actions without guards, and of one node:
//! where several work on a run, one may have reserved a task and not yet have its commit through.

use std::collections::BTreeMap;

use retrial::run::{Event, TaskId};
use retrial::time::{Nanos, Timestamp};

use super::history::{entries, tasks};
use super::promptness::{AT_MOST, is_left_to_itself, starts};
use super::{FREE_PLACES, Report, is_guarded, json_lines};
use crate::evidence::Evidence;
use crate::fault::FaultKind;
use crate::scenario::Places;

/// An attempt was due, there was a place for it, and it waited.
pub const WAITED_WITH_ROOM: &str = "waited_with_room";

/// How long an attempt may have its place before its start is recorded, and after its end is.
const AROUND: Nanos = Nanos::from_millis(100);
/// Faults that make attempts fail or last, and nothing else.
const AT_ENDPOINTS: [FaultKind; 7] = [
    FaultKind::ServerError,
    FaultKind::ClientError,
    FaultKind::RateLimit,
    FaultKind::SlowStream,
    FaultKind::Malformed,
    FaultKind::EndpointHang,
    FaultKind::LateSuccess,
];

/// An attempt that takes a place.
struct Taken<'e> {
    action: &'e str,
    from: Timestamp,
    /// Never, where its end is not known.
    until: Option<Timestamp>,
}

pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let Some(places) = evidence.places else { return };
    let is_harmless =
        |(kind, count): (&FaultKind, &u64)| *count == 0 || AT_ENDPOINTS.contains(kind);
    let is_calm = evidence.strikes.iter().all(is_harmless) && !evidence.own.is_own;
    let has_one_life = evidence.lifespans.iter().all(|life| life.incarnation == 0);
    let is_guarded = evidence.runs.iter().any(|run| run.damaged || is_guarded(&run.workflow));
    if !is_calm || !has_one_life || is_guarded || json_lines::engines(evidence) != 1 {
        return;
    }
    let taken = taken(evidence);
    for task in evidence.runs.iter().filter(|run| is_left_to_itself(run)).flat_map(tasks) {
        for (entry, due) in starts(&task) {
            report.met(FREE_PLACES);
            let is_late = entry.at.since(due) > AT_MOST;
            let room = || longest_room(&taken, &task.step.action, places, due, entry.at);
            let room = if is_late { room() } else { Nanos::ZERO };
            report.check(room <= AT_MOST, task.run.id, WAITED_WITH_ROOM, || {
                format!("it was due at {due} and there was room for {room}: {}", entry.show())
            });
        }
    }
}

/// The attempts of all runs with the places that they took.
fn taken(evidence: &Evidence) -> Vec<Taken<'_>> {
    let mut all = Vec::new();
    for run in &evidence.runs {
        let mut going: BTreeMap<TaskId, usize> = BTreeMap::new();
        for entry in entries(run) {
            let Some(task) = entry.event.task() else { continue };
            match entry.event {
                Event::AttemptStarted { .. } => {
                    let Some(step) = run.workflow.step(task.step) else { continue };
                    going.insert(task, all.len());
                    all.push(Taken { action: &step.action, from: entry.at, until: None });
                }
                // What was called off may go on for a while.
                Event::AttemptFailed { .. } | Event::TaskSucceeded { .. } => {
                    let ended = going.remove(&task).and_then(|place| all.get_mut(place));
                    if let Some(taken) = ended {
                        taken.until = Some(entry.at.after(AROUND));
                    }
                }
                _ => {}
            }
        }
    }
    all
}

/// The longest time between two instants in which there surely was a place for an action.
fn longest_room(
    taken: &[Taken<'_>],
    action: &str,
    places: Places,
    from: Timestamp,
    until: Timestamp,
) -> Nanos {
    let all = i64::from(places.all);
    let share = (all * i64::from(places.share) / 100).max(1);
    // Places that are taken and given back: of all, and of the action.
    let mut changes = Vec::new();
    for taken in taken {
        let of_action = i64::from(taken.action == action);
        // It was claimed before its start was recorded.
        let began = Timestamp::from_nanos(taken.from.as_nanos().saturating_sub(AROUND.get()));
        changes.push((began, 1, of_action));
        changes.extend(taken.until.map(|until| (until, -1, -of_action)));
    }
    changes.sort_unstable();
    changes.push((until, 0, 0));
    let (mut count, mut of_action, mut longest, mut since) = (0, 0, Nanos::ZERO, from);
    for (at, more, more_of_action) in changes {
        if count < all && of_action < share {
            longest = longest.max(at.min(until).since(since));
        } else {
            since = at.max(from);
        }
        count += more;
        of_action += more_of_action;
    }
    longest
}
