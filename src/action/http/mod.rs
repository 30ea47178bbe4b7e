//! HTTP actions: one request on one fresh connection for each attempt.
//!
//! There is no connection pool: a pooled client may resend a request without the engine knowing.

mod action_set;
mod answer;
mod client;
mod encoding;
mod exchange;
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

use super::{Actions, Call, Outcome};
use crate::failure::Failure;
use crate::net::{Authority, Connect};
use crate::workflow::{Endpoint, Target};

/// Looks up a variable of the environment for a request to a host.
type Environment = Arc<dyn Fn(&str, &Authority) -> Option<String> + Send + Sync>;

/// Invokes HTTP endpoints over a network.
#[derive(Clone)]
pub struct HttpActions<C> {
    network: C,
    environment: Environment,
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
        Self { network, environment: Arc::new(environment) }
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
        let stream = self.network.connect(to).await?;
        let answer = exchange::exchange(stream, request, to).await?;
        if let Some(cost) = answer::cost(&answer) {
            call.reports.spend(cost);
        }
        span::status(&Span::current(), answer.status);
        answer::read(&answer, without_body, endpoint.answer, call.at)
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
