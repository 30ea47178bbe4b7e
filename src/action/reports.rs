use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::run::{Cost, Progress};

/// What an attempt reports while it runs: heartbeats, with or without progress, and its cost. Clones
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
    /// The task's newest progress, from this attempt or an earlier one.
    progress: Progress,
    /// Whether the progress is from this attempt.
    is_own: bool,
    cost: Option<Cost>,
}

impl Reports {
    /// The largest progress kept, as compact JSON text, in bytes: 16 KiB.
    pub const MAX_PROGRESS: usize = 16 * 1024;

    /// Empty reports of an attempt, after the progress of earlier ones.
    #[must_use]
    pub fn after(earlier: Option<Progress>) -> Self {
        let progress = earlier.unwrap_or_default();
        let given = Mutex::new(Given { progress, ..Given::default() });
        Self(Arc::new(Shared { given, waiters: Notify::new() }))
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a heartbeat. JSON text, if given, replaces the progress.
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

    /// Records that the action's preconditions passed, so that later attempts skip them.
    pub fn check(&self) {
        let mut given = self.given();
        given.progress.number += 1;
        given.progress.checked = true;
        given.is_own = true;
    }

    /// Whether the action's preconditions passed, in this attempt or an earlier one.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.given().progress.checked
    }

    /// The newest progress, if this attempt has reported any.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let given = self.given();
        given.is_own.then(|| given.progress.clone())
    }

    /// Adds to the cost of the attempt.
    pub fn spend(&self, cost: Cost) {
        let mut given = self.given();
        given.cost = Some(given.cost.unwrap_or_default().plus(cost));
    }

    /// The cost of the attempt so far, if it has reported any.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        self.given().cost
    }

    /// Waits for more than `seen` heartbeats and returns their number.
    pub async fn beaten(&self, seen: u64) -> u64 {
        loop {
            // The waiter registers before the count is read, so no heartbeat is missed.
            let notified = self.0.waiters.notified();
            let beats = self.given().beats;
            if beats > seen {
                return beats;
            }
            notified.await;
        }
    }
}
