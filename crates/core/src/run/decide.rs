//! What one input does to a task or a run. `advance` decides what follows for steps and the run.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failing::{fail_by_hand, failed, out_of_time, too_large};
use super::quarantine::{quarantined, released};
use super::view::View;
use super::{
    Cost, Digest, Event, Outcome, Phase, RetryOf, RunId, RunState, StepPhase, TaskId, TaskPhase,
    TaskState, Token, rollback,
};
use crate::failure::{Failure, sanitise};
use crate::guard::{Alert, HeldBy};
use crate::policy::{Functions, Policy};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Condition, StepIx};

/// An input to a run.
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
        /// How long the attempt may take where its policy does not say.
        default_timeout: Option<Nanos>,
    },
    /// A guard of its action holds the task's attempt back.
    Held {
        /// The task.
        task: TaskId,
        /// The attempt.
        attempt: u32,
        /// The guard.
        by: HeldBy,
        /// When the guard is to be asked again, store time.
        until: Timestamp,
    },
    /// The attempt under `token` reports its cost; its outcome follows.
    Cost {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What it cost.
        cost: Cost,
    },
    /// The failure of the attempt under `token`, which follows, raises an alert.
    Burnt {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What was counted.
        alert: Alert,
        /// The run that tells the webhook.
        webhook: Option<RunId>,
    },
    /// The attempt under `token` succeeded.
    Succeeded {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// Its result.
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
        /// Whether the action's retry budget has denied a retry.
        denied: bool,
    },
    /// The lease under `token` ended, or the attempt's deadline passed, without an outcome.
    Expired {
        /// The task.
        task: TaskId,
        /// The attempt's token.
        token: Token,
        /// What passed.
        lapse: Lapse,
        /// Whether the action's retry budget has denied a retry.
        denied: bool,
        /// How many attempts in a row may lose their node before the task is held in quarantine.
        quarantine_after: Option<NonZeroU32>,
    },
    /// A user cancels the run.
    Cancel {
        /// The user's reason.
        reason: String,
    },
    /// A user cancels the run and has what succeeded compensated first, whatever its workflow says
    /// about rollback.
    Rollback {
        /// The user's reason.
        reason: String,
    },
    /// A user pauses the run's retries.
    Pause {
        /// The user's reason.
        reason: String,
    },
    /// A user resumes the run's retries.
    Resume,
    /// A user fails waiting tasks of a step now.
    Fail {
        /// The step.
        step: StepIx,
        /// The one item meant; all that wait where absent.
        item: Option<u32>,
        /// The user's reason.
        reason: String,
    },
    /// A user releases tasks from quarantine.
    Release {
        /// The step; every step where absent.
        step: Option<StepIx>,
        /// The one item meant; all that are held where absent.
        item: Option<u32>,
        /// The user's reason.
        reason: String,
    },
    /// A user deactivates the run.
    Deactivate,
    /// A user activates the run, or recovery found it missing from the active projection.
    Activate,
}

/// Which time limit of an attempt passed without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lapse {
    /// The lease: its holder no longer renews it.
    Lease,
    /// The attempt's deadline.
    Deadline,
    /// The time within which a heartbeat must come.
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
        Input::Claimed { task, attempt, token, default_timeout } => {
            claimed(state, (*task, *attempt), *token, *default_timeout, now)
        }
        Input::Held { task, attempt, by, until } => held(state, *task, *attempt, *by, *until),
        Input::Cost { task, token, cost } => match running(state, *task, *token) {
            Some((attempt, _)) => vec![Event::CostReported { task: *task, attempt, cost: *cost }],
            None => Vec::new(),
        },
        Input::Burnt { task, token, alert, webhook } => match running(state, *task, *token) {
            Some((attempt, _)) => {
                let (task, alert, webhook) = (*task, *alert, *webhook);
                vec![Event::ErrorBudgetBurnt { task, attempt, alert, webhook }]
            }
            None => Vec::new(),
        },
        Input::Succeeded { task, token, result } => match running(state, *task, *token) {
            Some((attempt, _)) => succeeded(state, *task, attempt, result, now, functions),
            None => Vec::new(),
        },
        Input::Failed { task, token, failure, denied } => match running(state, *task, *token) {
            Some(_) => failed(state, *task, failure, *denied, now, functions),
            None => Vec::new(),
        },
        Input::Expired { task, token, lapse, denied, quarantine_after } => {
            let Some((_, timeout)) = running(state, *task, *token) else { return Vec::new() };
            let heartbeat = state.workflow.heartbeat_timeout(task.step);
            let failure = match (lapse, timeout, heartbeat) {
                (Lapse::Deadline, Some(limit), _) => Failure::timeout(limit),
                (Lapse::Heartbeat, _, Some(limit)) => Failure::heartbeat_missed(limit),
                _ => Failure::lease_lost(),
            };
            let mut events = failed(state, *task, &failure, *denied, now, functions);
            events.extend(quarantined(state, &events, *quarantine_after));
            events
        }
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
        Input::Release { step, item, reason } => released(state, *step, *item, reason),
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

/// The attempt and its timeout, where `token` is the one that may report on it.
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
    (task, attempt): (TaskId, u32),
    token: Token,
    default_timeout: Option<Nanos>,
    now: Timestamp,
) -> Vec<Event> {
    let (Some(found), Some(step)) = (state.task(task), state.definition(task.step)) else {
        return Vec::new();
    };
    let active = state.steps.get(task.step.index()).is_some_and(|s| s.phase == StepPhase::Active);
    let waits = found.phase == TaskPhase::Queued && found.attempt == attempt;
    if state.phase != Phase::Running || !active || !waits || state.holds_back(attempt) {
        return Vec::new();
    }
    let left = match time_left(&step.policy, found, now) {
        Some(Nanos::ZERO) => return vec![out_of_time(state, task, found, now)],
        left => left,
    };
    if found.quarantined {
        return Vec::new();
    }
    if state.is_too_large(task) {
        return vec![too_large(state, task, found, now)];
    }
    let own = step.policy.attempt_timeout().or(default_timeout);
    let timeout = [own, left].into_iter().flatten().min();
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

/// Said once an attempt, however often the guard is asked.
fn held(state: &RunState, task: TaskId, attempt: u32, by: HeldBy, until: Timestamp) -> Vec<Event> {
    let waits = state.task(task).is_some_and(|found| {
        found.phase == TaskPhase::Queued && found.attempt == attempt && found.held.is_none()
    });
    match waits {
        true => vec![Event::TaskHeld { task, attempt, by, until }],
        false => Vec::new(),
    }
}

/// The failure of an attempt whose result breaks what its step ensures.
#[must_use]
pub fn broken_ensures() -> Failure {
    Failure::postcondition("the result is not what the step ensures")
}

/// A success, unless the result breaks what the step ensures: that is a failure of the attempt, and
/// nothing keeps the result.
fn succeeded(
    state: &RunState,
    task: TaskId,
    attempt: u32,
    result: &Arc<Value>,
    now: Timestamp,
    functions: &Functions,
) -> Vec<Event> {
    let ensures = state.definition(task.step).and_then(|s| s.ensures.as_ref());
    let holds = |c: &Condition| {
        View::of_task(state, task).is_ok_and(|view| c.holds(&view.with_result(result)))
    };
    if ensures.is_some_and(|c| !holds(c)) {
        return failed(state, task, &broken_ensures(), false, now, functions);
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

impl RunState {
    /// The store says that a claimed task is due, so it is no earlier than that, whatever the node
    /// believes: a store that was down is behind a node that was not.
    pub(super) fn not_before(&self, input: &Input) -> Timestamp {
        match input {
            Input::Claimed { task, .. } => match self.task(*task) {
                Some(found) if found.quarantined => self.deadline(*task).unwrap_or_default(),
                found => found.map(|t| t.due).unwrap_or_default(),
            },
            _ => Timestamp::default(),
        }
    }
}
