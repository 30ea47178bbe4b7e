//! What the layers of other libraries share: how answers are read, and what follows one.

use std::error::Error;
use std::future::Future;
use std::sync::{Mutex, OnceLock, PoisonError};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};

use super::progress::{Next, Progress, Terms, stamp};
use super::{classify, retry_after};
use crate::failure::Failure;
use crate::guard::Bucket;
use crate::policy::{Denied, Functions, Policy};
use crate::runtime::{Runtime as _, TokioRuntime};
use crate::time::{Mono, Nanos, Timestamp};

/// Reads an answer: its failure, or none for a success. `at` is the time by the wall clock.
pub trait Classify<T, E> {
    /// The failure that the answer is.
    fn failure(&self, answer: Result<&T, &E>, at: Timestamp) -> Option<Failure>;
}

impl<T, E, F: Fn(Result<&T, &E>) -> Option<Failure>> Classify<T, E> for F {
    fn failure(&self, answer: Result<&T, &E>, _: Timestamp) -> Option<Failure> {
        self(answer)
    }
}

/// Reads HTTP answers: statuses of 400 and above are failures, with their `Retry-After`; errors are
/// read by [`classify::error`].
#[derive(Clone, Copy, Debug)]
pub struct HttpAnswers;

impl<B, E: Error + 'static> Classify<Response<B>, E> for HttpAnswers {
    fn failure(&self, answer: Result<&Response<B>, &E>, at: Timestamp) -> Option<Failure> {
        match answer {
            Ok(answer) => of_status(answer.status(), answer.headers(), at),
            Err(error) => Some(classify::error(error)),
        }
    }
}

/// The failure that an HTTP answer is.
pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, at: Timestamp) -> Option<Failure> {
    if status.as_u16() < 400 {
        return None;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let wait = text(RETRY_AFTER).and_then(|asked| retry_after::wait(asked, text(DATE), at));
    let failure = classify::status(status.as_u16());
    Some(match wait {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    })
}

/// What the clones of a layer share: the policy, how answers are read, and one budget.
pub(super) struct Shared<C> {
    pub(super) policy: Policy,
    pub(super) classify: C,
    bucket: Mutex<Bucket>,
    /// Of the first request: its clock is the budget's.
    runtime: OnceLock<TokioRuntime>,
}

/// A request and its retries.
pub(super) struct Call<'s, C> {
    shared: &'s Shared<C>,
    runtime: &'s TokioRuntime,
    terms: Terms,
    progress: Progress,
}

impl<C> Shared<C> {
    pub(super) fn new(policy: Policy, classify: C) -> Self {
        Self { policy, classify, bucket: Mutex::default(), runtime: OnceLock::new() }
    }

    /// A request begins. `idempotent`: whether it may be made again after an unknown outcome.
    pub(super) fn call(&self, idempotent: bool) -> Call<'_, C> {
        let runtime = self.runtime.get_or_init(TokioRuntime::current);
        let terms = Terms { idempotent, retries_permanent: false, functions: Functions::default() };
        let progress = Progress::new(runtime.now(), runtime.random());
        if let Some(budget) = self.policy.budget() {
            self.with_bucket(|bucket| bucket.first_attempt(budget, stamp(runtime.now())));
        }
        Call { shared: self, runtime, terms, progress }
    }

    fn with_bucket<T>(&self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        change(&mut self.bucket.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<C> Call<'_, C> {
    /// Waits for the answer of an attempt; the limit if its time is up first. An answer that is
    /// ready by then counts.
    pub(super) async fn within<F: Future>(&self, attempt: F) -> Result<F::Output, Nanos> {
        let now = self.runtime.now();
        let Some(limit) = self.progress.limit(&self.shared.policy, now) else {
            return Ok(attempt.await);
        };
        tokio::select! {
            biased;
            answer = attempt => Ok(answer),
            () = self.runtime.sleep_until(now.after(limit)) => Err(limit),
        }
    }

    /// The failure that an attempt is.
    pub(super) fn failure<T, E>(&self, answer: &Result<Result<T, E>, Nanos>) -> Option<Failure>
    where
        C: Classify<T, E>,
    {
        match answer {
            Ok(answer) => self.shared.classify.failure(answer.as_ref(), self.runtime.wall()),
            Err(limit) => Some(Failure::timeout(*limit)),
        }
    }

    /// Whether another attempt follows one that ended so: if it does, its delay has passed.
    pub(super) async fn goes_on(&mut self, failure: Option<Failure>) -> bool {
        let Some(failure) = failure else {
            self.succeeded();
            return false;
        };
        let (now, policy) = (self.runtime.now(), &self.shared.policy);
        let next = self.progress.after(policy, &self.terms, &failure, now).ok();
        let Some((next, wait)) = next.and_then(|next| self.pay(next, &failure, now)) else {
            return false;
        };
        self.runtime.sleep_until(now.after(next.delay.max(wait))).await;
        self.progress.begin(policy, &next, &failure, self.runtime.now()).is_ok()
    }

    /// A success gives tokens back as the budget says.
    fn succeeded(&self) {
        let Some(budget) = self.shared.policy.budget() else { return };
        let tokens = budget.refill_of_success(self.progress.attempts(), self.progress.last());
        let now = stamp(self.runtime.now());
        self.shared.with_bucket(|bucket| bucket.refill(budget, tokens, now));
    }

    /// Takes the retry's tokens, and says how long to wait for them; `None` if the budget denies it.
    fn pay(&self, next: Next, failure: &Failure, now: Mono) -> Option<(Next, Nanos)> {
        let Some(budget) = self.shared.policy.budget() else { return Some((next, Nanos::ZERO)) };
        let (cost, waits) = (budget.cost_of(failure), budget.on_denied == Denied::Wait);
        let left = self.progress.time_left(&self.shared.policy, now);
        let in_time = |until: Timestamp| left.is_none_or(|left| until.since(stamp(now)) < left);
        let paid = self.shared.with_bucket(|bucket| {
            match bucket.withdraw(budget, cost, stamp(now)) {
                // What time gives until then is this retry's.
                Err(until) if waits && in_time(until) => {
                    bucket.withdraw(budget, cost, until).map(|()| until)
                }
                paid => paid.map(|()| stamp(now)),
            }
        });
        Some((next, paid.ok()?.since(stamp(now))))
    }
}
