use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{ContextRuntime, Reports};
use crate::failure::Failure;
use crate::run::{RunId, TaskId};
use crate::time::{Nanos, Timestamp};
use crate::workflow::Action;

/// The outcome of an attempt: its result, or its failure.
pub type Outcome = Result<Value, Failure>;

/// The invocation of an action by one attempt.
#[derive(Clone, Debug)]
pub struct Call {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The step's id.
    pub step: String,
    /// The action's name.
    pub name: String,
    /// The action's declaration; `None` if the workflow only names a registered function.
    pub action: Option<Arc<Action>>,
    /// The arguments, with templates filled in.
    pub args: Value,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Retries left after this attempt; `None` when unlimited.
    pub retries_left: Option<u32>,
    /// The time the attempt may take; `None` when unlimited.
    pub timeout: Option<Nanos>,
    /// The longest time between heartbeats; `None` if the attempt need not send any.
    pub heartbeat_timeout: Option<Nanos>,
    /// The newest progress of earlier attempts.
    pub progress: Option<Value>,
    /// Collects what the attempt reports.
    pub reports: Reports,
    /// When the attempt was dispatched, in store time as the node knows it.
    pub at: Timestamp,
    /// Fires when the attempt is cancelled.
    pub cancelled: Cancelled,
    /// The node's clocks, timers and chance.
    pub context_runtime: ContextRuntime,
}

impl Call {
    /// The task's idempotency key, the same on every attempt.
    #[must_use]
    pub fn receipt(&self) -> Uuid {
        self.task.receipt(self.run)
    }
}

/// The receiving end of a cancellation.
#[derive(Clone, Debug)]
pub struct Cancelled(Arc<Flag>);

/// The sending end of a [`Cancelled`]. Dropping it cancels nothing.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Flag>);

/// Not a `tokio::sync::watch`, which chooses among its waiters at random, outside the seed.
#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    waiters: Notify,
}

impl Canceller {
    /// A pair of both ends.
    #[must_use]
    pub fn pair() -> (Self, Cancelled) {
        let flag = Arc::new(Flag::default());
        (Self(Arc::clone(&flag)), Cancelled(flag))
    }

    /// Cancels the attempt.
    pub fn cancel(&self) {
        self.0.raised.store(true, Ordering::Release);
        self.0.waiters.notify_waiters();
    }
}

impl Cancelled {
    /// Whether the attempt is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// Completes when the attempt is cancelled.
    pub async fn cancelled(&self) {
        // The waiter registers before the flag is read, so a cancel between the two is not missed.
        let notified = self.0.waiters.notified();
        if !self.is_cancelled() {
            notified.await;
        }
    }
}
