use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What an attempt reports while it goes on: heartbeats, with or without progress (X1). Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub struct Reports(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    given: Mutex<Given>,
    waiters: Notify,
}

#[derive(Debug, Default)]
struct Given {
    beats: u64,
    /// The number of the newest progress of the task.
    number: u64,
    /// The newest progress of this attempt, as JSON text.
    progress: Option<Arc<str>>,
}

impl Reports {
    /// The largest progress kept, as compact JSON text, in bytes: 16 KiB.
    pub const MAX_PROGRESS: usize = 16 * 1024;

    /// Nothing reported yet. `number` is that of the newest progress of earlier attempts, 0 for
    /// none.
    #[must_use]
    pub fn after(number: u64) -> Self {
        let given = Mutex::new(Given { number, ..Given::default() });
        Self(Arc::new(Shared { given, waiters: Notify::new() }))
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat; with JSON text, progress that replaces what was given before.
    pub fn beat(&self, progress: Option<Arc<str>>) {
        let mut given = self.given();
        given.beats += 1;
        if progress.is_some() {
            given.number += 1;
            given.progress = progress;
        }
        drop(given);
        self.0.waiters.notify_waiters();
    }

    /// The newest progress of this attempt and its number among the task's.
    #[must_use]
    pub fn progress(&self) -> Option<(u64, Arc<str>)> {
        let given = self.given();
        given.progress.clone().map(|json| (given.number, json))
    }

    /// Ends when more than `seen` heartbeats were given, and says how many.
    pub async fn beaten(&self, seen: u64) -> u64 {
        loop {
            // The waiter is enlisted before the count is read, so none between the two is missed.
            let notified = self.0.waiters.notified();
            let beats = self.given().beats;
            if beats > seen {
                return beats;
            }
            notified.await;
        }
    }
}
