//! The one true clock of the simulated world. Each node sees it through its own error.

use std::time::Duration;

use madsim::time::{TimeHandle, sleep_until};
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

/// Waits until the true time `at`; returns at once when it has passed.
pub(crate) async fn until(at: Mono) {
    let time = TimeHandle::current();
    let wait = at.since(true_time(&time));
    if !wait.is_zero() {
        sleep_until(time.now_instant() + Duration::from(wait)).await;
    }
}
