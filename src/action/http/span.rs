//! The span around one request, by OpenTelemetry's conventions for HTTP clients. It contains the URL
//! without secrets, and no headers or bodies.

use hyper::{Request, StatusCode};
use tracing::Span;
use tracing::field::Empty;

use crate::action::{Call, Outcome};
use crate::failure::{Failure, sanitise};
use crate::net::Authority;

pub(super) fn of<B>(request: &Request<B>, to: &Authority, call: &Call) -> Span {
    let method = request.method().as_str();
    let retry = call.attempt.saturating_sub(1);
    tracing::info_span!(
        "http",
        otel.name = method,
        otel.kind = "client",
        otel.status_code = Empty,
        error.type = Empty,
        http.request.method = method,
        http.request.resend_count = (retry > 0).then_some(retry),
        http.response.status_code = Empty,
        network.protocol.name = "http",
        server.address = to.host,
        server.port = to.port,
        url.full = %sanitise::url(&format!("{to}{}", request.uri())),
    )
}

/// Records the answer's status.
pub(super) fn status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
}

/// Records the outcome of the request.
pub(super) fn answered(span: &Span, outcome: &Outcome) {
    if let Err(failure) = outcome {
        failed(span, failure);
    }
}

/// Records the failure of the request.
pub(super) fn failed(span: &Span, failure: &Failure) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", failure.code().as_str());
}
