//! The system's clocks and random numbers, behind the seam.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is what the seam hides"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::{Runtime, Task, WorkLost};
use crate::time::{Mono, Nanos, Timestamp};

/// The production runtime: tokio's timers and tasks, the system's clocks and random numbers.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    origin: Instant,
    chance: Arc<Chance>,
}

#[derive(Debug)]
struct Chance {
    keys: std::collections::hash_map::RandomState,
    drawn: AtomicU64,
}

impl TokioRuntime {
    /// The runtime that the caller runs in. Panics outside one, as tokio does.
    #[must_use]
    pub fn current() -> Self {
        Self {
            handle: tokio::runtime::Handle::current(),
            origin: Instant::now(),
            chance: Arc::new(Chance {
                keys: std::collections::hash_map::RandomState::new(),
                drawn: AtomicU64::new(0),
            }),
        }
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Mono {
        Mono::from_nanos(Nanos::from(self.origin.elapsed()).get())
    }

    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::from_nanos(Nanos::from(since).get())
    }

    /// `SipHash` of a counter under keys that the system drew when the runtime was made.
    fn random(&self) -> u64 {
        use std::hash::BuildHasher;
        self.chance.keys.hash_one(self.chance.drawn.fetch_add(1, Ordering::Relaxed))
    }

    async fn sleep_until(&self, at: Mono) {
        tokio::time::sleep_until(self.origin + Duration::from_nanos(at.as_nanos())).await;
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        // Tokio moves a future several times before it runs: a box is cheaper to move. Without its
        // type, what tokio needs for a task is compiled once.
        let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
        let abort = self.handle.spawn(future).abort_handle();
        Task::new(move || abort.abort())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        self.handle.spawn_blocking(work).await.map_err(|_| WorkLost)
    }
}
