//! Where one seed records what happens.

use crate::fault::Strikes;
use crate::trace::Trace;
use crate::watchdog::Watchdog;

/// Where one seed records what happens. Clones share it.
#[derive(Clone, Debug)]
pub struct Records {
    /// The history and its fingerprint.
    pub trace: Trace,
    /// The faults that struck.
    pub strikes: Strikes,
    /// The findings of the harness itself.
    pub watchdog: Watchdog,
}

impl Records {
    /// Empty records. `keep` keeps the history's lines; `polls` is the budget of [`Watchdog::new`].
    #[must_use]
    pub fn new(keep: bool, polls: u64) -> Self {
        Self {
            trace: Trace::new(keep),
            strikes: Strikes::default(),
            watchdog: Watchdog::new(polls),
        }
    }
}
