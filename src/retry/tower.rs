//! A layer of `tower` that retries requests under a policy, with its budget and `Retry-After`.
//!
//! As with `tower`'s own retries, the caller gets the last answer, whatever it is. The policy's time
//! limits hold: an attempt is dropped when its time is up, and if no answer is left to give, the error
//! is the [`Failure`] `TIMEOUT`.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::layer::Shared;
pub use super::layer::{Classify, HttpAnswers};
use crate::failure::Failure;
use crate::policy::Policy;

/// An error of any kind, as `tower`'s own layers have it.
pub type BoxError = Box<dyn Error + Send + Sync>;

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

impl<C> RetryLayer<C> {
    /// Retries under `policy` what `classify` calls a failure: [`HttpAnswers`], or a function.
    #[must_use]
    pub fn new(policy: Policy, classify: C) -> Self {
        Self { shared: Arc::new(Shared::new(policy, classify)) }
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
        Box::pin(async move { answer(&shared, service, request).await })
    }
}

async fn answer<C, S, Q>(
    shared: &Shared<C>,
    mut service: S,
    request: Q,
) -> Result<S::Response, BoxError>
where
    Q: Clone,
    S: Service<Q>,
    S::Error: Into<BoxError>,
    C: Classify<S::Response, S::Error>,
{
    let mut call = shared.call(true);
    loop {
        let answer = call.within(service.call(request.clone())).await;
        let failure = call.failure(&answer);
        if !call.goes_on(failure).await {
            return match answer {
                Ok(answer) => answer.map_err(Into::into),
                Err(limit) => Err(Box::new(Failure::timeout(limit))),
            };
        }
        drop(answer);
        poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
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
