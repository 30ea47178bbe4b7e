//! Promise 1: no infinite loop. Attempts stay within the policy's limit, every acknowledged run,
//! and every one that delivers an alert, ends once faults have stopped, and the events kept of a
//! run are bounded.

use retrial::run::Event;
use retrial::time::{Mono, Nanos};

use super::history::{TaskHistory, entries, tasks};
use super::{Promise, Report, policy_model};
use crate::evidence::{Bound, Evidence, RunEvidence};

/// The run never ended.
pub const STUCK: &str = "stuck";
/// The run ended after the bound.
pub const LATE: &str = "late";
/// More attempts than the policy allows.
pub const TOO_MANY_ATTEMPTS: &str = "too_many_attempts";
/// More events are kept than a run may hold.
pub const UNBOUNDED_HISTORY: &str = "unbounded_history";

/// The most attempts of one task with events that are kept: twice the first 10 and last 100 that
/// trimming keeps, because trimming waits for the next snapshot.
const KEPT_ATTEMPTS: u64 = 220;
/// Started, failed, scheduled. Events of holds and costs are not counted here: other oracles check
/// that each occurs at most once.
const EVENTS_AN_ATTEMPT: u64 = 3;
/// Entered, ended, and a route for each edge are counted apart; this is for the run itself.
const EVENTS_A_RUN: u64 = 12;

/// Judges promise 1.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Termination);
    for run in &evidence.runs {
        let tasks = tasks(run);
        for task in &tasks {
            attempts(&mut report, task);
        }
        // A run that delivers an alert has no acknowledgement: it was added with the alert.
        if (run.acknowledged || run.is_webhook) && !run.damaged {
            end(&mut report, evidence, run);
        }
        kept(&mut report, run, &tasks);
    }
    report
}

fn attempts(report: &mut Report, task: &TaskHistory<'_>) {
    let Some(limit) = policy_model::limit(&task.step.policy) else { return };
    let over = task
        .entries
        .iter()
        .find(|e| matches!(e.event, Event::AttemptStarted { attempt, .. } if *attempt > limit));
    let starts =
        task.entries.iter().filter(|e| matches!(e.event, Event::AttemptStarted { .. })).count();
    let holds = over.is_none() && starts <= limit as usize;
    report.check(holds, task.run.id, TOO_MANY_ATTEMPTS, || {
        let shown = over.or(task.entries.last()).map(|e| e.show()).unwrap_or_default();
        format!("task {} may make {limit} attempts but started {starts}: {shown}", task.task)
    });
}

fn end(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let Bound::Within(bound) = evidence.phases.bound else { return };
    if run.left_alone && is_deactivated(run) {
        return;
    }
    let by = evidence.phases.healed_at.after(bound);
    let ended = entries(run).find(|e| matches!(e.event, Event::RunEnded { .. }));
    report.check(ended.is_some(), run.id, STUCK, || {
        let last = entries(run).last().map_or_else(|| "nothing".to_owned(), |e| e.show());
        format!(
            "no end by {}, {bound} after healing at {}; last came {last}",
            shown(by),
            shown(evidence.phases.healed_at)
        )
    });
    let Some(ended) = ended else { return };
    let observed =
        evidence.observed.iter().filter(|t| t.run == run.id && t.number.0 == ended.number);
    let Some(first) = observed.map(|t| t.at).min() else { return };
    report.check(first <= by, run.id, LATE, || {
        format!("{} was reported at {}, after the bound {}", ended.show(), shown(first), shown(by))
    });
}

/// Whether the run was last taken out of recovery and claiming.
fn is_deactivated(run: &RunEvidence) -> bool {
    let last = entries(run)
        .filter(|e| matches!(e.event, Event::RunActivated | Event::RunDeactivated))
        .last();
    last.is_some_and(|e| matches!(e.event, Event::RunDeactivated))
}

fn kept(report: &mut Report, run: &RunEvidence, tasks: &[TaskHistory<'_>]) {
    let apart = entries(run)
        .filter(|e| {
            matches!(
                e.event,
                Event::RunActivated
                    | Event::RunDeactivated
                    | Event::RunPaused { .. }
                    | Event::RunResumed
                    | Event::FailRequested { .. }
                    | Event::TaskHeld { .. }
                    | Event::TaskQuarantined { .. }
                    | Event::TaskReleased { .. }
                    | Event::CostReported { .. }
            )
        })
        .count();
    let a_task = |t: &TaskHistory<'_>| {
        let attempts = policy_model::limit(&t.step.policy).map_or(KEPT_ATTEMPTS, u64::from);
        1 + EVENTS_AN_ATTEMPT * attempts.min(KEPT_ATTEMPTS)
    };
    let steps = run.workflow.steps().len() + run.workflow.transitions().len();
    let graph = EVENTS_A_RUN + 3 * steps as u64;
    let most = graph + tasks.iter().map(a_task).sum::<u64>();
    let count = (run.events.len() - apart) as u64;
    report.check(count <= most, run.id, UNBOUNDED_HISTORY, || {
        format!("{count} events are kept where its tasks' limits allow {most}")
    });
}

fn shown(at: Mono) -> Nanos {
    Nanos::new(at.as_nanos())
}
