//! The state of one task of a run.

use serde::{Deserialize, Serialize};

use super::task_time::Watch;
use super::{Cost, Digest, TaskTime, Token};
use crate::failure::{ErrorContext, Failure};
use crate::guard::HeldBy;
use crate::time::{Nanos, Timestamp};

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// How far it is.
    pub phase: TaskPhase,
    /// The attempt to come, in progress or last made, from 1.
    pub attempt: u32,
    /// When the first attempt started: the total timeout counts from here.
    pub first_started: Option<Timestamp>,
    /// Retries that timeouts have caused.
    pub timeout_retries: u32,
    /// Retries that each rule has caused, by its place in the text, up to the last that caused any;
    /// empty where all rules share one count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_rule: Vec<u32>,
    /// The backoff drawn last, which the next decorrelated draw starts from.
    pub backoff: Option<Nanos>,
    /// The delay before the attempt to come or in progress.
    pub delay: Nanos,
    /// When the attempt to come, or in progress, was due.
    #[serde(default)]
    pub due: Timestamp,
    /// The guard that was said to hold the attempt to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldBy>,
    /// How many of its attempts, in a row up to the last one that ended, lost their node.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// Whether it is held in quarantine: the attempt to come starts only when somebody releases it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
    /// Where its time went so far.
    #[serde(default)]
    pub(super) watch: Watch,
    /// The first attempt's failure: what compaction keeps of a long history beside the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<Box<Failure>>,
    /// The cost that its attempts reported.
    #[serde(default, skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
    /// The last failure. Boxed, as most tasks have none and states are copied for every commit.
    pub failure: Option<Box<Failure>>,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// Waits for its next attempt.
    Queued,
    /// An attempt is in progress.
    Running {
        /// Who may report its outcome.
        token: Token,
        /// The time it may take.
        timeout: Option<Nanos>,
    },
    /// An attempt succeeded.
    Succeeded {
        /// Of the result.
        digest: Digest,
    },
    /// Failed for good.
    Failed {
        /// Its own record, whatever becomes of `_last_error`.
        error: Box<ErrorContext>,
    },
    /// Cancelled.
    Cancelled,
    /// Of a compensation: its turn in the rollback has not come, or there is nothing to undo.
    Idle,
}

/// How many tasks have work left, how many of these have an attempt in progress, and how many
/// succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) live: usize,
    pub(super) running: usize,
    pub(super) succeeded: usize,
}

impl Counts {
    pub(super) fn of(tasks: &[TaskState]) -> Self {
        let count = |is: fn(&TaskState) -> bool| tasks.iter().filter(|t| is(t)).count();
        let running = count(|t| matches!(t.phase, TaskPhase::Running { .. }));
        let succeeded = count(|t| matches!(t.phase, TaskPhase::Succeeded { .. }));
        Self { live: count(TaskState::is_live), running, succeeded }
    }

    /// One of the tasks counted as `before` and counts as `after`.
    pub(super) fn change(&mut self, before: Self, after: Self) {
        let change =
            |n: &mut usize, before: usize, after: usize| *n = (*n + after).saturating_sub(before);
        change(&mut self.live, before.live, after.live);
        change(&mut self.running, before.running, after.running);
        change(&mut self.succeeded, before.succeeded, after.succeeded);
    }
}

impl TaskState {
    pub(super) fn idle() -> Self {
        Self { phase: TaskPhase::Idle, ..Self::new() }
    }

    pub(super) const fn new() -> Self {
        Self {
            phase: TaskPhase::Queued,
            attempt: 1,
            first_started: None,
            timeout_retries: 0,
            by_rule: Vec::new(),
            backoff: None,
            delay: Nanos::ZERO,
            due: Timestamp::from_nanos(0),
            held: None,
            lost: 0,
            quarantined: false,
            watch: Watch::ZERO,
            first_failure: None,
            cost: Cost::ZERO,
            failure: None,
        }
    }

    /// One more retry that the rule at `place` has caused.
    pub(super) fn count_against(&mut self, place: usize) {
        if self.by_rule.len() <= place {
            self.by_rule.resize(place + 1, 0);
        }
        if let Some(count) = self.by_rule.get_mut(place) {
            *count = count.saturating_add(1);
        }
        invariant!(self.by_rule.get(place).is_some_and(|n| *n > 0), "each retry counts");
    }

    /// Who may report on the attempt in progress; none where none is.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        match self.phase {
            TaskPhase::Running { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Whether the task has work left.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.phase, TaskPhase::Queued | TaskPhase::Running { .. })
    }

    /// The time it has spent so far; an attempt in progress counts when it has ended.
    #[must_use]
    pub fn spent(&self) -> TaskTime {
        self.watch.spent
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
