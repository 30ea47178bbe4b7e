//! The seam to clocks, timers, tasks and random numbers.
//!
//! Decides nothing. Must never know runs, stores or actions. To add a runtime, implement
//! [`Runtime`] and run the conformance suite (`retrial::runtime::conformance`) over it.

#[cfg(feature = "unstable")]
pub mod conformance;
mod thread;
mod tokio;

use std::fmt;
use std::future::Future;

pub(crate) use self::thread::ThreadClock;
pub use self::tokio::TokioRuntime;
use crate::time::{Mono, Timestamp};

/// Clocks, timers, tasks and random numbers. A clone is a handle to the same runtime.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// This process's monotonic clock. It may drift; it never jumps.
    fn now(&self) -> Mono;

    /// The wall clock. It may be wrong and may jump; nothing durable depends on a node's own.
    fn wall(&self) -> Timestamp;

    /// 64 random bits.
    fn random(&self) -> u64;

    /// Ends when [`Runtime::now`] has reached `at`.
    fn sleep_until(&self, at: Mono) -> impl Future<Output = ()> + Send;

    /// Runs `future` beside the caller until it ends or the [`Task`] is dropped.
    #[must_use = "dropping the task aborts it"]
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task;

    /// Runs `work`, which may block, away from the async threads. Once started it runs to its end,
    /// also if the returned future is dropped.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, WorkLost>> + Send;
}

/// The blocking work panicked or its runtime is shutting down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blocking work was lost: it panicked, or the runtime is shutting down")]
pub struct WorkLost;

/// A spawned task. Dropping it aborts the task, soon but not at once. It can't be awaited: results
/// travel by channel.
pub struct Task(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Task {
    /// A task that `abort` ends.
    #[must_use]
    pub fn new(abort: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(abort)))
    }

    /// Detaches the task: it runs to its end without the handle.
    pub fn detach(mut self) {
        self.0 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(abort) = self.0.take() {
            abort();
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}
