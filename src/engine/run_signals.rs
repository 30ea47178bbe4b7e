use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::run::RunId;

/// Who waits for the end of which run, or for news of it. Each run has a bell of its own, so that
/// its end does not wake those who wait for another's.
#[derive(Debug, Default)]
pub(super) struct RunSignals(Mutex<BTreeMap<RunId, Bell>>);

#[derive(Debug, Default)]
struct Bell {
    rings: Arc<Notify>,
    waiters: usize,
}

/// Somebody who waits for a run's end. The last one to go takes the bell along.
#[derive(Debug)]
pub(super) struct Waiter<'e> {
    signals: &'e RunSignals,
    run: RunId,
    pub(super) rings: Arc<Notify>,
}

impl RunSignals {
    fn bells(&self) -> MutexGuard<'_, BTreeMap<RunId, Bell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in waiting for `run`.
    pub(super) fn wait_for(&self, run: RunId) -> Waiter<'_> {
        let mut bells = self.bells();
        let bell = bells.entry(run).or_default();
        bell.waiters += 1;
        Waiter { signals: self, run, rings: Arc::clone(&bell.rings) }
    }

    /// Has everybody who waits for `run` look at it.
    pub(super) fn ring(&self, run: RunId) {
        if let Some(bell) = self.bells().get(&run) {
            bell.rings.notify_waiters();
        }
    }

    /// Has everybody look.
    pub(super) fn ring_all(&self) {
        self.bells().values().for_each(|bell| bell.rings.notify_waiters());
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut bells = self.signals.bells();
        if let Some(bell) = bells.get_mut(&self.run) {
            bell.waiters -= 1;
            if bell.waiters == 0 {
                bells.remove(&self.run);
            }
        }
    }
}
