//! A user's simulated HTTP service.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::World;

/// Answers requests of one world.
pub(crate) type Service =
    Arc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// Makes the service of one world.
pub(crate) type MakeService = Arc<dyn Fn(&World) -> Service + Send + Sync>;

/// `user` without its types.
pub(crate) fn make<M, S, Fut>(user: M) -> MakeService
where
    M: Fn(&World) -> S + Send + Sync + 'static,
    S: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Response> + Send + 'static,
{
    Arc::new(move |world| {
        let service = user(world);
        Arc::new(move |request| Box::pin(service(request)))
    })
}

/// A request as a service gets it: whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method, upper case.
    pub method: String,
    /// The path, from `/`.
    pub path: String,
    /// The text after `?`; empty if there is none.
    pub query: String,
    /// The headers that are text, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Bytes,
}

impl Request {
    /// A header, by lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The body read as JSON; `None` where it is not or does not fit.
    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// The answer of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status, 200 to 599.
    pub status: u16,
    /// Headers. The server sets those for the body's length and the connection; its
    /// type is JSON's where nothing else is said.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// A status without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// 200 with `body` as JSON; `null` where that can't be written.
    #[must_use]
    pub fn json(body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec());
        Self { body: body.into(), ..Self::status(200) }
    }

    /// With this status in place of its own.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// With one header more.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}
