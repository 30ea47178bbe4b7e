//! The part of promise 2 about work that is due: nothing waits where nothing stands in its way. Judged
//! in worlds where no fault struck and each node has room for all, of tasks that nobody holds back. And
//! a node that is alone on its store ends the attempts of its predecessor at once.

use retrial::run::{Event, Version};
use retrial::time::{Mono, Nanos, Timestamp};
use retrial::workflow::StepIx;

use super::history::{Entry, TaskHistory, entries, tasks};
use super::{Report, is_guarded, json_lines};
use crate::evidence::{Evidence, ObservedEvent, RunEvidence};
use crate::fault::FaultKind;
use crate::scenario::{ENDPOINTS, STORE};

/// An attempt was due and started late.
pub const STARTED_LATE: &str = "started_late";

/// An attempt of a dead process was not ended when the next one began.
pub const ORPHANED: &str = "orphaned";

/// How long what is due may wait at the node that made it due.
pub(super) const AT_MOST: Nanos = Nanos::from_millis(150);
/// How long it may take a process to open its store and to read which attempts are left.
const AT_ONCE: Nanos = Nanos::from_millis(60);
/// The same once faults no longer keep the process or its disk from it.
const IN_THE_END: Nanos = Nanos::from_secs(10);
/// When everything heals, a store has still to be started and opened, and a node may rest for two
/// seconds before it asks again.
const BACK: Nanos = Nanos::from_secs(15);
/// A slow sync takes up to six seconds, and a simulated disk is as slow before the work that follows.
const SLOW_SYNC: Nanos = Nanos::from_secs(12);
/// How many attempts of one action a node makes at once, unless told otherwise.
const PLACES: usize = 48;
/// How often a node looks for what others made due and did not tell it.
pub(super) const POLL: Nanos = Nanos::from_millis(1_000);

pub(super) fn judge(report: &mut Report, evidence: &Evidence, task: &TaskHistory<'_>) {
    let run = task.run;
    if is_guarded(&run.workflow) || !is_left_to_itself(run) {
        return;
    }
    let is_alone = json_lines::engines(evidence) <= 1;
    let most = if is_alone { AT_MOST } else { AT_MOST.saturating_add(POLL) };
    for (entry, due) in starts(task) {
        let late = entry.at.since(due);
        report.check(late <= most, run.id, STARTED_LATE, || shown(&entry, due));
    }
}

/// The starts of a task's attempts, and since when each was due.
pub(super) fn starts<'e>(task: &TaskHistory<'e>) -> Vec<(Entry<'e>, Timestamp)> {
    let mut due = entered(task.run, task.task.step);
    let mut found = Vec::new();
    for entry in &task.entries {
        match entry.event {
            Event::AttemptStarted { .. } => found.extend(due.take().map(|due| (*entry, due))),
            Event::RetryScheduled { delay, .. } => due = Some(entry.at.after(*delay)),
            _ => {}
        }
    }
    found
}

/// Judges what became of the attempts that a process left behind.
pub(super) fn orphans(
    report: &mut Report,
    evidence: &Evidence,
    task: &TaskHistory<'_>,
    is_quick: bool,
) {
    if evidence.rot || evidence.own.is_own {
        return;
    }
    let run = task.run;
    if !owns_its_store(evidence) || !is_left_to_itself(run) {
        return;
    }
    let told = |entry: &Entry<'_>| first_told(evidence, run, entry);
    let mut started = None;
    for entry in &task.entries {
        match entry.event {
            Event::AttemptStarted { .. } => started = Some(entry),
            Event::AttemptFailed { failure, .. } if failure.code().as_str() == "LEASE_LOST" => {
                let Some(started) = started.take().and_then(told) else { continue };
                let Some(ended) = told(entry) else { continue };
                let Some(born) = last_born(evidence, started, ended) else { continue };
                // Faults that follow each other may keep it from that until all has healed.
                let (from, most) = match is_quick {
                    true => (born, AT_ONCE),
                    false => (born.max(back_at(evidence)), IN_THE_END),
                };
                let late = ended.since(from);
                report.check(late <= most, run.id, ORPHANED, || {
                    format!("ended {late} after the next process began: {}", entry.show())
                });
            }
            _ => {}
        }
    }
}

/// Whether a node is alone on a store of its own.
pub(super) fn owns_its_store(evidence: &Evidence) -> bool {
    let has_own = evidence.lifespans.iter().all(|l| l.node != STORE);
    has_own && json_lines::engines(evidence) <= 1
}

/// True time at which the first observer heard of an event.
pub(super) fn first_told(
    evidence: &Evidence,
    run: &RunEvidence,
    entry: &Entry<'_>,
) -> Option<Mono> {
    let same = |o: &&ObservedEvent| {
        (o.run, o.number) == (run.id, Version(entry.number))
            && (&o.recorded.event, o.recorded.at) == (entry.event, entry.at)
    };
    evidence.observed.iter().filter(same).map(|o| o.at).min()
}

/// When the last process began between the two.
pub(super) fn last_born(evidence: &Evidence, from: Mono, until: Mono) -> Option<Mono> {
    let born = evidence.lifespans.iter().filter(|l| l.node != ENDPOINTS).map(|l| l.born);
    born.filter(|at| (from..=until).contains(at)).max()
}

/// Whether nothing struck that makes a node or its disk slow.
pub(super) fn is_quick(evidence: &Evidence) -> bool {
    !evidence.struck(&SLOW)
}

/// The faults that do.
const SLOW: [FaultKind; 5] = [
    FaultKind::Pause,
    FaultKind::SlowNode,
    FaultKind::Eio,
    FaultKind::DiskFull,
    FaultKind::SlowSync,
];

/// When nothing keeps a node and its store from their work any more.
pub(super) fn back_at(evidence: &Evidence) -> Mono {
    let syncs = evidence.strikes.get(&FaultKind::SlowSync).copied().unwrap_or(0);
    evidence.phases.healed_at.after(BACK.saturating_add(SLOW_SYNC.saturating_mul(syncs)))
}

/// Whether nothing struck that stands between a node and its store.
pub(super) fn is_near(evidence: &Evidence) -> bool {
    owns_its_store(evidence) || !evidence.struck(&ON_THE_WAY)
}

/// The faults that do, where the store is elsewhere.
const ON_THE_WAY: [FaultKind; 13] = [
    FaultKind::Crash,
    FaultKind::Refuse,
    FaultKind::ConnectHang,
    FaultKind::Reset,
    FaultKind::Stall,
    FaultKind::Cut,
    FaultKind::Delay,
    FaultKind::Partition,
    FaultKind::OneWay,
    FaultKind::Loss,
    FaultKind::StoreRequestLost,
    FaultKind::StoreAnswerLost,
    FaultKind::StoreDuplicate,
];

/// Whether nothing struck, and a node had a place for each task of its world.
pub(super) fn is_at_ease(evidence: &Evidence) -> bool {
    let is_calm = evidence.strikes.is_empty() && !evidence.own.is_own;
    let tasks = || evidence.runs.iter().map(|run| tasks(run).len()).sum::<usize>();
    is_calm && evidence.places.is_none() && tasks() <= PLACES
}

/// Whether nobody has stopped it, or what is in it, for a while.
pub(super) fn is_left_to_itself(run: &RunEvidence) -> bool {
    let stops = |event: &Event| {
        matches!(
            event,
            Event::RunPaused { .. }
                | Event::RunDeactivated
                | Event::RollbackStarted { .. }
                | Event::TaskQuarantined { .. }
        )
    };
    run.first.0 == 0 && !entries(run).any(|entry| stops(entry.event))
}

/// When the step was entered, whose tasks are due at once.
fn entered(run: &RunEvidence, step: StepIx) -> Option<Timestamp> {
    let of_step =
        |e: &Entry<'_>| matches!(e.event, Event::StepEntered { step: s, .. } if *s == step);
    entries(run).find(of_step).map(|entry| entry.at)
}

fn shown(entry: &Entry<'_>, due: Timestamp) -> String {
    format!("it was due at {due}: {}", entry.show())
}
