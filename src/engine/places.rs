//! The places of a node: how many attempts are in progress, and how many of each action.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Config;
use crate::workflow::Able;

/// The places of a node. No action takes more than its share, so that one that hangs leaves places
/// to the others.
pub(super) struct Places {
    free: Arc<Semaphore>,
    all: usize,
    share: usize,
    taken: Mutex<BTreeMap<Arc<str>, usize>>,
    /// Woken when an action that had its share gives a place back.
    freed: Notify,
}

/// Free places, and the actions that may have none of them.
pub(super) struct Offer {
    pub(super) places: Vec<OwnedSemaphorePermit>,
    pub(super) full: BTreeSet<Arc<str>>,
}

/// A place that an attempt of an action takes until this is dropped.
pub(super) struct TakenPlace {
    action: Arc<str>,
    places: Arc<Places>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    /// A node that can run only one action gives it every place.
    pub(super) fn new(config: &Config, able: &Able) -> Arc<Self> {
        let all = config.concurrency.max(1);
        let alone = match able {
            Able::Only { http: false, functions } => functions.len() <= 1,
            _ => false,
        };
        let share = all.saturating_mul(usize::from(config.action_share)) / 100;
        let share = if alone { all } else { share.clamp(1, all) };
        let (free, taken) = (Arc::new(Semaphore::new(all)), Mutex::default());
        Arc::new(Self { free, all, share, taken, freed: Notify::new() })
    }

    /// Waits for a free place, and offers up to `most`: not more than any action that may have one
    /// may have.
    pub(super) async fn offer(&self, most: usize) -> Option<Offer> {
        let first = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let (room, full) = self.room();
        let mut places = vec![first];
        while places.len() < most.min(room) {
            let Ok(next) = Arc::clone(&self.free).try_acquire_owned() else { break };
            places.push(next);
        }
        Some(Offer { places, full })
    }

    /// Waits until half of the places are free.
    pub(super) async fn many_free(&self) {
        let many = u32::try_from(self.all / 2).unwrap_or(u32::MAX).max(1);
        // They go back at once: an offer takes them again.
        drop(self.free.acquire_many(many).await);
    }

    /// How many more places each action may have that does not have its share, and those that have.
    fn room(&self) -> (usize, BTreeSet<Arc<str>>) {
        let taken = self.taken();
        let has_share = |n: usize| n >= self.share;
        let full = taken.iter().filter(|(_, n)| has_share(**n)).map(|(name, _)| Arc::clone(name));
        let most = taken.values().copied().filter(|n| !has_share(*n)).max().unwrap_or(0);
        (self.share - most, full.collect())
    }

    /// Gives a place to a task of `action`.
    pub(super) fn take(
        self: &Arc<Self>,
        free: OwnedSemaphorePermit,
        action: Arc<str>,
    ) -> TakenPlace {
        *self.taken().entry(Arc::clone(&action)).or_default() += 1;
        TakenPlace { action, places: Arc::clone(self), _permit: free }
    }

    /// Waits until an action has less than its share again.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Whether nothing takes or keeps a place.
    pub(super) fn are_free(&self) -> bool {
        self.free.available_permits() >= self.all
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        let Some(count) = taken.get_mut(&self.action) else { return };
        let had_share = *count >= self.places.share;
        *count -= 1;
        if *count == 0 {
            taken.remove(&self.action);
        }
        if had_share {
            self.places.freed.notify_one();
        }
    }
}
