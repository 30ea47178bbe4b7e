//! Histories as text: one event a line, seconds since the start before it.

use std::fmt::Write;

use retrial_core::run::{Event, Outcome, Recorded, RouteCause, TaskId};
use retrial_core::workflow::{StepIx, Workflow};

use super::world::{START, World};

/// The whole history.
pub fn history(world: &World) -> String {
    show(&world.log, world.state.workflow())
}

/// `events` of a run of `workflow`.
pub fn show(events: &[Recorded], workflow: &Workflow) -> String {
    events.iter().fold(String::new(), |mut text, r| {
        let _ = writeln!(text, "{:>5} {}", r.at.since(START).to_string(), line(&r.event, workflow));
        text
    })
}

fn line(event: &Event, workflow: &Workflow) -> String {
    let step = |at: &StepIx| workflow.step(*at).map_or("?", |s| s.id.as_str()).to_owned();
    let task = |t: &TaskId| match workflow.fans_out(t.step) {
        true => format!("{}[{}]", step(&t.step), t.item),
        false => step(&t.step),
    };
    match event {
        Event::RunCreated { .. } => "created".into(),
        Event::RunActivated => "activated".into(),
        Event::RunDeactivated => "deactivated".into(),
        Event::StepEntered { step: s, tasks } => format!("entered {} x{tasks}", step(s)),
        Event::AttemptStarted { task: t, attempt, timeout, retries_left, retry, .. } => {
            let mut text = format!("started {} #{attempt}", task(t));
            let left = retries_left.map_or("unlimited".into(), |n| n.to_string());
            let _ = write!(text, " left={left}");
            if let Some(limit) = timeout {
                let _ = write!(text, " timeout={limit}");
            }
            if let Some(of) = retry {
                let _ = write!(text, " after {} of {:?}", of.delay, of.original_error);
            }
            text
        }
        Event::TaskHeld { task: t, attempt, by, until } => {
            format!("held {} #{attempt} by the {by} until {}", task(t), until.since(START))
        }
        Event::TaskQuarantined { task: t, attempt, lost } => {
            format!("quarantined {} #{attempt} after {lost} lost", task(t))
        }
        Event::TaskReleased { task: t, attempt, reason } => {
            format!("released {} #{attempt} {reason:?}", task(t))
        }
        Event::AttemptFailed { task: t, attempt, failure, will_retry, .. } => {
            format!("failed {} #{attempt} {} will_retry={will_retry}", task(t), failure.code())
        }
        Event::RetryScheduled { task: t, attempt, delay, backoff, kind, code, rule } => {
            let rule = rule.map(|n| format!(" rule={n}")).unwrap_or_default();
            format!(
                "retrying {} #{attempt} in {delay} backoff={backoff} {kind} {code}{rule}",
                task(t)
            )
        }
        Event::CostReported { task: t, attempt, cost } => {
            format!("spent {} #{attempt} {cost}", task(t))
        }
        Event::ErrorBudgetBurnt { task: t, attempt, alert, .. } => {
            format!("burnt {} #{attempt} {alert:?}", task(t))
        }
        Event::TaskSucceeded { task: t, attempt, .. } => {
            format!("succeeded {} #{attempt}", task(t))
        }
        Event::TaskFailed { task: t, attempts, reason, error, .. } => {
            format!("gave up {} after {attempts}: {reason:?} {}", task(t), error.code)
        }
        Event::TaskCancelled { task: t } => format!("cancelled {}", task(t)),
        Event::StepSucceeded { step: s } => format!("step succeeded {}", step(s)),
        Event::StepFailed { step: s, error } => format!("step failed {} {}", step(s), error.code),
        Event::StepUnreachable { step: s } => format!("step unreachable {}", step(s)),
        Event::StepSkipped { step: s } => format!("step skipped {}", step(s)),
        Event::Routed { from, to, cause: RouteCause::Success } => {
            format!("routed {} -> {}", step(from), step(to))
        }
        Event::Routed { from, to, cause: RouteCause::Failure } => {
            format!("routed {} -> {} on failure", step(from), step(to))
        }
        Event::RunPaused { reason } => format!("paused: {reason}"),
        Event::RunResumed => "resumed".into(),
        Event::FailRequested { step: s, item, reason } => {
            format!("fail requested {} {item:?}: {reason}", step(s))
        }
        Event::CancelRequested { reason } => format!("cancel requested: {reason}"),
        Event::RollbackStarted { outcome } => {
            let why = match outcome {
                Outcome::Completed => "completed".to_owned(),
                Outcome::Failed { error } => format!("failed {}", error.code),
                Outcome::Cancelled { reason } => format!("cancelled: {reason}"),
            };
            format!("rolling back, {why}")
        }
        Event::CompensationStarted { task: t } => format!("compensating {}", task(t)),
        Event::RollbackEnded { complete } => format!("rolled back complete={complete}"),
        Event::RunEnded { outcome: Outcome::Completed } => "ended completed".into(),
        Event::RunEnded { outcome: Outcome::Failed { error } } => {
            format!("ended failed {} of {}", error.code, error.node_id)
        }
        Event::RunEnded { outcome: Outcome::Cancelled { reason } } => {
            format!("ended cancelled: {reason}")
        }
    }
}
