use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::run::RunId;

/// Who waits for the end of which run. A bell for each run, so that one run's end does not wake
/// those who wait for another's.
#[derive(Debug, Default)]
pub(super) struct Ends(Mutex<BTreeMap<RunId, Arc<Notify>>>);

/// Somebody who waits for a run's end. The last one to go takes the bell along.
#[derive(Debug)]
pub(super) struct Waiter<'e> {
    ends: &'e Ends,
    run: RunId,
    pub(super) bell: Arc<Notify>,
}

impl Ends {
    fn bells(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in waiting for `run`.
    pub(super) fn wait_for(&self, run: RunId) -> Waiter<'_> {
        let bell = Arc::clone(self.bells().entry(run).or_default());
        Waiter { ends: self, run, bell }
    }

    /// Has everybody who waits for `run` look at it.
    pub(super) fn ring(&self, run: RunId) {
        self.bells().get(&run).inspect(|bell| bell.notify_waiters());
    }

    /// Has everybody look.
    pub(super) fn ring_all(&self) {
        self.bells().values().for_each(|bell| bell.notify_waiters());
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut bells = self.ends.bells();
        // This one and the map's.
        if Arc::strong_count(&self.bell) <= 2 {
            bells.remove(&self.run);
        }
    }
}
