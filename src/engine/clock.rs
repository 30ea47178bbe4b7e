use std::sync::{Mutex, PoisonError};

use crate::runtime::Runtime;
use crate::time::{Mono, Timestamp};

/// A node's idea of the store's time: from the answers' times and the monotonic time since. Never
/// goes back. The node's own wall clock plays no part.
///
/// An answer bounds the store's time: it was what the answer says at some moment since the question
/// ([Cristian's algorithm](https://doi.org/10.1007/BF01784024)). What was known before is kept where
/// it lies within the bounds, so that an answer which comes late, as to a node that stood still,
/// makes no wait shorter.
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

    /// Takes the store's time from an answer that has just come to what was `asked` then.
    pub(super) fn hear(&self, at: Timestamp, asked: Mono, runtime: &impl Runtime) {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = runtime.now();
        let guess = anchor.at.after(now.since(anchor.heard));
        anchor.at = guess.clamp(at, at.after(now.since(asked)));
        anchor.heard = now;
    }

    /// The store's time now, as far as this node knows.
    pub(super) fn now(&self, runtime: &impl Runtime) -> Timestamp {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guess = anchor.at.after(runtime.now().since(anchor.heard));
        anchor.latest = anchor.latest.max(guess);
        anchor.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::TokioRuntime;
    use crate::time::Nanos;

    const fn ms(n: u64) -> Timestamp {
        Timestamp::from_nanos(n * 1_000_000)
    }

    async fn pass(runtime: &TokioRuntime, millis: u64) {
        runtime.sleep_until(runtime.now().after(Nanos::from_millis(millis))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_takes_no_time_away() {
        let runtime = TokioRuntime::current();
        let clock = StoreClock::new(ms(1_000), runtime.now());
        let asked = runtime.now();
        // The store answers at once, and the node hears of it when it runs again.
        pass(&runtime, 500).await;
        clock.hear(ms(1_000), asked, &runtime);
        pass(&runtime, 100).await;
        assert_eq!(clock.now(&runtime), ms(1_600));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_bounds_the_time_on_both_sides() {
        let runtime = TokioRuntime::current();
        let clock = StoreClock::new(ms(1_000), runtime.now());
        pass(&runtime, 100).await;
        let asked = runtime.now();
        pass(&runtime, 10).await;
        // The store's clock is ahead of what was known, or was set ahead.
        clock.hear(ms(5_000), asked, &runtime);
        assert_eq!(clock.now(&runtime), ms(5_000));
        // The node's own clock is too fast. What was said is not taken back.
        pass(&runtime, 1_000).await;
        assert_eq!(clock.now(&runtime), ms(6_000));
        let asked = runtime.now();
        pass(&runtime, 10).await;
        clock.hear(ms(5_900), asked, &runtime);
        assert_eq!(clock.now(&runtime), ms(6_000));
        pass(&runtime, 100).await;
        assert_eq!(clock.now(&runtime), ms(6_010));
    }
}
