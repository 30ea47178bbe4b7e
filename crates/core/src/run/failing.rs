//! What follows when an attempt or a waiting task fails.

use super::{Event, RunState, TaskId, TaskPhase, TaskState};
use crate::failure::{Class, ErrorContext, Failure, sanitise};
use crate::policy::{Functions, GiveUp, Policy, Used, Verdict};
use crate::time::Timestamp;
use crate::workflow::StepIx;

/// The attempt came up at or after the total timeout: it does not start. The
/// error is the last failure, as where the verdict gives up: routing must not depend on how late
/// the claim was.
pub(super) fn out_of_time(
    state: &RunState,
    task: TaskId,
    found: &TaskState,
    now: Timestamp,
) -> Event {
    let otherwise = || Failure::timed_out("the total timeout passed");
    give_up(state, task, found, GiveUp::TotalTimeout, otherwise, now)
}

/// The attempt does not start: nobody may be asked to hold its arguments. No retry could make them
/// smaller, so the task fails for good, whatever its last failure was.
pub(super) fn too_large(
    state: &RunState,
    task: TaskId,
    found: &TaskState,
    now: Timestamp,
) -> Event {
    let attempts = found.attempt.saturating_sub(1);
    let error = error_context(state, task, &Failure::arguments_too_large(), attempts, now);
    let (reason, spent) = (GiveUp::NotRetryable, found.watch.waited(now));
    Event::TaskFailed { task, attempts, reason, error, spent }
}

/// Each waiting task fails now and is routed like any other. An attempt in progress goes on.
pub(super) fn fail_by_hand(
    state: &RunState,
    step: StepIx,
    item: Option<u32>,
    reason: &str,
    now: Timestamp,
) -> Vec<Event> {
    let reason = sanitise::message(reason, Failure::MAX_MESSAGE);
    let meant = |task: TaskId| task.step == step && item.is_none_or(|item| item == task.item);
    let waiting = state.tasks().filter(|(id, t)| meant(*id) && t.phase == TaskPhase::Queued);
    let otherwise = || Failure::new("FAILED_BY_HAND", &reason);
    let failed: Vec<Event> = waiting
        .map(|(id, found)| give_up(state, id, found, GiveUp::ByHand, otherwise, now))
        .collect();
    let asked = Event::FailRequested { step, item, reason: reason.clone() };
    if failed.is_empty() { failed } else { std::iter::once(asked).chain(failed).collect() }
}

/// The final failure of a task that waits: its error is its last failure, where it has one.
fn give_up(
    state: &RunState,
    task: TaskId,
    found: &TaskState,
    reason: GiveUp,
    otherwise: impl Fn() -> Failure,
    now: Timestamp,
) -> Event {
    let attempts = found.attempt.saturating_sub(1);
    let failure = found.failure.clone().unwrap_or_else(|| Box::new(otherwise()));
    let error = error_context(state, task, &failure, attempts, now);
    let spent = found.watch.waited(now);
    Event::TaskFailed { task, attempts, reason, error, spent }
}

/// The failure, and the retry or the end that follows from it. One commit.
pub(super) fn failed(
    state: &RunState,
    task: TaskId,
    failure: &Failure,
    denied: bool,
    now: Timestamp,
    functions: &Functions,
) -> Vec<Event> {
    let (Some(found), Some(step)) = (state.task(task), state.definition(task.step)) else {
        return Vec::new();
    };
    let attempt = found.attempt;
    let used = Used {
        attempt,
        idempotent: state.workflow.is_idempotent(step),
        timeout_retries: found.timeout_retries,
        by_rule: &found.by_rule,
        previous: found.backoff,
        first_started: found.first_started.unwrap_or(now),
    };
    let chance = task.chance(state.seed, attempt);
    let verdict = match step.policy.verdict(failure, &used, now, chance, functions) {
        Verdict::Retry { .. } if denied || !state.group_affords(task.step, failure) => {
            Verdict::GiveUp(GiveUp::RetryBudget)
        }
        verdict => verdict,
    };
    let will_retry = matches!(verdict, Verdict::Retry { .. });
    let took = found.watch.passed(now);
    let ended = Event::AttemptFailed { task, attempt, failure: failure.clone(), will_retry, took };
    let follows = match verdict {
        Verdict::Retry { delay, backoff, rule } => Event::RetryScheduled {
            task,
            attempt: attempt.saturating_add(1),
            delay,
            backoff,
            kind: failure.kind(),
            code: failure.code().clone(),
            rule: (!step.policy.counting().is_shared()).then_some(rule),
        },
        Verdict::GiveUp(reason) => Event::TaskFailed {
            task,
            attempts: attempt,
            reason,
            error: {
                let error = error_context(state, task, failure, attempt, now);
                explained(error, reason, failure, &step.policy)
            },
            spent: found.watch.failed(now),
        },
    };
    vec![ended, follows]
}

/// The failure keeps its own code, so that it is routed like any other; its message says what denied
/// the retry.
fn explained(
    mut error: ErrorContext,
    reason: GiveUp,
    failure: &Failure,
    policy: &Policy,
) -> ErrorContext {
    let why = match (reason, reason.numbers(policy, failure)) {
        (GiveUp::RetryBudget, _) => format!("RETRY_BUDGET: {reason}"),
        (_, Some(numbers)) => format!("{reason}: {numbers}"),
        (_, None) => return error,
    };
    error.message = format!("{} ({why})", error.message);
    error
}

fn error_context(
    state: &RunState,
    task: TaskId,
    failure: &Failure,
    attempt: u32,
    now: Timestamp,
) -> ErrorContext {
    let step = state.definition(task.step);
    let retryable = step.is_some_and(|s| s.policy.class_of(failure) == Class::Retryable);
    let (id, action) = step.map_or(("", ""), |s| (s.id.as_str(), s.action.as_str()));
    ErrorContext::new(failure, retryable, id, action, attempt, now)
}
