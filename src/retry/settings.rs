//! The settings of a call.

use std::error::Error;
use std::fmt;

use super::AsError;
use super::classify;
use super::gave_up::GaveUp;
use super::progress::{Next, Progress, Terms};
use crate::failure::Failure;
use crate::policy::{Functions, GiveUp, Policy};
use crate::runtime::Runtime;
use crate::time::{Mono, Nanos};

/// Awaits on the tokio runtime that polls it.
#[derive(Clone, Copy, Debug)]
pub struct OnTokio;

/// A retry that follows, as [`Retry::notify`] is told of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScheduledRetry<'a, E> {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// The time until the retry.
    pub delay: Nanos,
    /// Why there is a retry.
    pub failure: &'a Failure,
    /// The work's own error; `None` if the attempt timed out.
    pub error: Option<&'a E>,
}

/// Work under a policy, with settings: [`PolicyExt`](super::PolicyExt) makes one. Await it, or
/// [`call`](Retry::call) it where the work blocks.
#[must_use = "nothing runs until it is awaited, or called"]
pub struct Retry<'p, W, E, R = OnTokio> {
    pub(super) settings: Settings<'p, E>,
    pub(super) work: W,
    pub(super) runtime: R,
}

type Classify<'p, E> = Box<dyn Fn(&E) -> Failure + Send + 'p>;
type When<'p, E> = Box<dyn Fn(&E) -> bool + Send + 'p>;
type Notify<'p, E> = Box<dyn FnMut(ScheduledRetry<'_, E>) + Send + 'p>;

/// All that is set of a call but its work and its runtime.
pub(super) struct Settings<'p, E> {
    pub(super) policy: &'p Policy,
    pub(super) terms: Terms,
    pub(super) seed: Option<u64>,
    classify: Classify<'p, E>,
    when: Option<When<'p, E>>,
    notify: Option<Notify<'p, E>>,
    as_error: fn(&E) -> &(dyn Error + 'static),
}

impl<'p, W, E, R> Retry<'p, W, E, R> {
    pub(super) fn new<M>(policy: &'p Policy, work: W, runtime: R) -> Self
    where
        E: AsError<M>,
    {
        let functions = Functions::default();
        let terms = Terms { idempotent: true, retries_permanent: false, functions };
        let settings = Settings {
            policy,
            terms,
            seed: None,
            classify: Box::new(|error: &E| {
                classify::named(error.as_error(), std::any::type_name::<E>())
            }),
            when: None,
            notify: None,
            as_error: E::as_error,
        };
        Self { settings, work, runtime }
    }

    /// Reads errors by `classify`: their code, types, class and `Retry-After`.
    pub fn classify(mut self, classify: impl Fn(&E) -> Failure + Send + 'p) -> Self {
        self.settings.classify = Box::new(classify);
        self
    }

    /// Retries only after errors for which `retryable` is true, and those only as the policy says.
    pub fn when(mut self, retryable: impl Fn(&E) -> bool + Send + 'p) -> Self {
        self.settings.when = Some(Box::new(retryable));
        self
    }

    /// Calls `notify` before each delay.
    pub fn notify(mut self, notify: impl FnMut(ScheduledRetry<'_, E>) + Send + 'p) -> Self {
        self.settings.notify = Some(Box::new(notify));
        self
    }

    /// Retries also after permanent failures where the policy comes from the builder and its rule
    /// names no failures. Rules that name failures, and policies of the other dialects, do so anyway.
    pub fn even_permanent(mut self) -> Self {
        self.settings.terms.retries_permanent = true;
        self
    }

    /// Draws jitter from `seed`; one is drawn unless set.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// The work must not run twice: there is no retry after an unknown outcome, unless the policy
    /// says so.
    pub fn not_idempotent(mut self) -> Self {
        self.settings.terms.idempotent = false;
        self
    }

    /// The custom backoff functions that the policy names.
    pub fn with_functions(mut self, functions: Functions) -> Self {
        self.settings.terms.functions = functions;
        self
    }
}

impl<'p, W, E> Retry<'p, W, E> {
    /// Takes clock, timers and random numbers from `runtime`.
    pub fn on<R: Runtime>(self, runtime: R) -> Retry<'p, W, E, R> {
        Retry { settings: self.settings, work: self.work, runtime }
    }
}

/// A failed attempt and the retry that follows it.
pub(super) struct Failed<E> {
    next: Next,
    failure: Failure,
    error: Option<E>,
}

impl<E> Failed<E> {
    pub(super) fn delay(&self) -> Nanos {
        self.next.delay
    }
}

impl<E> Settings<'_, E> {
    /// What follows an attempt that ended with `error`, or that ran out of its time.
    pub(super) fn after(
        &mut self,
        progress: &Progress,
        error: Result<E, Nanos>,
        now: Mono,
    ) -> Result<Failed<E>, GaveUp<E>> {
        let (failure, error) = match error {
            Ok(error) => ((self.classify)(&error), Some(error)),
            Err(limit) => (Failure::timeout(limit), None),
        };
        let attempt = progress.attempts();
        let refused = matches!((&self.when, &error), (Some(when), Some(error)) if !when(error));
        let next = match refused {
            true => Err(GiveUp::NotRetryable),
            false => progress.after(self.policy, &self.terms, &failure, now),
        };
        match next {
            Err(reason) => Err(self.gave_up(attempt, reason, failure, error)),
            Ok(next) => {
                if let Some(notify) = &mut self.notify {
                    let (failure, error) = (&failure, error.as_ref());
                    notify(ScheduledRetry { attempt, delay: next.delay, failure, error });
                }
                Ok(Failed { next, failure, error })
            }
        }
    }

    /// After the delay, the next attempt.
    pub(super) fn begin(
        &self,
        progress: &mut Progress,
        failed: Failed<E>,
        now: Mono,
    ) -> Result<(), GaveUp<E>> {
        let Failed { next, failure, error } = failed;
        let begun = progress.begin(self.policy, &next, &failure, now);
        begun.map_err(|reason| self.gave_up(progress.attempts(), reason, failure, error))
    }

    fn gave_up(
        &self,
        attempts: u32,
        reason: GiveUp,
        failure: Failure,
        error: Option<E>,
    ) -> GaveUp<E> {
        let failure = match reason.numbers(self.policy, &failure) {
            Some(numbers) => failure.with_detail(&numbers),
            None => failure,
        };
        GaveUp { attempts, reason, failure, error, as_error: self.as_error }
    }
}

impl<W, E, R> fmt::Debug for Retry<'_, W, E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("policy", &self.settings.policy).finish_non_exhaustive()
    }
}
