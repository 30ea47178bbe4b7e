use std::sync::{Mutex, PoisonError};

use crate::runtime::Runtime;
use crate::time::{Mono, Timestamp};

/// A node's idea of the store's time: the last answer's time and the monotonic time since. Never
/// goes back. The node's own wall clock plays no part.
#[derive(Debug)]
pub(super) struct StoreClock(Mutex<Anchor>);

#[derive(Debug)]
struct Anchor {
    at: Timestamp,
    heard: Mono,
    latest: Timestamp,
}

impl StoreClock {
    pub(super) fn new(at: Timestamp, heard: Mono) -> Self {
        Self(Mutex::new(Anchor { at, heard, latest: at }))
    }

    /// Takes the store's time from an answer that has just come.
    pub(super) fn hear(&self, at: Timestamp, runtime: &impl Runtime) {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        anchor.at = at;
        anchor.heard = runtime.now();
    }

    /// The store's time now, as far as this node knows.
    pub(super) fn now(&self, runtime: &impl Runtime) -> Timestamp {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guess = anchor.at.after(runtime.now().since(anchor.heard));
        anchor.latest = anchor.latest.max(guess);
        anchor.latest
    }
}
