//! The one true clock of the simulated world, which no node sees undisturbed.

use madsim::time::TimeHandle;
use retrial::time::{Mono, Nanos};

/// True simulated time since the world began.
#[must_use]
pub fn true_now() -> Mono {
    Mono::from_nanos(Nanos::from(TimeHandle::current().elapsed()).get())
}
