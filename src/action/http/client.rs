//! The HTTP client of registered functions. Its failures are those of HTTP actions.

use std::fmt;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::{Instrument, Span};

use super::exchange::{self, Answer};
use super::request::{Parts, assemble, attempt_headers, default_headers, invalid, parse_header};
use super::{answer, span};
use crate::action::Context;
use crate::failure::Failure;
use crate::net::{HttpVersion, Url};
use crate::workflow::HeaderText;

/// Makes requests on behalf of one attempt. From [`Context::http`].
#[derive(Clone, Copy, Debug)]
pub struct Http<'c>(&'c Context);

impl Context {
    /// An HTTP client: one request on one fresh connection, which reports failures as HTTP actions
    /// do.
    #[must_use]
    pub fn http(&self) -> Http<'_> {
        Http(self)
    }
}

impl<'c> Http<'c> {
    /// A `GET` of `url`.
    pub fn get(self, url: &str) -> Request<'c> {
        self.request("GET", url)
    }

    /// A `POST` to `url`.
    pub fn post(self, url: &str) -> Request<'c> {
        self.request("POST", url)
    }

    /// A request with any method. [`Request::send`] reports an invalid method or `url`.
    pub fn request(self, method: &str, url: &str) -> Request<'c> {
        Request {
            context: self.0,
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Ok(Bytes::new()),
            with_attempt: false,
            any_status: false,
        }
    }
}

/// A builder of a request. Its headers and body may hold secrets: `Debug` shows neither.
#[must_use = "nothing is sent before `send`"]
#[derive(Clone)]
pub struct Request<'c> {
    context: &'c Context,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Result<Bytes, Failure>,
    with_attempt: bool,
    any_status: bool,
}

impl Request<'_> {
    /// Adds a header. A second one of that name replaces the first.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body. Set its `Content-Type` with [`Request::header`].
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Ok(body.into());
        self
    }

    /// Sets `body` as JSON, with its `Content-Type`.
    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body)
            .map(Bytes::from)
            .map_err(|error| invalid(&format!("its body can't be written as JSON: {error}")));
        self.header("content-type", "application/json")
    }

    /// Adds the headers that HTTP actions send: `Receipt-Token` and `Idempotency-Key`, the same on
    /// every attempt, `X-Retry-Attempt` and `X-Retry-Timeout-Ms`. A service that deduplicates by the
    /// token does the work once, however many attempts call it.
    pub fn with_attempt(mut self) -> Self {
        self.with_attempt = true;
        self
    }

    /// Returns answers of every status, not only 2xx.
    pub fn any_status(mut self) -> Self {
        self.any_status = true;
        self
    }

    /// Sends the request and reads the whole answer, of at most 1 MiB. Dropping the future closes the
    /// connection. Does not follow redirects.
    ///
    /// # Errors
    /// `BAD_REQUEST`, permanent, for an invalid request; the status, with its `Retry-After`, if it is
    /// not 2xx; `BAD_RESPONSE` for a body that is too long; otherwise the failure of the network.
    /// If the request may have arrived, the failure's outcome is unknown.
    pub async fn send(self) -> Result<Response, Failure> {
        let (context, any_status) = (self.context, self.any_status);
        let call = &context.0;
        let (parts, headers) = self.prepared()?;
        let to = parts.url.authority().clone();
        let request = assemble(parts, headers)?;
        let span = span::of(&request, &to, call);
        let exchanged = async {
            let stream = context.1.connect(&to).await?;
            let version = HttpVersion::Http1;
            let (answer, _) = exchange::exchange(stream, version, request, &to).await?;
            span::status(&Span::current(), answer.status);
            if any_status || answer.status.is_success() {
                Response::of(answer)
            } else {
                Err(answer::refusal(&answer, call.at))
            }
        };
        let answered = exchanged.instrument(span.clone()).await;
        if let Err(failure) = &answered {
            span::failed(&span, failure);
        }
        answered
    }

    fn prepared(self) -> Result<(Parts, HeaderMap), Failure> {
        let url: Url = self.url.parse().map_err(|error| invalid(&format!("{error}")))?;
        let method = Method::from_bytes(self.method.as_bytes())
            .map_err(|_| invalid("the method is not an HTTP method"))?;
        let mut headers = default_headers(&url, None)?;
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        for (name, value) in self.headers {
            let (name, value) = parse_header(&name, &HeaderText::Literal(value), &|_| None)?;
            headers.insert(name, value);
        }
        if self.with_attempt {
            attempt_headers(&mut headers, &self.context.0);
        }
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        Ok((Parts { method, url, body: self.body? }, headers))
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

/// An answer. Its headers and body may hold secrets: `Debug` shows neither.
#[derive(Clone)]
pub struct Response {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Response {
    fn of(answer: Answer) -> Result<Self, Failure> {
        answer.whole()?;
        let Answer { status, headers, body, .. } = answer;
        Ok(Self { status: status.as_u16(), headers, body })
    }

    /// The status: 2xx, unless [`Request::any_status`] was set.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The first header of this name, if its value is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, deserialized from JSON.
    ///
    /// # Errors
    /// `BAD_RESPONSE`, permanent, if it is not JSON or does not fit `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Failure::bad_response(&format!("the answer's JSON is not what was expected at {place}"))
        })
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}
