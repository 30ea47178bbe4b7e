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

/// What an attempt gave: a result, or what went wrong.
pub type Outcome = Result<Value, Failure>;

/// One attempt, as the action sees it (W15).
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
    /// The action's declaration; absent where the workflow names only a registered function.
    pub action: Option<Arc<Action>>,
    /// The arguments, templates filled in.
    pub args: Value,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Retries left after this attempt; `None` when unlimited.
    pub retries_left: Option<u32>,
    /// The time the attempt may take; `None` when unlimited.
    pub timeout: Option<Nanos>,
    /// The longest that the attempt may go on without a heartbeat (X1); `None` when it need not
    /// give any.
    pub heartbeat_timeout: Option<Nanos>,
    /// The newest progress of earlier attempts.
    pub progress: Option<Value>,
    /// Takes what the attempt reports.
    pub reports: Reports,
    /// The task's idempotency key, the same on every attempt (A14).
    pub receipt: Uuid,
    /// Store time when the attempt was dispatched, as the node knows it.
    pub at: Timestamp,
    /// Fires when the attempt is called off.
    pub cancelled: Cancelled,
    /// The node's clocks, timers and chance.
    pub context_runtime: ContextRuntime,
}

/// Tells an attempt that it is called off.
#[derive(Clone, Debug)]
pub struct Cancelled(Arc<Flag>);

/// The other end of a [`Cancelled`]. Dropping it calls nothing off.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Flag>);

/// Not a `tokio::sync::watch`: that picks among its waiters by chance that no seed controls.
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

    /// Calls the attempt off.
    pub fn cancel(&self) {
        self.0.raised.store(true, Ordering::Release);
        self.0.waiters.notify_waiters();
    }
}

impl Cancelled {
    /// Whether the attempt is called off.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// Ends when the attempt is called off.
    pub async fn cancelled(&self) {
        // The waiter is enlisted before the flag is read, so a call between the two is not missed.
        let notified = self.0.waiters.notified();
        if !self.is_cancelled() {
            notified.await;
        }
    }
}
