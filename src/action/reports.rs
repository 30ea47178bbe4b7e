use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::run::{Cost, Progress};

/// What an attempt reports while it goes on: heartbeats, with or without progress (X1), and what it
/// costs (H17). Clones share it.
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
    /// The task's newest, from this attempt or one before.
    progress: Progress,
    /// Whether it is from this one.
    is_own: bool,
    cost: Option<Cost>,
}

impl Reports {
    /// The largest progress kept, as compact JSON text, in bytes: 16 KiB.
    pub const MAX_PROGRESS: usize = 16 * 1024;

    /// Nothing reported yet, after what earlier attempts have.
    #[must_use]
    pub fn after(earlier: Option<Progress>) -> Self {
        let progress = earlier.unwrap_or_default();
        let given = Mutex::new(Given { progress, ..Given::default() });
        Self(Arc::new(Shared { given, waiters: Notify::new() }))
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat; with JSON text, progress that replaces what was given before.
    pub fn beat(&self, json: Option<Arc<str>>) {
        let mut given = self.given();
        given.beats += 1;
        if json.is_some() {
            given.progress.number += 1;
            given.progress.json = json;
            given.is_own = true;
        }
        drop(given);
        self.0.waiters.notify_waiters();
    }

    /// The action's preconditions have held: no attempt after this one looks at them again.
    pub fn check(&self) {
        let mut given = self.given();
        given.progress.number += 1;
        given.progress.checked = true;
        given.is_own = true;
    }

    /// Whether the action's preconditions have held, in this attempt or one before.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.given().progress.checked
    }

    /// The newest progress, where this attempt has given any.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let given = self.given();
        given.is_own.then(|| given.progress.clone())
    }

    /// Adds to what the attempt costs.
    pub fn spend(&self, cost: Cost) {
        let mut given = self.given();
        given.cost = Some(given.cost.unwrap_or_default().plus(cost));
    }

    /// What the attempt has cost so far, where it has said so.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        self.given().cost
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
