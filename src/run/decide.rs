//! What one input does to one task or run. What follows for steps and the run is `advance`'s.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::view::View;
use super::{
    Cost, Digest, Event, Outcome, Phase, RetryOf, RunState, StepPhase, TaskId, TaskPhase,
    TaskState, Token, rollback,
};
use crate::failure::{Class, ErrorContext, Failure, sanitise};
use crate::policy::{Functions, GiveUp, Policy, Used, Verdict};
use crate::time::{Nanos, Timestamp};
use crate::workflow::StepIx;

/// What reaches a run from outside.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node has reserved the task and wants to start the attempt.
    Claimed {
        /// The task.
        task: TaskId,
        /// The attempt the reservation is for.
        attempt: u32,
        /// The reservation's token.
        token: Token,
    },
    /// The attempt under `token` says what it cost (H17); its outcome follows.
    Cost {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What it cost.
        cost: Cost,
    },
    /// The attempt under `token` succeeded.
    Succeeded {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What it gave.
        result: Arc<Value>,
    },
    /// The attempt under `token` failed.
    Failed {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What went wrong.
        failure: Failure,
    },
    /// The lease under `token` ended, or the attempt's deadline passed, without an outcome.
    Expired {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What passed.
        lapse: Lapse,
    },
    /// Somebody wants the run cancelled.
    Cancel {
        /// In their words.
        reason: String,
    },
    /// Somebody wants the run cancelled and what succeeded in it undone, whatever its workflow says
    /// about rolling back (C18).
    Rollback {
        /// In their words.
        reason: String,
    },
    /// Somebody wants no retry to start until they have decided (H17).
    Pause {
        /// In their words.
        reason: String,
    },
    /// Somebody has decided: retries go on.
    Resume,
    /// Somebody wants waiting tasks of a step to fail now (H17).
    Fail {
        /// The step.
        step: StepIx,
        /// The one item meant; all that wait where absent.
        item: Option<u32>,
        /// In their words.
        reason: String,
    },
    /// Somebody wants the run left alone (A12).
    Deactivate,
    /// Recovery found the run missing from the active projection, or somebody wants it back (A12).
    Activate,
}

/// What passed without an outcome of the attempt (spec decision 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lapse {
    /// The lease: its holder is gone.
    Lease,
    /// The attempt's deadline.
    Deadline,
    /// The time within which a heartbeat must come (X1).
    Heartbeat,
}

/// What `input` at `now` does to a run. Nothing for an ended run, a stale token or an attempt that
/// the task is not at.
#[must_use]
pub fn decide(
    state: &RunState,
    input: &Input,
    now: Timestamp,
    functions: &Functions,
) -> Vec<Event> {
    if matches!(state.phase, Phase::Ended(_)) {
        return Vec::new();
    }
    match input {
        Input::Claimed { task, attempt, token } => claimed(state, *task, *attempt, *token, now),
        Input::Cost { task, token, cost } => match running(state, *task, *token) {
            Some((attempt, _)) => vec![Event::CostReported { task: *task, attempt, cost: *cost }],
            None => Vec::new(),
        },
        Input::Succeeded { task, token, result } => match running(state, *task, *token) {
            Some((attempt, _)) => succeeded(state, *task, attempt, result, now, functions),
            None => Vec::new(),
        },
        Input::Failed { task, token, failure } => match running(state, *task, *token) {
            Some(_) => failed(state, *task, failure, now, functions),
            None => Vec::new(),
        },
        Input::Expired { task, token, lapse } => match running(state, *task, *token) {
            Some((_, timeout)) => {
                let heartbeat = state.workflow.heartbeat_timeout(task.step);
                let failure = match (lapse, timeout, heartbeat) {
                    (Lapse::Deadline, Some(limit), _) => Failure::timeout(limit),
                    (Lapse::Heartbeat, _, Some(limit)) => Failure::heartbeat_missed(limit),
                    _ => Failure::lease_lost(),
                };
                failed(state, *task, &failure, now, functions)
            }
            None => Vec::new(),
        },
        Input::Cancel { reason } => cancelled(state, reason),
        Input::Rollback { .. } if state.rollback.is_some() => Vec::new(),
        Input::Rollback { reason } => {
            let reason = sanitise::message(reason, Failure::MAX_MESSAGE);
            let outcome = Outcome::Cancelled { reason: reason.clone() };
            vec![Event::CancelRequested { reason }, Event::RollbackStarted { outcome }]
        }
        Input::Pause { reason } if state.paused.is_none() => {
            vec![Event::RunPaused { reason: sanitise::message(reason, Failure::MAX_MESSAGE) }]
        }
        Input::Resume if state.paused.is_some() => vec![Event::RunResumed],
        Input::Pause { .. } | Input::Resume => Vec::new(),
        Input::Fail { step, item, reason } => fail_by_hand(state, *step, *item, reason, now),
        Input::Deactivate if state.phase == Phase::Running => vec![Event::RunDeactivated],
        Input::Activate => vec![Event::RunActivated],
        Input::Deactivate => Vec::new(),
    }
}

/// The run ends, or rolls back to its end. A rollback that is cancelled stops where it is: how the
/// run ends was settled when it began.
fn cancelled(state: &RunState, reason: &str) -> Vec<Event> {
    let reason = sanitise::message(reason, Failure::MAX_MESSAGE);
    let asked = Event::CancelRequested { reason: reason.clone() };
    let follows = match &state.rollback {
        Some(rollback) => rollback::stop(rollback, false),
        None => vec![rollback::conclude(state, Outcome::Cancelled { reason })],
    };
    [vec![asked], follows].concat()
}

/// The attempt and its timeout, where `token` is the one that may report on it (R7).
fn running(state: &RunState, task: TaskId, token: Token) -> Option<(u32, Option<Nanos>)> {
    let found = state.task(task)?;
    match found.phase {
        TaskPhase::Running { token: held, timeout } if held == token => {
            Some((found.attempt, timeout))
        }
        _ => None,
    }
}

fn claimed(
    state: &RunState,
    task: TaskId,
    attempt: u32,
    token: Token,
    now: Timestamp,
) -> Vec<Event> {
    let (Some(found), Some(step)) = (state.task(task), state.definition(task.step)) else {
        return Vec::new();
    };
    let active = state.steps.get(task.step.index()).is_some_and(|s| s.phase == StepPhase::Active);
    let waits = found.phase == TaskPhase::Queued && found.attempt == attempt;
    let held_back = state.paused.is_some() && attempt > 1;
    if state.phase != Phase::Running || !active || !waits || held_back {
        return Vec::new();
    }
    let left = match time_left(&step.policy, found, now) {
        Some(Nanos::ZERO) => return vec![out_of_time(state, task, found, now)],
        left => left,
    };
    let timeout = [step.policy.attempt_timeout(), left].into_iter().flatten().min();
    vec![Event::AttemptStarted {
        task,
        attempt,
        token,
        timeout,
        retries_left: step.policy.limit().count().map(|most| most.saturating_sub(attempt)),
        retry: found
            .failure
            .as_ref()
            .map(|error| RetryOf { delay: found.delay, original_error: error.to_string() }),
    }]
}

/// A success, unless the result breaks what the step ensures: that is a failure of the attempt, and
/// nothing keeps the result (H10).
fn succeeded(
    state: &RunState,
    task: TaskId,
    attempt: u32,
    result: &Arc<Value>,
    now: Timestamp,
    functions: &Functions,
) -> Vec<Event> {
    let ensures = state.definition(task.step).and_then(|s| s.ensures.as_ref());
    if ensures.is_some_and(|c| !c.holds(&View::of_task(state, task).with_result(result))) {
        let failure = Failure::postcondition("the result is not what the step ensures");
        return failed(state, task, &failure, now, functions);
    }
    let digest = Digest::of(result.to_string().as_bytes());
    let spent = state.task(task).map(|t| t.watch.succeeded(now)).unwrap_or_default();
    vec![Event::TaskSucceeded { task, attempt, digest, spent }]
}

/// What is left of the total timeout; `None` when there is none. It counts from the first attempt's
/// start, so that attempt has all of it.
fn time_left(policy: &Policy, task: &TaskState, now: Timestamp) -> Option<Nanos> {
    match task.first_started {
        Some(first) => policy.deadline(first).map(|end| end.since(now)),
        None => policy.total_timeout(),
    }
}

/// The attempt came up at or after the total timeout: it does not start (spec decision 8). The
/// error is the last failure, as where the verdict gives up: routing must not depend on how late
/// the claim was.
fn out_of_time(state: &RunState, task: TaskId, found: &TaskState, now: Timestamp) -> Event {
    let otherwise = || Failure::timed_out("the total timeout passed");
    give_up(state, task, found, GiveUp::TotalTimeout, otherwise, now)
}

/// Each waiting task fails now and is routed like any other. An attempt in progress goes on.
fn fail_by_hand(
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

/// The failure, and the retry or the end that follows from it. One commit (spec decision 13).
fn failed(
    state: &RunState,
    task: TaskId,
    failure: &Failure,
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
    let verdict = step.policy.verdict(failure, &used, now, chance, functions);
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
            error: error_context(state, task, failure, attempt, now),
            spent: found.watch.failed(now),
        },
    };
    vec![ended, follows]
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
