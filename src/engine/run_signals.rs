//! Wakes those who wait for one run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::run::{RunId, RunState};

/// A signal for each run that somebody waits for, so that a run wakes only its own waiters.
#[derive(Debug, Default)]
pub(super) struct RunSignals(Mutex<BTreeMap<RunId, Signal>>);

#[derive(Debug, Default)]
struct Signal {
    notify: Arc<Notify>,
    waiters: usize,
    /// The run's final state, if this node has brought it to its end.
    end: Option<RunState>,
}

/// Takes part in waiting for a run. The last waiter removes the run's signal when it is dropped.
#[derive(Debug)]
pub(super) struct Waiter<'e> {
    signals: &'e RunSignals,
    run: RunId,
    pub(super) signal: Arc<Notify>,
}

impl RunSignals {
    fn map(&self) -> MutexGuard<'_, BTreeMap<RunId, Signal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waiter for `run`.
    pub(super) fn wait_for(&self, run: RunId) -> Waiter<'_> {
        let mut signals = self.map();
        let signal = signals.entry(run).or_default();
        signal.waiters += 1;
        Waiter { signals: self, run, signal: Arc::clone(&signal.notify) }
    }

    /// Wakes everybody who waits for `run`.
    pub(super) fn notify(&self, run: RunId) {
        if let Some(signal) = self.map().get(&run) {
            signal.notify.notify_waiters();
        }
    }

    /// Wakes everybody who waits for the run that ended as `state`, and leaves them that.
    pub(super) fn end(&self, state: RunState) {
        if let Some(signal) = self.map().get_mut(&state.id()) {
            signal.end = Some(state);
            signal.notify.notify_waiters();
        }
    }

    /// Wakes everybody who waits for any run.
    pub(super) fn notify_all(&self) {
        self.map().values().for_each(|signal| signal.notify.notify_waiters());
    }
}

impl Waiter<'_> {
    /// The final state that was left for the waiters.
    pub(super) fn end(&self) -> Option<RunState> {
        let mut signals = self.signals.map();
        let signal = signals.get_mut(&self.run)?;
        if signal.waiters == 1 { signal.end.take() } else { signal.end.clone() }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut signals = self.signals.map();
        if let Some(signal) = signals.get_mut(&self.run) {
            signal.waiters -= 1;
            if signal.waiters == 0 {
                signals.remove(&self.run);
            }
        }
    }
}
