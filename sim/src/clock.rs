//! The one true clock of the simulated world, which no node sees undisturbed.

use madsim::time::TimeHandle;
use retrial::time::{Mono, Nanos};

/// True simulated time since the world began.
#[must_use]
pub fn true_now() -> Mono {
    true_time(&TimeHandle::current())
}

/// True simulated time, or none outside a world, as in a drop after its end.
#[must_use]
pub fn try_true_now() -> Option<Mono> {
    TimeHandle::try_current().map(|time| true_time(&time))
}

/// True simulated time of the world that `time` belongs to.
#[must_use]
pub fn true_time(time: &TimeHandle) -> Mono {
    Mono::from_nanos(Nanos::from(time.elapsed()).get())
}
