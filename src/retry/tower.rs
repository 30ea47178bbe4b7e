//! A layer of `tower` that retries requests under a policy, with its budget and `Retry-After`.
//!
//! As with `tower`'s own retries, the caller gets the last answer, whatever it is. The policy's time
//! limits hold: an attempt is dropped when its time is up, and if no answer is left to give, the error
//! is the [`Failure`] `TIMEOUT`.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use http::Response;
use http::header::{DATE, RETRY_AFTER};
use tower_layer::Layer;
use tower_service::Service;

use super::progress::{Next, Progress, Terms, stamp};
use super::{classify, retry_after};
use crate::failure::Failure;
use crate::guard::Bucket;
use crate::policy::{Denied, Functions, Policy};
use crate::runtime::{Runtime as _, TokioRuntime};
use crate::time::{Mono, Nanos, Timestamp};

/// An error of any kind, as `tower`'s own layers have it.
pub type BoxError = Box<dyn Error + Send + Sync>;

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
        let answer = match answer {
            Ok(answer) if answer.status().as_u16() < 400 => return None,
            Ok(answer) => answer,
            Err(error) => return Some(classify::error(error)),
        };
        let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let wait = text(RETRY_AFTER).and_then(|asked| retry_after::wait(asked, text(DATE), at));
        let failure = classify::status(answer.status().as_u16());
        Some(match wait {
            Some(wait) => failure.with_retry_after(wait),
            None => failure,
        })
    }
}

/// Retries the requests of the service beneath it. Clones, and the services that it makes, share one
/// budget.
///
/// ```
/// use std::time::Duration;
///
/// use retrial::policy::{Backoff, Policy};
/// use retrial::retry::tower::{HttpAnswers, RetryLayer};
///
/// let backoff = Backoff::exponential(Duration::from_millis(50));
/// let policy = Policy::builder().attempts(3).backoff(backoff).build()?;
/// let layer = RetryLayer::new(policy, HttpAnswers);
/// # let _ = layer;
/// # Ok::<(), retrial::policy::PolicyError>(())
/// ```
pub struct RetryLayer<C> {
    shared: Arc<Shared<C>>,
}

/// A service whose requests are retried.
pub struct RetryService<S, C> {
    inner: S,
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    policy: Policy,
    terms: Terms,
    classify: C,
    bucket: Mutex<Bucket>,
    /// Of the first request: its clock is the budget's.
    runtime: OnceLock<TokioRuntime>,
}

impl<C> RetryLayer<C> {
    /// Retries under `policy` what `classify` calls a failure: [`HttpAnswers`], or a function.
    #[must_use]
    pub fn new(policy: Policy, classify: C) -> Self {
        let functions = Functions::default();
        let terms = Terms { idempotent: true, retries_permanent: false, functions };
        let (bucket, runtime) = (Mutex::default(), OnceLock::new());
        Self { shared: Arc::new(Shared { policy, terms, classify, bucket, runtime }) }
    }
}

impl<S, C> Layer<S> for RetryLayer<C> {
    type Service = RetryService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        RetryService { inner, shared: Arc::clone(&self.shared) }
    }
}

impl<S, C, Q> Service<Q> for RetryService<S, C>
where
    Q: Clone + Send + 'static,
    S: Service<Q> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Into<BoxError> + Send,
    C: Classify<S::Response, S::Error> + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        // The service that is ready is the one that is called.
        let other = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, other);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.call(service, request).await })
    }
}

impl<C> Shared<C> {
    async fn call<S, Q>(&self, mut service: S, request: Q) -> Result<S::Response, BoxError>
    where
        Q: Clone,
        S: Service<Q>,
        S::Error: Into<BoxError>,
        C: Classify<S::Response, S::Error>,
    {
        let runtime = self.runtime.get_or_init(TokioRuntime::current);
        let mut progress = Progress::new(runtime.now(), runtime.random());
        self.first(runtime.now());
        loop {
            let limit = progress.limit(&self.policy, runtime.now());
            let answer = within(runtime, limit, service.call(request.clone())).await;
            let failure = match &answer {
                Ok(answer) => self.classify.failure(answer.as_ref(), runtime.wall()),
                Err(limit) => Some(Failure::timeout(*limit)),
            };
            let Some(failure) = failure else {
                self.succeeded(&progress, runtime.now());
                return given(answer);
            };
            let now = runtime.now();
            let next = progress.after(&self.policy, &self.terms, &failure, now).ok();
            let Some((next, wait)) = next.and_then(|next| self.pay(next, &failure, now)) else {
                return given(answer);
            };
            runtime.sleep_until(now.after(next.delay.max(wait))).await;
            if progress.begin(&self.policy, &next, &failure, runtime.now()).is_err() {
                return given(answer);
            }
            drop(answer);
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
        }
    }

    fn with_bucket<T>(&self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        change(&mut self.bucket.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn first(&self, now: Mono) {
        if let Some(budget) = self.policy.budget() {
            self.with_bucket(|bucket| bucket.first_attempt(budget, stamp(now)));
        }
    }

    /// A success gives tokens back as the budget says.
    fn succeeded(&self, progress: &Progress, now: Mono) {
        let Some(budget) = self.policy.budget() else { return };
        let tokens = budget.refill_of_success(progress.attempts(), progress.last());
        self.with_bucket(|bucket| bucket.refill(budget, tokens, stamp(now)));
    }

    /// Takes the retry's tokens, and says how long to wait for them; `None` if the budget denies it.
    fn pay(&self, next: Next, failure: &Failure, now: Mono) -> Option<(Next, Nanos)> {
        let Some(budget) = self.policy.budget() else { return Some((next, Nanos::ZERO)) };
        let (cost, waits) = (budget.cost_of(failure), budget.on_denied == Denied::Wait);
        let paid = self.with_bucket(|bucket| match bucket.withdraw(budget, cost, stamp(now)) {
            // What time gives until then is this retry's.
            Err(until) if waits => bucket.withdraw(budget, cost, until).map(|()| until),
            paid => paid.map(|()| stamp(now)),
        });
        Some((next, paid.ok()?.since(stamp(now))))
    }
}

/// An answer, or an error after a time that is up.
fn given<T, E: Into<BoxError>>(answer: Result<Result<T, E>, Nanos>) -> Result<T, BoxError> {
    match answer {
        Ok(answer) => answer.map_err(Into::into),
        Err(limit) => Err(Box::new(Failure::timeout(limit))),
    }
}

/// Waits for an answer; the limit if it passes first. An answer that is ready by then counts.
async fn within<F: Future>(
    runtime: &TokioRuntime,
    limit: Option<Nanos>,
    answer: F,
) -> Result<F::Output, Nanos> {
    let Some(limit) = limit else { return Ok(answer.await) };
    tokio::select! {
        biased;
        answer = answer => Ok(answer),
        () = runtime.sleep_until(runtime.now().after(limit)) => Err(limit),
    }
}

impl<C> Clone for RetryLayer<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Clone, C> Clone for RetryService<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for RetryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}

impl<S, C> fmt::Debug for RetryService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryService").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}
