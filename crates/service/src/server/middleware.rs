//! The checks that every request passes and the headers that every answer carries.

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::audit::CreatedRun;
use super::caller::Caller;
use super::extract::too_large;
use super::problem::{Kind, Problem};
use super::routes::Route;
use super::service::{ServiceState, SharedState};
use super::tokens::Role;
use super::{monitor, routes};
use retrial::engine::World;
use retrial::net::Url;
use retrial::runtime::Runtime;

/// The headers of every answer: a page loads nothing from other sites, no site can frame it, and no
/// browser caches an answer or guesses its type.
const ALWAYS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// The label of requests that match no route.
const NO_ROUTE: &str = "none";

pub(super) async fn handle<W: World>(
    State(service): State<SharedState<W>>,
    request: Request,
    next: Next,
) -> Response {
    let runtime = service.engine.runtime();
    let began = runtime.now();
    let matched = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = matched.unwrap_or_else(|| NO_ROUTE.to_owned());
    let method = known_method(request.method());
    // After a chunked body nothing else is read, see `StrictHeads`.
    let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
    let held = service.monitor.count_open(monitor::IN_FLIGHT);
    let of = service.route(request.method(), &route);
    let path = request.uri().path().to_owned();
    let (mut caller, mut request) = (None, request);
    let checked = service.check_request(&request, &route, of.as_ref(), &mut caller);
    let mut response = match checked {
        Err(problem) => problem.into_response(),
        Ok(()) => {
            request.extensions_mut().insert(caller.clone().unwrap_or(Caller::Local));
            let within = service.settings.limits.answer_within;
            tokio::select! {
                biased;
                response = next.run(request) => response,
                () = runtime.sleep_until(began.after(within)) => {
                    let detail = format!("the service did not answer within {within}; the request may have taken effect");
                    Problem::new(Kind::NoAnswer, detail).into_response()
                }
            }
        }
    };
    if let Some(of) = of.filter(|of| of.role > Some(Role::Read)) {
        let created = response.extensions().get().map(|CreatedRun(run)| *run);
        service.audit(&of, &path, caller.as_ref(), (response.status(), created)).await;
    }
    drop(held);
    let took = runtime.now().since(began);
    let status = response.status().as_u16();
    tracing::debug!(method, route, status, %took, "request answered");
    service.monitor.answered(&route, method, status, took);
    if is_last || response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in ALWAYS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The method as a label. Clients can send any method, so labels are limited to known ones.
fn known_method(method: &Method) -> &'static str {
    let known = ["GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"];
    known.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}

impl<W: World> ServiceState<W> {
    /// The row of the table for a request, if one fits. `HEAD` is answered as `GET`.
    fn route(&self, method: &Method, path: &str) -> Option<Route> {
        let method = if method == Method::HEAD { "GET" } else { method.as_str() };
        let routes: &BTreeMap<(&str, &str), Route> = &self.routes;
        routes.get(&(method, path)).copied()
    }

    /// Checks a request for the path `route` of the table, whose row is `of`, and finds out who
    /// sends it.
    fn check_request(
        &self,
        request: &Request,
        route: &str,
        of: Option<&Route>,
        caller: &mut Option<Caller>,
    ) -> Result<(), Problem> {
        let limits = self.settings.limits;
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > limits.uri) {
            let detail =
                format!("path and query are longer than {} bytes; shorten them", limits.uri);
            return Err(Problem::new(Kind::UriTooLong, detail));
        }
        let headers = request.headers();
        let hosts = headers.get_all(header::HOST).iter().count();
        if hosts > 1 || hosts == 0 && request.version() == Version::HTTP_11 {
            return Err(Problem::bad_request("the request needs one Host header, and only one"));
        }
        // Whoever announces too much is not waited for.
        if announced(headers).is_some_and(|length| length > limits.body as u64) {
            return Err(too_large(limits.body));
        }
        let open = routes::is_asset(route) || of.is_some_and(|of| of.role.is_none());
        if self.closing.is_cancelled() && !open {
            return Err(Problem::new(
                Kind::Closing,
                "the service is shutting down; try again later or on another node",
            ));
        }
        if self.settings.needs_token() {
            *caller = bearer(headers).and_then(|given| self.settings.caller(given));
            let Some(caller) = caller.as_ref().filter(|_| !open) else {
                let detail = "the token is missing or wrong; send `Authorization: Bearer TOKEN`";
                return if open { Ok(()) } else { Err(Problem::new(Kind::NoToken, detail)) };
            };
            check_role(caller, of)?;
        } else if names_loopback(headers) {
            *caller = Some(Caller::Local);
        } else {
            // Without a token the service is on loopback, where another site's name may point.
            let detail = "the Host header does not name a loopback address; without a token, use localhost or 127.0.0.1";
            return Err(Problem::new(Kind::OtherOrigin, detail));
        }
        if !open && is_cross_site(headers) {
            let detail = "the request comes from a page of another site; only the service's own pages may call it";
            return Err(Problem::new(Kind::OtherOrigin, detail));
        }
        Ok(())
    }
}

/// A path or method that is not in the table needs any token, so as to show nobody else that.
fn check_role(caller: &Caller, of: Option<&Route>) -> Result<(), Problem> {
    let (has, needs) = (caller.role(), of.and_then(|of| of.role).unwrap_or(Role::Read));
    if has >= needs {
        return Ok(());
    }
    let name = caller.name();
    let detail = format!("this needs the role `{needs}`; the token `{name}` has the role `{has}`");
    Err(Problem::new(Kind::WrongRole, detail))
}

/// The length of the body, if it is announced.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Whether the `Host` header is a loopback name or address.
fn names_loopback(headers: &HeaderMap) -> bool {
    let Some(url) = headers.get(header::HOST).and_then(as_url) else { return false };
    let host = &url.authority().host;
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn as_url(host: &HeaderValue) -> Option<Url> {
    format!("http://{}", host.to_str().ok()?).parse().ok()
}

/// Whether a browser marked the request as sent by a page of another site. Other clients send no
/// such header.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return true;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|text| text.parse::<Url>().ok());
    // Behind a TLS proxy the scheme differs, and with it the default port.
    let written = |url: &Url| url.authority().host_header();
    let host = headers.get(header::HOST).and_then(as_url);
    match (origin, host) {
        (Some(origin), Some(host)) => written(&origin) != written(&host),
        _ => true,
    }
}
