//! A notice as one JSON object, for streams and logs: all retry metadata, no secrets.
//!
//! Every text passes the sanitiser. Inputs and results are masked; delivery tokens, digests of results
//! and the definition's text are left out.

use serde_json::{Map, Value, json};

use super::Notice;
use super::format::{fans_out, kind_name, step_name};
use crate::failure::sanitise::clean;
use crate::failure::{Class, ErrorContext, Failure};
use crate::run::{Event, Outcome, TaskId, TaskTime};
use crate::time::{Nanos, Timestamp};

/// The replacement of a masked value.
pub const MASK: &str = "***";

/// The version of the schema, which `docs/events.md` describes. It grows when a field is removed or
/// changes its meaning, not when fields or events are added.
pub const SCHEMA: u32 = 1;

/// The notice as one JSON object. `retry_attempt` is `attempt - 1`, `retry_delay` is in seconds,
/// as the rh_agents document has them; fields that end in `_ms` are in milliseconds.
#[must_use]
pub fn object(notice: &Notice<'_>) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |fields: Value| {
        if let Value::Object(fields) = present(fields) {
            object.extend(fields);
        }
    };
    put(json!({
        "schema": SCHEMA,
        "run": notice.run.to_string(),
        "workflow": clean(notice.workflow.name()),
        "number": notice.number.0,
        "at": notice.at.to_string(),
        "event": notice.event.name(),
    }));
    if let Some(task) = notice.event.task() {
        put(task_fields(notice, task));
    }
    put(event_fields(notice));
    object
}

/// The fields whose value is not null.
pub(super) fn present(mut fields: Value) -> Value {
    if let Value::Object(fields) = &mut fields {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

/// `value` with its shape kept and every text, number and truth value in it masked.
#[must_use]
pub fn masked(value: &Value) -> Value {
    match value {
        Value::Object(fields) => masked_object(fields),
        Value::Array(items) => items.iter().map(masked).collect(),
        Value::Null => Value::Null,
        Value::String(_) | Value::Number(_) | Value::Bool(_) => MASK.into(),
    }
}

fn masked_object(fields: &Map<String, Value>) -> Value {
    Value::Object(fields.iter().map(|(name, value)| (clean(name), masked(value))).collect())
}

fn task_fields(notice: &Notice<'_>, task: TaskId) -> Value {
    let action = notice.workflow.step(task.step).map(|step| clean(&step.action));
    let item = fans_out(notice.workflow, task.step).then_some(task.item);
    json!({ "step": step_name(notice.workflow, task.step), "item": item, "action": action })
}

fn event_fields(notice: &Notice<'_>) -> Value {
    let step = |at| step_name(notice.workflow, at);
    match notice.event {
        Event::RunCreated { workflow, input, .. } => {
            json!({ "steps": workflow.steps().len(), "input": masked_object(input) })
        }
        Event::RunActivated
        | Event::RunDeactivated
        | Event::RunResumed
        | Event::TaskCancelled { .. } => json!({}),
        Event::RunPaused { reason } => json!({ "reason": clean(reason) }),
        Event::FailRequested { step: at, item, reason } => {
            json!({ "step": step(*at), "item": item, "reason": clean(reason) })
        }
        Event::StepEntered { step: at, tasks } => json!({ "step": step(*at), "tasks": tasks }),
        Event::StepSucceeded { step: at }
        | Event::StepUnreachable { step: at }
        | Event::StepSkipped { step: at } => json!({ "step": step(*at) }),
        Event::StepFailed { step: at, error } => {
            json!({ "step": step(*at), "error": error_json(error) })
        }
        Event::Routed { from, to, cause } => {
            json!({ "from": step(*from), "to": step(*to), "cause": cause })
        }
        Event::CancelRequested { reason } => json!({ "reason": clean(reason) }),
        Event::RollbackStarted { outcome } => outcome_fields(outcome),
        Event::CompensationStarted { task } => compensation(notice, *task),
        Event::ErrorBudgetBurnt { task, attempt, alert, webhook } => {
            let mut fields = task_fields(notice, *task);
            fields["attempt"] = (*attempt).into();
            fields["threshold"] = share(alert.threshold);
            fields["burnt"] = share(alert.burnt);
            fields["failures"] = alert.failures.into();
            fields["calls"] = alert.calls.into();
            fields["webhook"] = webhook.map(|run| run.to_string()).into();
            fields
        }
        Event::RollbackEnded { complete } => json!({ "complete": complete }),
        Event::RunEnded { outcome } => outcome_fields(outcome),
        Event::AttemptStarted { .. }
        | Event::TaskHeld { .. }
        | Event::AttemptFailed { .. }
        | Event::RetryScheduled { .. }
        | Event::TaskQuarantined { .. }
        | Event::TaskReleased { .. }
        | Event::CostReported { .. }
        | Event::TaskSucceeded { .. }
        | Event::TaskFailed { .. } => attempt_fields(notice.event, notice.at),
    }
}

fn compensation(notice: &Notice<'_>, task: TaskId) -> Value {
    let of = notice.workflow.step(task.step).and_then(|step| step.compensates);
    let mut fields = task_fields(notice, task);
    fields["compensates"] = of.map(|of| step_name(notice.workflow, of)).into();
    fields
}

fn attempt_fields(event: &Event, at: Timestamp) -> Value {
    let mut fields = match event {
        Event::AttemptStarted { timeout, retries_left, retry, .. } => json!({
            "timeout_ms": timeout.map(Nanos::as_millis),
            "retries_left": retries_left,
            "retry_delay": retry.as_ref().map(|r| in_seconds(r.delay)),
            "original_error": retry.as_ref().map(|r| clean(&r.original_error)),
        }),
        Event::TaskHeld { by, until, .. } => json!({
            "held_by": by,
            "held_for": in_seconds(until.since(at)),
        }),
        Event::AttemptFailed { failure, will_retry, took, .. } => json!({
            "will_retry": will_retry,
            "error": failure_json(failure),
            "took": in_seconds(*took),
        }),
        Event::RetryScheduled { attempt, delay, backoff, kind, code, rule, .. } => json!({
            "next_attempt": attempt,
            "retry_delay": in_seconds(*delay),
            "backoff": in_seconds(*backoff),
            "retry_kind": kind_name(*kind),
            "reason": clean(code.as_str()),
            "rule": rule,
        }),
        Event::TaskQuarantined { lost, .. } => json!({ "lost_attempts": lost }),
        Event::TaskReleased { reason, .. } => json!({ "reason": clean(reason) }),
        Event::CostReported { cost, .. } => json!({ "cost_millionths": cost.millionths() }),
        Event::TaskSucceeded { attempt, spent, .. } => {
            json!({ "total_attempts": attempt, "result": MASK, "spent": time_spent(*spent) })
        }
        Event::TaskFailed { attempts, reason, error, spent, .. } => json!({
            "total_attempts": attempts,
            "reason": reason,
            "reason_text": reason.to_string(),
            "error": error_json(error),
            "spent": time_spent(*spent),
        }),
        _ => json!({}),
    };
    if let (Some(n), Some(fields)) = (number(event), fields.as_object_mut()) {
        fields.insert("attempt".into(), n.into());
        fields.insert("retry_attempt".into(), n.saturating_sub(1).into());
        fields.insert("is_retry".into(), (n > 1).into());
    }
    fields
}

/// The attempt that the event is about, from 1.
fn number(event: &Event) -> Option<u32> {
    match event {
        Event::AttemptStarted { attempt, .. }
        | Event::TaskHeld { attempt, .. }
        | Event::AttemptFailed { attempt, .. }
        | Event::RetryScheduled { attempt, .. }
        | Event::TaskQuarantined { attempt, .. }
        | Event::TaskReleased { attempt, .. }
        | Event::CostReported { attempt, .. }
        | Event::TaskSucceeded { attempt, .. } => Some(*attempt),
        Event::TaskFailed { attempts, .. } => Some(*attempts),
        _ => None,
    }
}

/// The time spent on a task.
fn time_spent(spent: TaskTime) -> Value {
    json!({
        "working": in_seconds(spent.working),
        "failing": in_seconds(spent.failing),
        "waiting": in_seconds(spent.waiting),
        "total": in_seconds(spent.total()),
    })
}

pub(super) fn failure_json(failure: &Failure) -> Value {
    present(json!({
        "code": clean(failure.code().as_str()),
        "message": clean(failure.message()),
        "type": failure.lineage().first().map(|name| clean(name)),
        "retryable": failure.class() == Class::Retryable,
        "kind": kind_name(failure.kind()),
        "retry_after": failure.retry_after().map(in_seconds),
    }))
}

/// An error context, with the field names of the capability 5 document.
pub(super) fn error_json(error: &ErrorContext) -> Value {
    present(json!({
        "code": clean(error.code.as_str()),
        "message": clean(&error.message),
        "retryable": error.retryable,
        "node_id": clean(&error.node_id),
        "action_id": clean(&error.action_id),
        "timestamp": clean(&error.timestamp),
        "attempt": error.attempt,
        "stack_trace": error.stack_trace.as_deref().map(clean),
    }))
}

fn outcome_fields(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Completed => json!({ "outcome": "completed" }),
        Outcome::Failed { error } => json!({ "outcome": "failed", "error": error_json(error) }),
        Outcome::Cancelled { reason } => {
            json!({ "outcome": "cancelled", "reason": clean(reason) })
        }
    }
}

/// A share as a JSON number, written exactly.
fn share(millionths: u64) -> Value {
    serde_json::from_str(&crate::dialect::millionths(millionths)).unwrap_or_default()
}

/// Seconds as a JSON number, for output only: computations use integers.
pub(super) fn in_seconds(length: Nanos) -> Value {
    std::time::Duration::from(length).as_secs_f64().into()
}
