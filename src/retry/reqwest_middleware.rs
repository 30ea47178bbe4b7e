//! A middleware of `reqwest-middleware` that retries requests under a policy, with its budget and
//! `Retry-After`.
//!
//! The caller gets the last answer, whatever it is. The policy's time limits hold: an attempt is
//! dropped when its time is up, and if no answer is left to give, the error is the [`Failure`]
//! `TIMEOUT`. A request whose body is a stream can't be made again, so it is made once.

use std::fmt;
use std::pin::Pin;

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next};

use super::classify;
use super::layer::Shared;
pub use super::layer::{Classify, HttpAnswers};
use crate::failure::Failure;
use crate::policy::Policy;
use crate::time::{Nanos, Timestamp};

/// Retries the requests of a client. All of them share one budget.
///
/// A request is made again after an unknown outcome, such as a timeout, only if its method is
/// idempotent ([RFC 9110, 9.2.2](https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2)) or it has an
/// `Idempotency-Key`, or if the policy says so.
///
/// ```
/// use std::time::Duration;
///
/// use reqwest_middleware::ClientBuilder;
/// use retrial::policy::{Backoff, Policy};
/// use retrial::retry::reqwest_middleware::{HttpAnswers, RetryMiddleware};
///
/// let backoff = Backoff::exponential(Duration::from_millis(50));
/// let policy = Policy::builder().attempts(3).backoff(backoff).build()?;
/// let client = ClientBuilder::new(reqwest::Client::new())
///     .with(RetryMiddleware::new(policy, HttpAnswers))
///     .build();
/// # let _ = client;
/// # Ok::<(), retrial::policy::PolicyError>(())
/// ```
pub struct RetryMiddleware<C> {
    shared: Shared<C>,
}

impl<C> RetryMiddleware<C> {
    /// Retries under `policy` what `classify` calls a failure: [`HttpAnswers`], or a function.
    #[must_use]
    pub fn new(policy: Policy, classify: C) -> Self {
        Self { shared: Shared::new(policy, classify) }
    }
}

impl Classify<Response, Error> for HttpAnswers {
    fn failure(&self, answer: Result<&Response, &Error>, at: Timestamp) -> Option<Failure> {
        match answer {
            Ok(answer) => super::layer::of_status(answer.status(), answer.headers(), at),
            Err(error) => Some(classify::reqwest_middleware(error)),
        }
    }
}

/// What `async_trait` makes of an asynchronous method.
type Answered<'a> = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send + 'a>>;

impl<C: Classify<Response, Error> + Send + Sync + 'static> Middleware for RetryMiddleware<C> {
    fn handle<'s, 'e, 'n, 'a>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Answered<'a>
    where
        's: 'a,
        'e: 'a,
        'n: 'a,
        Self: 'a,
    {
        Box::pin(self.answer(request, extensions, next))
    }
}

impl<C: Classify<Response, Error>> RetryMiddleware<C> {
    async fn answer(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let keyed = request.headers().contains_key("idempotency-key");
        let mut call = self.shared.call(keyed || request.method().is_idempotent());
        loop {
            let again = request.try_clone();
            let answer = call.within(next.clone().run(request, extensions)).await;
            let failure = call.failure(&answer);
            request = match again {
                Some(again) if call.goes_on(failure).await => again,
                _ => return answer.unwrap_or_else(|limit| Err(timed_out(limit))),
            };
        }
    }
}

fn timed_out(limit: Nanos) -> Error {
    Error::middleware(Failure::timeout(limit))
}

impl<C> fmt::Debug for RetryMiddleware<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = &self.shared.policy;
        f.debug_struct("RetryMiddleware").field("policy", policy).finish_non_exhaustive()
    }
}
