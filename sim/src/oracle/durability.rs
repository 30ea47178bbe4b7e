//! Promise 5: nothing lost. Acknowledged and reported events are durable, nothing is done before it
//! is written, a task that succeeded does not run again, and projections follow the events.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{Digest, Event, TaskId};
use retrial::store::{QueueRow, QueueState};

use super::attempt_records::{AttemptRecords, receipts};
use super::history::{TaskHistory, asked_input, entries, tasks};
use super::{Promise, Report, error_budget, json_lines};
use crate::evidence::{Evidence, ObservedEvent, RunEvidence};
use crate::scenario::STORE;

/// An acknowledged run is gone.
pub const RUN_LOST: &str = "run_lost";
/// The run was created otherwise than it was submitted.
pub const RUN_ALTERED: &str = "run_altered";
/// A reported event is not durable.
pub const TOLD_BUT_LOST: &str = "told_but_lost";
/// A reported event is durable with another content.
pub const TOLD_OTHERWISE: &str = "told_otherwise";
/// A node reported an event after its end, or before its start.
pub const TOLD_BY_THE_DEAD: &str = "told_by_the_dead";
/// A durable event was never reported, although no engine died.
pub const NEVER_TOLD: &str = "never_told";
/// The store reports a run as damaged although nothing rotted.
pub const DAMAGED_WITHOUT_ROT: &str = "damaged_without_rot";
/// A task that had succeeded was started again.
pub const SUCCEEDED_RAN_AGAIN: &str = "succeeded_ran_again";
/// An endpoint was asked again after the task's success.
pub const ARRIVAL_AFTER_SUCCESS: &str = "arrival_after_success";
/// An endpoint was asked for an attempt whose start is not durable.
pub const ACTED_BEFORE_WRITING: &str = "acted_before_writing";
/// An endpoint was asked for a task that no run has.
pub const STRAY_ARRIVAL: &str = "stray_arrival";
/// Event numbers and the store's version disagree.
pub const VERSION_GAP: &str = "version_gap";
/// An event is stamped earlier than the one before it.
pub const TIME_WENT_BACK: &str = "time_went_back";
/// A success has no result in the results table, or another one.
pub const RESULT_LOST: &str = "result_lost";
/// The results table holds what no success gave.
pub const RESULT_UNEARNED: &str = "result_unearned";
/// A task that is to go on has no row in the queue, or a wrong one.
pub const QUEUE_ROW_WRONG: &str = "queue_row_wrong";

/// Judges promise 5.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Durability);
    let ledger = AttemptRecords::of(evidence);
    for run in evidence.runs.iter().filter(|r| !r.damaged) {
        exists(&mut report, run);
        order(&mut report, run);
        let tasks = tasks(run);
        for task in &tasks {
            success(&mut report, &ledger, task);
        }
        results(&mut report, run, &tasks);
        queue(&mut report, run, &tasks);
    }
    for run in &evidence.runs {
        report.check(evidence.rot || !run.damaged, run.id, DAMAGED_WITHOUT_ROT, || {
            "the store calls it damaged, but nothing rotted".to_owned()
        });
    }
    observed(&mut report, evidence);
    untold(&mut report, evidence);
    json_lines::judge(&mut report, evidence);
    error_budget::judge(&mut report, evidence);
    arrivals(&mut report, evidence);
    report
}

fn exists(report: &mut Report, run: &RunEvidence) {
    report.check(!run.acknowledged || run.version.0 > 0, run.id, RUN_LOST, || {
        "it was acknowledged but the store does not have it".to_owned()
    });
    if run.first.0 > 0 || run.events.is_empty() {
        return;
    }
    let altered = match &run.events[0].event {
        Event::RunCreated { workflow, seed, input } => {
            let is_asked = run.input.is_none() || *input == asked_input(run);
            *workflow != run.workflow || *seed != run.seed || !is_asked
        }
        _ => true,
    };
    let again = run.events.iter().skip(1).any(|r| matches!(r.event, Event::RunCreated { .. }));
    report.check(!altered && !again, run.id, RUN_ALTERED, || {
        "its first event is not the creation of what was submitted".to_owned()
    });
}

fn order(report: &mut Report, run: &RunEvidence) {
    let next = run.first.after(run.events.len());
    report.check(next == run.version, run.id, VERSION_GAP, || {
        format!("events reach {}, the store counts {}", next.0, run.version.0)
    });
    let kept: Vec<_> = entries(run).collect();
    for pair in kept.windows(2) {
        report.check(pair[0].at <= pair[1].at, run.id, TIME_WENT_BACK, || {
            format!("{} is followed by {}", pair[0].show(), pair[1].show())
        });
    }
}

/// A task that succeeded does not run again.
fn success(report: &mut Report, ledger: &AttemptRecords<'_>, task: &TaskHistory<'_>) {
    let done = task.entries.iter().position(|e| matches!(e.event, Event::TaskSucceeded { .. }));
    let Some(done) = done else { return };
    let again =
        task.entries[done..].iter().find(|e| matches!(e.event, Event::AttemptStarted { .. }));
    report.check(again.is_none(), task.run.id, SUCCEEDED_RAN_AGAIN, || {
        again.map(|e| e.show()).unwrap_or_default()
    });
    let Event::TaskSucceeded { attempt, .. } = task.entries[done].event else { return };
    let later = ledger.last_attempt(task.run.id, task.task).filter(|n| n > attempt);
    report.check(later.is_none(), task.run.id, ARRIVAL_AFTER_SUCCESS, || {
        let shown = task.entries[done].show();
        format!("attempt {} arrived although {shown}", later.unwrap_or_default())
    });
}

/// The results table holds each success and nothing else. It is not kept where it is not shown.
fn results(report: &mut Report, run: &RunEvidence, tasks: &[TaskHistory<'_>]) {
    let mut earned: BTreeMap<(TaskId, u32), Digest> = BTreeMap::new();
    for entry in tasks.iter().flat_map(|t| &t.entries) {
        if let Event::TaskSucceeded { task, attempt, digest, .. } = entry.event {
            earned.insert((*task, *attempt), *digest);
        }
    }
    for ((task, attempt), digest) in &earned {
        let kept = run.results.iter().find(|r| r.task == *task && r.attempt == *attempt);
        let right = kept.is_some_and(|r| Digest::of(&r.result) == *digest);
        report.check(right, run.id, RESULT_LOST, || {
            format!("task {task} succeeded in attempt {attempt} but its result is not there")
        });
    }
    if run.first.0 > 0 {
        return;
    }
    for row in &run.results {
        let right = earned.contains_key(&(row.task, row.attempt));
        report.check(right, run.id, RESULT_UNEARNED, || {
            format!("a result of task {} attempt {} without its success", row.task, row.attempt)
        });
    }
}

/// Queue rows follow the events: a waiting task is due, a started one leased, an ended one gone.
fn queue(report: &mut Report, run: &RunEvidence, tasks: &[TaskHistory<'_>]) {
    let over = entries(run).any(|e| matches!(e.event, Event::RunEnded { .. }));
    let rolled = entries(run).find(|e| matches!(e.event, Event::RollbackStarted { .. }));
    let rolled = rolled.map(|e| e.number);
    for task in tasks {
        let row = run.queue.iter().find(|r| r.task == task.task);
        let Some(last) = task.entries.last() else { continue };
        let called_off = rolled.is_some_and(|number| last.number < number);
        let right = match over || called_off {
            true => row.is_none(),
            false => fits(last.event, row),
        };
        report.check(right, run.id, QUEUE_ROW_WRONG, || {
            format!("its row is {row:?} after {}", last.show())
        });
    }
    if !over {
        fresh(report, run, tasks, rolled);
    }
}

/// A task that has not begun waits for its first attempt.
fn fresh(report: &mut Report, run: &RunEvidence, tasks: &[TaskHistory<'_>], rolled: Option<u64>) {
    for entry in entries(run).filter(|e| rolled.is_none_or(|number| e.number > number)) {
        let fresh: Vec<TaskId> = match entry.event {
            Event::StepEntered { step, tasks } => {
                (0..*tasks).map(|item| TaskId { step: *step, item }).collect()
            }
            Event::CompensationStarted { task } => vec![*task],
            _ => continue,
        };
        for task in fresh {
            let begun = tasks.iter().any(|t| t.task == task);
            let waits = run.queue.iter().any(|r| {
                r.task == task && r.attempt == 1 && matches!(r.state, QueueState::Due { .. })
            });
            report.check(begun || waits, run.id, QUEUE_ROW_WRONG, || {
                format!("task {task} has not begun and does not wait: {}", entry.show())
            });
        }
    }
}

fn fits(last: &Event, row: Option<&QueueRow>) -> bool {
    match (last, row.map(|r| (r.attempt, &r.state))) {
        (
            Event::AttemptStarted { attempt, token, .. },
            Some((n, QueueState::Leased { token: t, .. })),
        ) => n == *attempt && t == token,
        (Event::RetryScheduled { attempt, .. }, Some((n, QueueState::Due { .. }))) => n == *attempt,
        (Event::AttemptStarted { .. } | Event::RetryScheduled { .. }, _) => false,
        (_, row) => row.is_none(),
    }
}

/// Every event that observers received is durable, with the same number and content.
fn observed(report: &mut Report, evidence: &Evidence) {
    let runs: BTreeMap<_, _> = evidence.runs.iter().map(|r| (r.id, r)).collect();
    for observed in &evidence.observed {
        alive(report, evidence, observed);
        let Some(run) = runs.get(&observed.run) else {
            report.check(false, observed.run, TOLD_BUT_LOST, || shown(observed));
            continue;
        };
        if run.damaged || observed.number < run.first {
            continue;
        }
        let at = usize::try_from(observed.number.0 - run.first.0).unwrap_or(usize::MAX);
        let kept = run.events.get(at);
        report.check(kept.is_some(), observed.run, TOLD_BUT_LOST, || shown(observed));
        if let Some(kept) = kept {
            report.check(*kept == observed.recorded, observed.run, TOLD_OTHERWISE, || {
                format!("{}; durable is {} at {}", shown(observed), kept.event.name(), kept.at)
            });
        }
    }
}

/// The writer of an event reports it, because it asks again for a lost answer. Only an engine that
/// dies leaves an event unreported.
fn untold(report: &mut Report, evidence: &Evidence) {
    if evidence.lifespans.iter().any(|l| l.died.is_some() && l.node != STORE) {
        return;
    }
    let observed: BTreeSet<_> = evidence.observed.iter().map(|t| (t.run, t.number.0)).collect();
    for run in evidence.runs.iter().filter(|r| !r.damaged) {
        for entry in entries(run) {
            report.check(observed.contains(&(run.id, entry.number)), run.id, NEVER_TOLD, || {
                format!("no observer got {}", entry.show())
            });
        }
    }
}

fn alive(report: &mut Report, evidence: &Evidence, observed: &ObservedEvent) {
    let mut lifespans = evidence
        .lifespans
        .iter()
        .filter(|l| l.node == observed.node && l.incarnation == observed.incarnation);
    let Some(incarnation) = lifespans.next() else { return };
    let lived =
        incarnation.born <= observed.at && incarnation.died.is_none_or(|d| observed.at <= d);
    report.check(lived, observed.run, TOLD_BY_THE_DEAD, || shown(observed));
}

fn shown(observed: &ObservedEvent) -> String {
    let (node, incarnation, number) = (&observed.node, observed.incarnation, observed.number.0);
    let at = retrial::time::Nanos::new(observed.at.as_nanos());
    format!(
        "{node} (incarnation {incarnation}) reported #{number} {} at {at}",
        observed.recorded.event.name()
    )
}

/// Every arrival belongs to a durable start: write, then act.
fn arrivals(report: &mut Report, evidence: &Evidence) {
    let known = receipts(evidence);
    let lossy = evidence.rot || evidence.runs.iter().any(|r| r.damaged || r.first.0 > 0);
    for arrival in &evidence.ledger {
        let (Some(token), Some(n)) = (&arrival.receipt_token, arrival.retry_attempt) else {
            continue;
        };
        let at = retrial::time::Nanos::new(arrival.at.as_nanos());
        let Some((run, task)) = known.get(token) else {
            report.check(lossy, None, STRAY_ARRIVAL, || {
                format!("{} at {at} with receipt token {token}", arrival.path)
            });
            continue;
        };
        let started = entries(run).any(|e| {
            matches!(e.event, Event::AttemptStarted { task: t, attempt, .. }
                if t == task && *attempt == n.saturating_add(1))
        });
        let excused = run.damaged || run.first.0 > 0;
        report.check(started || excused, run.id, ACTED_BEFORE_WRITING, || {
            format!("task {task}, X-Retry-Attempt {n} arrived at {at} without a durable start")
        });
    }
}
