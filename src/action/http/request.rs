use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};
use serde_json::Value;

use crate::action::Call;
use crate::failure::Failure;
use crate::net::{Authority, Url};
use crate::workflow::{Endpoint, HeaderText};

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
    let url: Url = endpoint.url.parse().map_err(|e| invalid(&format!("{e}")))?;
    let method = Method::from_bytes(endpoint.method.as_bytes())
        .map_err(|_| invalid("the method is not an HTTP method"))?;
    let bare = method == Method::GET || method == Method::HEAD;
    let body = if bare { Bytes::new() } else { body_of(&call.args) };

    let mut headers = default_headers(&url, bare)?;
    for (name, text) in &endpoint.headers {
        let lookup = |name: &str| environment(name, url.authority());
        let (name, value) = parse_header(name, text, &lookup)?;
        headers.insert(name, value);
    }
    attempt_headers(&mut headers, call);
    let to = url.authority().clone();
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

/// The arguments as JSON; an empty object if there are none.
fn body_of(args: &Value) -> Bytes {
    if args.is_null() { Bytes::from_static(b"{}") } else { Bytes::from(args.to_string()) }
}

/// The headers that an endpoint's own headers may replace.
pub(super) fn default_headers(url: &Url, bare: bool) -> Result<HeaderMap, Failure> {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    let mut headers = HeaderMap::new();
    let host = HeaderValue::try_from(url.authority().host_header())
        .map_err(|_| invalid("the URL's host is malformed"))?;
    headers.insert(header::HOST, host);
    headers.insert(header::ACCEPT, JSON);
    let agent = concat!("retrial/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    if !bare {
        headers.insert(header::CONTENT_TYPE, JSON);
    }
    if let Some(user) = url.user() {
        headers.insert(header::AUTHORIZATION, basic(user)?);
    }
    Ok(headers)
}

pub(super) fn parse_header(
    name: &str,
    text: &HeaderText,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(HeaderName, HeaderValue), Failure> {
    let value = match text {
        HeaderText::Literal(value) => value.clone(),
        HeaderText::Env(variable) => {
            environment(variable).ok_or_else(|| missing(name, variable))?
        }
    };
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

/// The part before `@` in a URL, as Basic authentication (RFC 7617).
fn basic(user: &str) -> Result<HeaderValue, Failure> {
    let plain = percent_decoded(user);
    let plain = if plain.contains(&b':') { plain } else { [&plain[..], b":"].concat() };
    let mut value = HeaderValue::try_from(format!("Basic {}", base64(&plain)))
        .map_err(|_| invalid("the URL's user and password are malformed"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        let decoded = hex.filter(|_| first == b'%').and_then(|h| u8::from_str_radix(h, 16).ok());
        bytes.push(decoded.unwrap_or(first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_as_the_rfc_says() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn percent_signs_are_decoded_where_they_encode() {
        for (text, plain) in [("a%20b", "a b"), ("%41%4", "A%4"), ("%zz%", "%zz%"), ("a+b", "a+b")]
        {
            assert_eq!(percent_decoded(text), plain.as_bytes());
        }
    }
}
