//! The part of promise 3 about cancellation: the node that ends a run or cancels a task stops its
//! attempts at once.

use std::collections::BTreeMap;

use retrial::run::{Event, RunId, TaskId, Version};
use retrial::time::{Mono, Nanos};

use super::attempt_records::AttemptRecords;
use super::{Report, history};
use crate::evidence::{Evidence, ObservedEvent};
use crate::fault::FaultKind;

/// An attempt went on after its own node had called it off.
pub const NOT_CALLED_OFF: &str = "not_called_off";

/// How long an endpoint may take to notice that its caller has gone.
pub(super) const NEWS: Nanos = Nanos::from_millis(500);

/// The faults that delay the end of a connection, or the action of a node.
pub(super) const DEAF: [FaultKind; 8] = [
    FaultKind::Delay,
    FaultKind::Stall,
    FaultKind::Partition,
    FaultKind::OneWay,
    FaultKind::Loss,
    FaultKind::Pause,
    FaultKind::SlowNode,
    FaultKind::ConnectHang,
];

/// A node's name, its incarnation, and the run or task that it called off.
type Place<'e> = (&'e str, u32, RunId, Option<TaskId>);

/// A node's name, its incarnation, and a run that it began to roll back.
type Incarnation<'e> = (&'e str, u32, RunId);

/// Judges every attempt that a node started and, in the same incarnation, called off.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    if evidence.struck(&DEAF) {
        return;
    }
    let ledger = AttemptRecords::of(evidence);
    let ends: BTreeMap<Place<'_>, Mono> = evidence.observed.iter().filter_map(end).collect();
    let rolled: BTreeMap<_, _> = evidence.observed.iter().filter_map(roll).collect();
    for observed in &evidence.observed {
        let Event::AttemptStarted { task, attempt, .. } = observed.recorded.event else { continue };
        let end =
            |task| ends.get(&(observed.node.as_str(), observed.incarnation, observed.run, task));
        let rolled = rolled.get(&(observed.node.as_str(), observed.incarnation, observed.run));
        // A rollback calls off what was at work before it, not what it does itself.
        let rolled = rolled.filter(|(number, _)| observed.number < *number).map(|(_, at)| at);
        let off = end(None).into_iter().chain(end(Some(task))).chain(rolled).min();
        let Some(off) = off else { continue };
        let most = off.after(NEWS);
        for arrival in ledger.arrivals(observed.run, task, attempt) {
            let late = arrival.at > most || arrival.answered_at.is_some_and(|at| at > most);
            report.check(!late, observed.run, NOT_CALLED_OFF, || {
                let entry = history::Entry {
                    number: observed.number.0,
                    at: observed.recorded.at,
                    event: &observed.recorded.event,
                };
                format!("called off at {}: {}", Nanos::new(off.as_nanos()), entry.show())
            });
        }
    }
}

/// The node, its incarnation and the run that it began to roll back, with which event and when.
fn roll(observed: &ObservedEvent) -> Option<(Incarnation<'_>, (Version, Mono))> {
    let started = matches!(observed.recorded.event, Event::RollbackStarted { .. });
    let place = (observed.node.as_str(), observed.incarnation, observed.run);
    started.then_some((place, (observed.number, observed.at)))
}

fn end(observed: &ObservedEvent) -> Option<(Place<'_>, Mono)> {
    let task = match observed.recorded.event {
        Event::RunEnded { .. } => None,
        Event::TaskCancelled { task } => Some(task),
        _ => return None,
    };
    Some(((observed.node.as_str(), observed.incarnation, observed.run, task), observed.at))
}
