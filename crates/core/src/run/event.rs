//! The events of a run. The engine decides them, the store keeps them, observers see them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Cost, Digest, RunId, TaskId, TaskTime, Token};
use crate::failure::{ErrorCode, ErrorContext, Failure, RetryKind};
use crate::guard::{Alert, HeldBy};
use crate::policy::GiveUp;
use crate::time::{Nanos, Timestamp};
use crate::workflow::{StepIx, Workflow};

/// One event of a run, with the store time at which it was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// When, by the store's clock as the deciding node knew it; never earlier than the event before.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happens to a run. State is the fold of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The run was submitted. Definition and policies are pinned here.
    RunCreated {
        /// Where all the run's chance comes from.
        seed: u64,
        /// The definition.
        workflow: Arc<Workflow>,
        /// The input, defaults filled in.
        input: Map<String, Value>,
    },
    /// A user, or recovery that found the run missing from the active projection, activated the run.
    RunActivated,
    /// A user deactivated the run: recovery and claiming skip it.
    RunDeactivated,
    /// The step began, with one task, or one per item where it fans out.
    StepEntered {
        /// The step.
        step: StepIx,
        /// How many tasks.
        tasks: u32,
    },
    /// A node started an attempt.
    AttemptStarted {
        /// The task.
        task: TaskId,
        /// The attempt, from 1.
        attempt: u32,
        /// The delivery token.
        token: Token,
        /// The time it may take, the total timeout considered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<Nanos>,
        /// Retries left after it by the policy's largest limit; absent when unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retries_left: Option<u32>,
        /// For a retry: what it is a retry of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<RetryOf>,
    },
    /// A guard of its action holds the task's next attempt back. Recorded once an attempt, and for
    /// circuit breakers only. A hold uses up no attempt.
    TaskHeld {
        /// The task.
        task: TaskId,
        /// The attempt that may not start yet, from 1.
        attempt: u32,
        /// The guard.
        by: HeldBy,
        /// When the guard is to be asked again, store time.
        until: Timestamp,
    },
    /// An attempt failed.
    AttemptFailed {
        /// The task.
        task: TaskId,
        /// The attempt, from 1.
        attempt: u32,
        /// What went wrong.
        failure: Failure,
        /// Whether a retry follows.
        will_retry: bool,
        /// How long the attempt took.
        #[serde(default)]
        took: Nanos,
    },
    /// The task waits for its next attempt.
    RetryScheduled {
        /// The task.
        task: TaskId,
        /// The attempt to come, from 2.
        attempt: u32,
        /// The wait, from this event's time: the backoff, raised by `Retry-After`; shorter only
        /// where it was truncated at the total timeout.
        delay: Nanos,
        /// The backoff alone.
        backoff: Nanos,
        /// What triggered it.
        kind: RetryKind,
        /// The failure's code.
        code: ErrorCode,
        /// The rule that it counts against, by its place in the text, from 0; absent where all
        /// rules share one count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<u32>,
    },
    /// As many attempts in a row as the deciding node allows have lost their node, so the task is held
    /// in quarantine: its next attempt does not start until somebody releases it. In the commit of
    /// the retry, after that.
    TaskQuarantined {
        /// The task.
        task: TaskId,
        /// The attempt that may not start, from 2.
        attempt: u32,
        /// How many attempts in a row lost their node.
        lost: u32,
    },
    /// A user released the task from quarantine: its next attempt starts when its delay is over.
    TaskReleased {
        /// The task.
        task: TaskId,
        /// The attempt that may start, from 2.
        attempt: u32,
        /// The user's reason, sanitised.
        reason: String,
    },
    /// The attempt in progress reported its cost. Precedes the outcome in the same commit. The cost of
    /// an attempt whose lease was lost is unknown.
    CostReported {
        /// The task.
        task: TaskId,
        /// The attempt, from 1.
        attempt: u32,
        /// What it cost.
        cost: Cost,
    },
    /// The attempt in progress raises an alert of its action's error budget. In the commit of
    /// its failure, before that.
    ErrorBudgetBurnt {
        /// The task.
        task: TaskId,
        /// The attempt, from 1.
        attempt: u32,
        /// What was counted over all runs and nodes when it was raised.
        alert: Alert,
        /// The run that tells the action's webhook, where it has one. Added in the same commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        webhook: Option<RunId>,
    },
    /// An attempt succeeded. The result is in the results table.
    TaskSucceeded {
        /// The task.
        task: TaskId,
        /// The attempt, from 1; also the total.
        attempt: u32,
        /// Of the result.
        digest: Digest,
        /// The task's time in attempts and waits.
        #[serde(default)]
        spent: TaskTime,
    },
    /// The task failed for good.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Attempts made.
        attempts: u32,
        /// Why it is not tried again.
        reason: GiveUp,
        /// The last failure.
        error: ErrorContext,
        /// The task's time in attempts and waits.
        #[serde(default)]
        spent: TaskTime,
    },
    /// The task was cancelled: under `fail_fast` its siblings have decided the step. The end of a run
    /// cancels all its live tasks without an event for each.
    TaskCancelled {
        /// The task.
        task: TaskId,
    },
    /// All tasks of the step have ended, and enough of them succeeded.
    StepSucceeded {
        /// The step.
        step: StepIx,
    },
    /// All tasks of the step have ended, and too few of them succeeded.
    StepFailed {
        /// The step.
        step: StepIx,
        /// The first failed task's record, or what kept the step from being tried.
        error: ErrorContext,
    },
    /// A failure before it keeps the step from ever starting.
    StepUnreachable {
        /// The step.
        step: StepIx,
    },
    /// A branch that was not taken leads to the step.
    StepSkipped {
        /// The step.
        step: StepIx,
    },
    /// A transition was taken. After a failure this sets the target branch's `_last_error`.
    Routed {
        /// The source.
        from: StepIx,
        /// The target.
        to: StepIx,
        /// Why.
        cause: RouteCause,
    },
    /// A user paused the run: no retry starts until it is resumed.
    RunPaused {
        /// The user's reason, sanitised.
        reason: String,
    },
    /// A user resumed the run: due retries start now, others after the rest of their delay.
    RunResumed,
    /// A user asked for waiting tasks to fail now. The final failure of each follows.
    FailRequested {
        /// The step whose tasks they are.
        step: StepIx,
        /// The one item meant; all that wait where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<u32>,
        /// The user's reason, sanitised.
        reason: String,
    },
    /// A user asked for the run to be cancelled.
    CancelRequested {
        /// The user's reason, sanitised.
        reason: String,
    },
    /// The run is to end, and its succeeded tasks are compensated first. Live tasks are cancelled.
    RollbackStarted {
        /// How the run ends then.
        outcome: Outcome,
    },
    /// The task, of a compensating step, begins to undo the same item of the step that it
    /// compensates.
    CompensationStarted {
        /// The task.
        task: TaskId,
    },
    /// Nothing is left to compensate, or a user stopped the rollback. The run's end follows.
    RollbackEnded {
        /// Whether everything was undone that had to be.
        complete: bool,
    },
    /// The run ended. Nothing follows.
    RunEnded {
        /// How.
        outcome: Outcome,
    },
}

/// What a retry is a retry of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryOf {
    /// The delay that was scheduled.
    pub delay: Nanos,
    /// The failure before it.
    pub original_error: String,
}

/// Why a transition was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteCause {
    /// The source succeeded.
    Success,
    /// The source failed.
    Failure,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// Every goal was reached, or without goals nothing failed unrouted.
    Completed,
    /// A failure ended it.
    Failed {
        /// The failure that did.
        error: ErrorContext,
    },
    /// It was cancelled.
    Cancelled {
        /// The user's reason, sanitised.
        reason: String,
    },
}

impl Event {
    /// The event's name, as its JSON spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunCreated { .. } => "run_created",
            Self::RunActivated => "run_activated",
            Self::RunDeactivated => "run_deactivated",
            Self::StepEntered { .. } => "step_entered",
            Self::AttemptStarted { .. } => "attempt_started",
            Self::TaskHeld { .. } => "task_held",
            Self::AttemptFailed { .. } => "attempt_failed",
            Self::RetryScheduled { .. } => "retry_scheduled",
            Self::TaskQuarantined { .. } => "task_quarantined",
            Self::TaskReleased { .. } => "task_released",
            Self::CostReported { .. } => "cost_reported",
            Self::ErrorBudgetBurnt { .. } => "error_budget_burnt",
            Self::TaskSucceeded { .. } => "task_succeeded",
            Self::TaskFailed { .. } => "task_failed",
            Self::TaskCancelled { .. } => "task_cancelled",
            Self::StepSucceeded { .. } => "step_succeeded",
            Self::StepFailed { .. } => "step_failed",
            Self::StepUnreachable { .. } => "step_unreachable",
            Self::StepSkipped { .. } => "step_skipped",
            Self::Routed { .. } => "routed",
            Self::RunPaused { .. } => "run_paused",
            Self::RunResumed => "run_resumed",
            Self::FailRequested { .. } => "fail_requested",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::RollbackStarted { .. } => "rollback_started",
            Self::CompensationStarted { .. } => "compensation_started",
            Self::RollbackEnded { .. } => "rollback_ended",
            Self::RunEnded { .. } => "run_ended",
        }
    }

    /// The task it is about, if it is about one. An alert is about an action.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        match self {
            Self::AttemptStarted { task, .. }
            | Self::TaskHeld { task, .. }
            | Self::AttemptFailed { task, .. }
            | Self::RetryScheduled { task, .. }
            | Self::TaskQuarantined { task, .. }
            | Self::TaskReleased { task, .. }
            | Self::CostReported { task, .. }
            | Self::TaskSucceeded { task, .. }
            | Self::TaskFailed { task, .. }
            | Self::TaskCancelled { task } => Some(*task),
            _ => None,
        }
    }
}
