//! Retries one future under a policy, with no workflow and no store.
//!
//! Decides nothing about retries: [`Policy::verdict`] does, as for the engine. Must never know
//! workflows, stores or engines. Nothing survives the process. Dropping the future cancels the
//! retries, during an attempt or between two. To add a setting, add a field to [`Retry`] and a
//! method that sets it.

use std::fmt;
use std::future::Future;

use crate::failure::{Failure, RetryKind};
use crate::policy::{Functions, GiveUp, Policy, Used, Verdict};
use crate::run::TaskId;
use crate::runtime::{Runtime, TokioRuntime};
use crate::time::{Mono, Nanos, Timestamp};

/// One attempt, as the work sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// Retries left after it; `None` when unlimited.
    pub retries_left: Option<u32>,
    /// The time it may take; `None` when unlimited.
    pub timeout: Option<Nanos>,
    /// The failure of the previous attempt.
    pub last: Option<Failure>,
}

/// The work failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaveUp<E> {
    /// Attempts made.
    pub attempts: u32,
    /// Why there is no retry.
    pub reason: GiveUp,
    /// The last failure.
    pub failure: Failure,
    /// The work's own error; `None` if the attempt timed out.
    pub error: Option<E>,
}

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, reason, failure, .. } = self;
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, "{failure} (after {attempts} attempt{plural}: {reason})")
    }
}

impl<E: fmt::Debug> std::error::Error for GaveUp<E> {}

/// Adds [`retry`](PolicyExt::retry) to [`Policy`].
pub trait PolicyExt {
    /// Runs `work` on tokio until it succeeds or this policy gives up. An error becomes a
    /// [`Failure`] by `From<&E>`, which gives its code, type and class.
    ///
    /// An attempt that runs out of time is dropped. Retry budgets belong to the tasks of an engine
    /// and are not read here. For another runtime, a fixed seed, or work that must not run twice,
    /// use [`Retry`].
    ///
    /// # Errors
    /// When the policy gives up: the number of attempts, the reason, and the last failure.
    fn retry<T, E, F>(
        &self,
        work: impl FnMut(Attempt) -> F,
    ) -> impl Future<Output = Result<T, GaveUp<E>>>
    where
        F: Future<Output = Result<T, E>>,
        Failure: for<'e> From<&'e E>;
}

impl PolicyExt for Policy {
    async fn retry<T, E, F>(&self, work: impl FnMut(Attempt) -> F) -> Result<T, GaveUp<E>>
    where
        F: Future<Output = Result<T, E>>,
        Failure: for<'e> From<&'e E>,
    {
        Retry::new(self, TokioRuntime::current()).retry(work).await
    }
}

/// One future under a policy, with settings. [`PolicyExt::retry`] uses the defaults.
#[derive(Clone, Debug)]
pub struct Retry<'p, R> {
    policy: &'p Policy,
    runtime: R,
    seed: Option<u64>,
    idempotent: bool,
    functions: Functions,
}

/// The progress of the work.
struct Progress {
    first_started: Mono,
    attempt: u32,
    timeout_retries: u32,
    by_rule: Vec<u32>,
    previous: Option<Nanos>,
    last: Option<Failure>,
}

impl<'p, R: Runtime> Retry<'p, R> {
    /// Retries under `policy`, with the clock and random numbers of `runtime`.
    #[must_use]
    pub fn new(policy: &'p Policy, runtime: R) -> Self {
        let functions = Functions::default();
        Self { policy, runtime, seed: None, idempotent: true, functions }
    }

    /// Draws jitter from `seed`; the runtime draws one unless set.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The work must not run twice: there is no retry after an unknown outcome, unless the policy
    /// says so.
    #[must_use]
    pub fn not_idempotent(mut self) -> Self {
        self.idempotent = false;
        self
    }

    /// The custom backoff functions that the policy names.
    #[must_use]
    pub fn with_functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Runs `work` until it succeeds or the policy gives up.
    ///
    /// # Errors
    /// As [`PolicyExt::retry`].
    pub async fn retry<T, E, F>(&self, mut work: impl FnMut(Attempt) -> F) -> Result<T, GaveUp<E>>
    where
        F: Future<Output = Result<T, E>>,
        Failure: for<'e> From<&'e E>,
    {
        let seed = self.seed.unwrap_or_else(|| self.runtime.random());
        let mut progress = Progress::new(self.runtime.now());
        loop {
            let (failure, error) = match self.attempt(&mut work, &progress).await {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            let now = self.runtime.now();
            let given_up = match self.verdict(&failure, &progress, now, seed) {
                Verdict::GiveUp(reason) => Some(reason),
                Verdict::Retry { delay, backoff, rule } => {
                    self.runtime.sleep_until(now.after(delay)).await;
                    let late = self.time_left(&progress) == Some(Nanos::ZERO);
                    let late = late.then_some(GiveUp::TotalTimeout);
                    if late.is_none() {
                        progress.goes_on(&failure, backoff, rule);
                    }
                    late
                }
            };
            if let Some(reason) = given_up {
                return Err(GaveUp { attempts: progress.attempt, reason, failure, error });
            }
        }
    }

    /// One attempt, dropped at its timeout. An outcome that is ready by then counts.
    async fn attempt<T, E, F>(
        &self,
        work: &mut impl FnMut(Attempt) -> F,
        progress: &Progress,
    ) -> Result<T, (Failure, Option<E>)>
    where
        F: Future<Output = Result<T, E>>,
        Failure: for<'e> From<&'e E>,
    {
        let limits = [self.policy.attempt_timeout(), self.time_left(progress)];
        let timeout = limits.into_iter().flatten().min();
        let most = self.policy.limit().count();
        let attempt = Attempt {
            number: progress.attempt,
            retries_left: most.map(|most| most.saturating_sub(progress.attempt)),
            timeout,
            last: progress.last.clone(),
        };
        let deadline = timeout.map(|limit| self.runtime.now().after(limit));
        let time_up = async {
            match deadline {
                Some(at) => self.runtime.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = work(attempt) => outcome.map_err(|e| (Failure::from(&e), Some(e))),
            () = time_up => Err((Failure::timeout(timeout.unwrap_or_default()), None)),
        }
    }

    fn verdict(&self, failure: &Failure, progress: &Progress, now: Mono, seed: u64) -> Verdict {
        let used = Used {
            attempt: progress.attempt,
            idempotent: self.idempotent,
            timeout_retries: progress.timeout_retries,
            by_rule: &progress.by_rule,
            previous: progress.previous,
            first_started: stamp(progress.first_started),
        };
        // Drawn as for a run's first task.
        let chance = TaskId::FIRST.chance(seed, progress.attempt);
        self.policy.verdict(failure, &used, stamp(now), chance, &self.functions)
    }

    /// The rest of the total timeout.
    fn time_left(&self, progress: &Progress) -> Option<Nanos> {
        let end = self.policy.deadline(stamp(progress.first_started))?;
        Some(end.since(stamp(self.runtime.now())))
    }
}

impl Progress {
    fn new(now: Mono) -> Self {
        Self {
            first_started: now,
            attempt: 1,
            timeout_retries: 0,
            by_rule: Vec::new(),
            previous: None,
            last: None,
        }
    }

    fn goes_on(&mut self, failure: &Failure, backoff: Nanos, rule: u32) {
        self.attempt = self.attempt.saturating_add(1);
        self.timeout_retries += u32::from(failure.kind() == RetryKind::Timeout);
        let place = usize::try_from(rule).unwrap_or(usize::MAX);
        if self.by_rule.len() <= place {
            self.by_rule.resize(place.saturating_add(1), 0);
        }
        if let Some(count) = self.by_rule.get_mut(place) {
            *count = count.saturating_add(1);
        }
        self.previous = Some(backoff);
        self.last = Some(failure.clone());
    }
}

/// The process's clock as a timestamp. The policy only compares such times.
fn stamp(at: Mono) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos())
}
