use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};

use crate::action::Call;
use crate::failure::Failure;
use crate::net::{Authority, Url};
use crate::workflow::{BodyForm, Endpoint, HeaderText};

/// A request without its headers.
pub(super) struct Parts {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) body: Bytes,
}

/// Headers that frame the message. A definition that set them could smuggle a second request.
const FRAMING: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The request of one attempt and its address. Its errors are permanent and contain no values.
pub(super) fn build(
    endpoint: &Endpoint,
    call: &Call,
    environment: &dyn Fn(&str, &Authority) -> Option<String>,
) -> Result<(Authority, Request<Full<Bytes>>), Failure> {
    let filled = endpoint.fill(&call.args).map_err(|e| invalid(&e.to_string()))?;
    let url: Url = filled.url.parse().map_err(|e| invalid(&format!("{e}")))?;
    let method = Method::from_bytes(endpoint.method.as_bytes())
        .map_err(|_| invalid("the method is not an HTTP method"))?;
    let content_type = endpoint.body_form().map(|form| match form {
        BodyForm::Json => "application/json",
        BodyForm::Form => "application/x-www-form-urlencoded",
    });
    let mut headers = default_headers(&url, content_type)?;
    for (name, text) in &endpoint.headers {
        let lookup = |name: &str| environment(name, url.authority());
        let (name, value) = parse_header(name, text, &lookup)?;
        headers.insert(name, value);
    }
    attempt_headers(&mut headers, call);
    let to = url.authority().clone();
    let body = filled.body.unwrap_or_default().into();
    Ok((to, assemble(Parts { method, url, body }, headers)?))
}

/// The request, with these headers.
pub(super) fn assemble(parts: Parts, headers: HeaderMap) -> Result<Request<Full<Bytes>>, Failure> {
    let Parts { method, url, body } = parts;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() =
        url.target().parse().map_err(|_| invalid("the URL's path is malformed"))?;
    *request.headers_mut() = headers;
    Ok(request)
}

pub(super) fn invalid(what: &str) -> Failure {
    Failure::new("BAD_REQUEST", &format!("the request can't be made: {what}"))
        .with_lineage(["BadRequestError", "ValueError"])
}

/// The headers that an endpoint's own headers may replace.
pub(super) fn default_headers(
    url: &Url,
    content_type: Option<&'static str>,
) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    let host = HeaderValue::try_from(url.authority().host_header())
        .map_err(|_| invalid("the URL's host is malformed"))?;
    headers.insert(header::HOST, host);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
    let agent = concat!("retrial/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Some(basic) = url.basic() {
        let mut value = HeaderValue::try_from(basic)
            .map_err(|_| invalid("the URL's user and password are malformed"))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

pub(super) fn parse_header(
    name: &str,
    text: &HeaderText,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let mut value = String::new();
    for part in text.parts() {
        match part {
            HeaderText::Literal(text) => value.push_str(text),
            HeaderText::Env(variable) => {
                value += &environment(variable).ok_or_else(|| missing(name, variable))?;
            }
            HeaderText::Joined(_) => {}
        }
    }
    let key = HeaderName::try_from(name)
        .map_err(|_| invalid(&format!("`{name}` is not a header name")))?;
    if FRAMING.contains(&key) {
        return Err(invalid(&format!("header `{name}` is set by the client alone; remove it")));
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| {
        invalid(&format!("the value of header `{name}` holds a character that headers can't"))
    })?;
    value.set_sensitive(true);
    Ok((key, value))
}

fn missing(header: &str, variable: &str) -> Failure {
    let message = format!(
        "header {header} needs the environment variable {variable}, which is not set or may not be sent to this host"
    );
    Failure::new("MISSING_ENV", &message).with_lineage(["MissingEnvError"])
}

/// Sets the headers that every attempt carries. An endpoint's own headers can't replace them.
pub(super) fn attempt_headers(headers: &mut HeaderMap, call: &Call) {
    let token = call.receipt().to_string();
    set(headers, "receipt-token", &token);
    set(headers, "idempotency-key", &token);
    set(headers, "x-retry-attempt", &call.attempt.saturating_sub(1).to_string());
    headers.remove("x-retry-timeout-ms");
    if let Some(timeout) = call.timeout {
        set(headers, "x-retry-timeout-ms", &timeout.as_millis_ceil().to_string());
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// `value` is digits, letters and dashes.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
