//! Attempts and delays on the caller's own thread.

use super::gave_up::GaveUp;
use super::progress::{Attempt, Progress};
use super::settings::Retry;
use crate::runtime::ThreadClock;

/// Works, and waits, on the caller's thread.
#[derive(Clone, Copy, Debug)]
pub struct OnThread;

impl<W, E> Retry<'_, W, E, OnThread> {
    /// Calls the work until it succeeds or the policy gives up. The thread sleeps between attempts.
    ///
    /// # Errors
    /// When the policy gives up: the number of attempts, the reason, and the last error.
    pub fn call<T>(self) -> Result<T, GaveUp<E>>
    where
        W: FnMut(Attempt) -> Result<T, E>,
    {
        let Self { mut settings, mut work, runtime: OnThread } = self;
        let clock = ThreadClock::new();
        let seed = settings.seed.unwrap_or_else(|| clock.random());
        let mut progress = Progress::new(clock.now(), seed);
        loop {
            let attempt = progress.attempt(settings.policy, clock.now());
            let error = match work(attempt) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let failed = settings.after(&progress, Ok(error), clock.now())?;
            clock.sleep(failed.delay());
            settings.begin(&mut progress, failed, clock.now())?;
        }
    }
}
