use serde::Serialize;

use super::config::Config;
use crate::failure::RetryKind;
use crate::policy::{Policy, Rule};
use crate::run::{RunState, TaskId, TaskState, Token};
use crate::store::{QueueRow, QueueState};
use crate::time::Timestamp;

/// A queue row with the columns of Rappel's `action_queue` table. Each is computed from the run's
/// events and the row's lease; none is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueView {
    /// The task.
    pub task: TaskId,
    /// Retries in all by the rule that governs the task; absent when unlimited.
    pub max_retries: Option<u32>,
    /// The attempt to come or in progress, from 0.
    pub attempt_number: u32,
    /// The time for each attempt in seconds, rounded up: its policy's, or the operator's default.
    /// Absent without either.
    pub timeout_seconds: Option<u64>,
    /// Retries that timeouts may still cause; absent where only the limit bounds them.
    pub timeout_retry_limit: Option<u32>,
    /// How the governing rule's delay grows: `none`, `linear`, `exponential` and so on.
    pub backoff_kind: &'static str,
    /// The governing rule's delay before the first retry, in milliseconds, without jitter.
    pub backoff_base_delay_ms: u64,
    /// What triggered this attempt; absent for the first.
    pub retry_kind: Option<RetryKind>,
    /// When the task is due, by the store's clock; absent while an attempt is in progress, and of
    /// a retry that a pause holds back or a task in quarantine.
    pub scheduled_at: Option<Timestamp>,
    /// When the attempt's time or its lease ends or its heartbeat is missed, whichever is earliest, by
    /// the store's clock.
    pub timeout_at: Option<Timestamp>,
    /// What the attempt's holder must show to change the task.
    pub delivery_token: Option<Token>,
    /// Whether the task waits or an attempt is in progress.
    pub status: QueueStatus,
}

/// What a queue row waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueStatus {
    /// The time at which the task is due.
    Queued,
    /// The end of the attempt in progress.
    Dispatched,
}

/// The rows of a run's queue as `state` and the store's `rows` give them. Rows of tasks that the
/// state does not know are left out: the events win. `config` is that of the node that shows them.
#[must_use]
pub fn queue_view(state: &RunState, rows: &[QueueRow], config: &Config) -> Vec<QueueView> {
    let columns = |row: &QueueRow| {
        let step = state.workflow().step(row.task.step)?;
        let task = state.task(row.task)?;
        let mut columns = columns(&step.policy, task, row, config);
        if state.holds_back(row.attempt) || task.quarantined {
            columns.scheduled_at = None;
        }
        Some(columns)
    };
    rows.iter().filter_map(columns).collect()
}

fn columns(policy: &Policy, task: &TaskState, row: &QueueRow, config: &Config) -> QueueView {
    let rule = governing(policy, task);
    let limit = rule.map_or(Some(1), |r| r.limit.count());
    let (scheduled_at, timeout_at, delivery_token, status) = match row.state {
        QueueState::Due { at, .. } => (Some(at), None, None, QueueStatus::Queued),
        QueueState::Leased { token, until, .. } => {
            (None, Some(until), Some(token), QueueStatus::Dispatched)
        }
    };
    let failure = task.failure.as_ref().filter(|_| task.attempt > 1);
    let timeout = policy.attempt_timeout().or(config.attempt_timeout);
    QueueView {
        task: row.task,
        max_retries: limit.map(|n| n.saturating_sub(1)),
        attempt_number: row.attempt.saturating_sub(1),
        timeout_seconds: timeout.map(|t| t.as_millis_ceil().div_ceil(1_000)),
        timeout_retry_limit: policy
            .timeout_retries()
            .map(|n| n.saturating_sub(task.timeout_retries)),
        backoff_kind: rule.map_or("none", |r| r.backoff.shape.kind()),
        backoff_base_delay_ms: rule
            .map_or(0, |r| r.backoff.nominal(1, &config.functions).as_millis()),
        retry_kind: failure.map(|f| f.kind()),
        scheduled_at,
        timeout_at,
        delivery_token,
        status,
    }
}

/// The rule that decided the last retry; before one, the most generous.
fn governing<'p>(policy: &'p Policy, task: &TaskState) -> Option<&'p Rule> {
    let last = task.failure.as_ref().and_then(|failure| policy.rule_for(failure));
    last.or_else(|| policy.most_generous())
}
