//! HTTP actions: one request for each attempt, on a fresh connection or on one that was kept.
//!
//! The pool never sends a request again that may have left: the engine alone decides on retries.

mod action_set;
mod answer;
mod client;
mod connection;
mod encoding;
mod exchange;
mod pool;
mod request;
mod span;
#[cfg(feature = "compression")]
mod unpack;

use std::fmt;
use std::sync::Arc;

pub use action_set::ActionSet;
use bytes::Bytes;
pub use client::{Http, Request, Response};
use http_body_util::Full;
use tracing::{Instrument, Span};

use self::connection::Unanswered;
use self::exchange::Answer;
use self::pool::Pool;
use super::{Actions, Call, Outcome};
use crate::failure::Failure;
use crate::net::{Authority, Connect};
use crate::time::Nanos;
use crate::workflow::{Endpoint, Target};

/// Looks up a variable of the environment for a request to a host.
type Environment = Arc<dyn Fn(&str, &Authority) -> Option<String> + Send + Sync>;

/// Invokes HTTP endpoints over a network.
#[derive(Clone)]
pub struct HttpActions<C> {
    network: C,
    environment: Environment,
    pool: Option<Pool>,
}

impl<C: Connect> HttpActions<C> {
    /// HTTP actions over `network`. Each request looks up the headers written as `env:NAME` in
    /// `environment`, so their values are never stored.
    pub fn new(
        network: C,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::by_host(network, move |name, _| environment(name))
    }

    /// The same, where `environment` also decides by the host that the request goes to, so that a
    /// secret is sent to none but its own host.
    pub fn by_host(
        network: C,
        environment: impl Fn(&str, &Authority) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { network, environment: Arc::new(environment), pool: None }
    }

    /// The same, which keeps up to `per_host` connections to each host, at most 256 in all, open for
    /// `idle` after an exchange. Without this each attempt has a fresh connection.
    ///
    /// An endpoint may close a kept connection just when a request is sent. Such a request may have
    /// arrived, so an action that is declared as not idempotent always has a fresh connection.
    #[must_use]
    pub fn keeping(self, per_host: usize, idle: Nanos) -> Self {
        Self { pool: (per_host > 0).then(|| Pool::new(per_host, idle)), ..self }
    }

    async fn call(&self, endpoint: &Endpoint, call: &Call) -> Outcome {
        let (to, request) = request::build(endpoint, call, &*self.environment)?;
        let span = span::of(&request, &to, call);
        let outcome = self.exchange(&to, request, endpoint, call).instrument(span.clone()).await;
        span::answered(&span, &outcome);
        outcome
    }

    async fn exchange(
        &self,
        to: &Authority,
        request: hyper::Request<Full<Bytes>>,
        endpoint: &Endpoint,
        call: &Call,
    ) -> Outcome {
        let without_body = request.method() == hyper::Method::HEAD;
        let answer = self.answer(to, request, call).await?;
        if let Some(cost) = answer::cost(&answer) {
            call.reports.spend(cost);
        }
        span::status(&Span::current(), answer.status);
        answer::read(&answer, without_body, endpoint.answer, call.at)
    }

    /// Sends the request on a kept connection that is still open, else on a fresh one.
    async fn answer(
        &self,
        to: &Authority,
        mut request: hyper::Request<Full<Bytes>>,
        call: &Call,
    ) -> Result<Answer, Failure> {
        let may_run_twice = call.action.as_ref().and_then(|a| a.idempotent) != Some(false);
        let Some(pool) = self.pool.as_ref().filter(|_| may_run_twice) else {
            let (stream, version) = self.network.connect_http(to).await?;
            return Ok(exchange::exchange(stream, version, request, to).await?.0);
        };
        request.headers_mut().remove(hyper::header::CONNECTION);
        let now = || call.context_runtime.now();
        while let Some(mut kept) = pool.take(to, now()) {
            // If it has closed meanwhile, that shows before anything is sent.
            match kept.exchange(request.clone()).await {
                Ok(answer) => return Ok(pool.keep(to, kept, answer, now())),
                Err(Unanswered::Unsent) => {}
                Err(broken) => return Err(broken.of(to)),
            }
        }
        let (stream, version) = self.network.connect_http(to).await?;
        let (answer, connection) = exchange::exchange(stream, version, request, to).await?;
        Ok(pool.keep(to, connection, answer, now()))
    }
}

impl<C: Connect> Actions for HttpActions<C> {
    async fn invoke(&self, call: Call) -> Outcome {
        match call.action.as_ref().map(|a| &a.target) {
            Some(Target::Http(endpoint)) => self.call(endpoint, &call).await,
            Some(Target::Registered) | None => {
                let message = format!("`{}` is not an HTTP action; register a function", call.name);
                Err(Failure::new("UNSUPPORTED_ACTION", &message))
            }
        }
    }
}

impl<C> fmt::Debug for HttpActions<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpActions")
    }
}
