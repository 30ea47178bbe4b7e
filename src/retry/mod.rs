//! Retries one future, or one blocking call, under a policy, with no workflow and no store.
//!
//! Decides how an error is read ([`classify`]), and nothing about retries: [`Policy::verdict`] does, as
//! for the engine. Must never know workflows, stores or engines. Nothing survives the process.
//! Dropping the future cancels the retries, during an attempt or between two. To add a setting, add
//! a field to `Settings` and a method of [`Retry`] that sets it.
//!
//! | file | decides |
//! | --- | --- |
//! | `progress.rs` | what one call has used up, and what follows a failure |
//! | `settings.rs` | the settings of a call |
//! | `future.rs`, `blocking.rs` | how attempts and delays take their time |
//! | `classify.rs`, `as_error.rs` | what an error of somebody else's means |
//! | `gave_up.rs` | the error of a call that failed for good |
//! | `retry_after.rs` | the wait that an HTTP answer asks for |
//! | `layer.rs` | what follows an answer to a request, for the two that follow |
//! | `tower.rs` | the same for the requests of a service of `tower` (feature `tower`) |
//! | `reqwest_middleware.rs` | and for those of a client of `reqwest` (feature `reqwest-middleware`) |

mod as_error;
mod blocking;
pub mod classify;
mod future;
mod gave_up;
#[cfg(any(feature = "reqwest-middleware", feature = "tower"))]
mod layer;
mod progress;
#[cfg(feature = "reqwest-middleware")]
pub mod reqwest_middleware;
pub(crate) mod retry_after;
mod settings;
#[cfg(feature = "tower")]
pub mod tower;

use std::future::Future;

pub use as_error::AsError;
pub use blocking::OnThread;
pub use future::RetryFuture;
pub use gave_up::GaveUp;
pub use progress::Attempt;
pub use settings::{OnTokio, Retry, ScheduledRetry};

use crate::policy::Policy;

/// Adds [`retry`](PolicyExt::retry) to [`Policy`].
pub trait PolicyExt {
    /// Runs `work` on tokio until it succeeds or this policy gives up. The result can be awaited as
    /// it is, or after settings: see [`Retry`].
    ///
    /// The error is any `std::error::Error`, an `anyhow::Error` or a boxed error. It is read by
    /// [`classify::error`] unless [`Retry::classify`] or [`Retry::when`] says otherwise.
    ///
    /// An attempt that runs out of time is dropped. Retry budgets belong to the tasks of an engine
    /// and are not read here.
    ///
    /// # Errors
    /// When the policy gives up: the number of attempts, the reason, and the last error.
    ///
    /// ```
    /// use std::{io, time::Duration};
    ///
    /// use retrial::policy::{Backoff, Policy};
    /// use retrial::retry::PolicyExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = Policy::builder()
    ///     .attempts(3)
    ///     .backoff(Backoff::exponential(Duration::from_millis(10)))
    ///     .build()?;
    /// let number = policy.retry(|attempt| async move {
    ///     match attempt.number {
    ///         1 => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
    ///         number => Ok(number),
    ///     }
    /// });
    /// assert_eq!(number.await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    fn retry<T, E, M, F, W>(&self, work: W) -> Retry<'_, W, E>
    where
        W: FnMut(Attempt) -> F,
        F: Future<Output = Result<T, E>>,
        E: AsError<M>;

    /// As [`retry`](PolicyExt::retry) for work that blocks: [`Retry::call`] runs it on this thread,
    /// which sleeps between attempts. Nothing can end an attempt that has begun: its timeout is what
    /// the work is told.
    fn retry_blocking<T, E, M, W>(&self, work: W) -> Retry<'_, W, E, OnThread>
    where
        W: FnMut(Attempt) -> Result<T, E>,
        E: AsError<M>;
}

impl PolicyExt for Policy {
    fn retry<T, E, M, F, W>(&self, work: W) -> Retry<'_, W, E>
    where
        W: FnMut(Attempt) -> F,
        F: Future<Output = Result<T, E>>,
        E: AsError<M>,
    {
        Retry::new(self, work, OnTokio)
    }

    fn retry_blocking<T, E, M, W>(&self, work: W) -> Retry<'_, W, E, OnThread>
    where
        W: FnMut(Attempt) -> Result<T, E>,
        E: AsError<M>,
    {
        Retry::new(self, work, OnThread)
    }
}
