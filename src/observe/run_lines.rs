//! The printed lines about a run, beside those about its tasks.

use super::Notice;
use super::format::{fans_out, percent, seconds, step_name, task_name};
use super::line::{Line, Tone};
use crate::failure::ErrorContext;
use crate::failure::sanitise::clean;
use crate::guard::Alert;
use crate::run::{Event, Outcome, RouteCause, TaskId};
use crate::time::Timestamp;

/// The line for an event that is not about one task; `None` if the event has no line. `began` is when
/// the run was created; `prefix` goes before names.
pub(super) fn line(notice: &Notice<'_>, began: Option<Timestamp>, prefix: &str) -> Option<Line> {
    let workflow = clean(notice.workflow.name());
    let step = |at| format!("{prefix}{}", step_name(notice.workflow, at));
    Some(match notice.event {
        Event::RunCreated { .. } => plain(format!("▶ {workflow} [RUN STARTED] {}", notice.run)),
        Event::RunActivated => plain(format!("▶ {workflow} [RUN ACTIVATED] {}", notice.run)),
        Event::RunDeactivated => faint(format!("⊘ {workflow} [RUN DEACTIVATED] {}", notice.run)),
        Event::StepEntered { step: at, tasks } if fans_out(notice.workflow, *at) => {
            let tasks = super::format::counted(*tasks, "task", "tasks");
            plain(format!("🔧 {} [FANNED OUT into {tasks}]", step(*at)))
        }
        Event::StepUnreachable { step: at } => faint(format!("⊘ {} [UNREACHABLE]", step(*at))),
        Event::StepSkipped { step: at } => faint(format!("⊘ {} [SKIPPED]", step(*at))),
        Event::Routed { from, to, cause: RouteCause::Failure } => {
            let to = step_name(notice.workflow, *to);
            Line::new(Tone::Retry, format!("↳ {} failed: routed to {to}", step(*from)))
        }
        Event::RunPaused { reason } => {
            faint(format!("⊘ {workflow} [RETRIES PAUSED] - {}", clean(reason)))
        }
        Event::RunResumed => plain(format!("▶ {workflow} [RETRIES RESUMED]")),
        Event::FailRequested { step: at, reason, .. } => {
            faint(format!("⊘ {} [FAILED BY HAND] - {}", step(*at), clean(reason)))
        }
        Event::CancelRequested { reason } => {
            faint(format!("⊘ {workflow} [CANCEL REQUESTED] - {}", clean(reason)))
        }
        Event::RollbackStarted { outcome } => {
            let why = match outcome {
                Outcome::Completed => String::new(),
                Outcome::Failed { error } => format!(" - {}", cause(error)),
                Outcome::Cancelled { reason } => format!(" - {}", clean(reason)),
            };
            Line::new(Tone::Retry, format!("↺ {prefix}{workflow} [ROLLING BACK]{why}"))
        }
        Event::CompensationStarted { task } => {
            let of = notice.workflow.step(task.step)?.compensates?;
            let undone = TaskId { step: of, item: task.item };
            let (by, of) = (task_name(notice.workflow, *task), task_name(notice.workflow, undone));
            Line::new(Tone::Retry, format!("↺ {prefix}{by} undoes {of}"))
        }
        Event::RollbackEnded { complete: true } => {
            Line::new(Tone::Good, format!("✔ {prefix}{workflow} [ROLLED BACK]"))
        }
        Event::RollbackEnded { complete: false } => {
            Line::new(Tone::Bad, format!("✖ {prefix}{workflow} [ROLLBACK INCOMPLETE]"))
        }
        Event::ErrorBudgetBurnt { task, alert, .. } => {
            let action = &notice.workflow.step(task.step)?.action;
            burnt(&format!("{prefix}{}", clean(action)), alert)
        }
        Event::RunEnded { outcome } => {
            let total = began.map(|b| format!(" ({} total)", seconds(notice.at.since(b))));
            ended(&format!("{prefix}{workflow}"), &total.unwrap_or_default(), outcome)
        }
        _ => return None,
    })
}

/// `⚠ charge [ERROR BUDGET 50% BURNT] - 6 of 400 calls failed, 150% of the budget`.
fn burnt(action: &str, alert: &Alert) -> Line {
    let Alert { threshold, burnt, failures, calls } = *alert;
    let (threshold, burnt) = (percent(threshold), percent(burnt));
    let text = format!(
        "⚠ {action} [ERROR BUDGET {threshold} BURNT] - {failures} of {calls} calls failed, {burnt} of the budget"
    );
    Line::new(Tone::Bad, text)
}

fn ended(name: &str, total: &str, outcome: &Outcome) -> Line {
    match outcome {
        Outcome::Completed => Line::new(Tone::Good, format!("✔ {name} [RUN COMPLETED]{total}")),
        Outcome::Failed { error } => {
            Line::new(Tone::Bad, format!("✖ {name} [RUN FAILED]{total} - {}", cause(error)))
        }
        Outcome::Cancelled { reason } => {
            faint(format!("⊘ {name} [RUN CANCELLED]{total} - {}", clean(reason)))
        }
    }
}

/// `fetch_data: 503: service unavailable`.
fn cause(error: &ErrorContext) -> String {
    let (step, message) = (clean(&error.node_id), clean(&error.message));
    format!("{step}: {}: {message}", clean(error.code.as_str()))
}

fn plain(text: String) -> Line {
    Line::new(Tone::Plain, text)
}

fn faint(text: String) -> Line {
    Line::new(Tone::Faint, text)
}
