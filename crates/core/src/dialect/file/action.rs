//! `[actions.NAME]`: what a step invokes.

use std::collections::BTreeMap;

use super::{EndpointPlace, guard};
use crate::dialect::number::SECOND;
use crate::dialect::tree::{Fields, Node};
use crate::dialect::{Diagnostic, brief};
use crate::policy::ActionKind;
use crate::time::Nanos;
use crate::workflow::{Action, Endpoint, HeaderText, Target};

pub(in crate::dialect) const KEYS: [&str; 11] = [
    "http",
    "headers",
    "kind",
    "idempotent",
    "inner_attempts",
    "breaker",
    "concurrency",
    "rate",
    "retry_budget",
    "error_budget",
    "heartbeat_timeout",
];

/// The kinds of action, as files spell them.
pub(super) const KINDS: [(&str, ActionKind); 3] = [
    ("tool_call", ActionKind::ToolCall),
    ("llm_call", ActionKind::LlmCall),
    ("agent_call", ActionKind::AgentCall),
];

/// Headers that the HTTP client alone sets.
const OWN_HEADERS: [&str; 12] = [
    "receipt-token",
    "idempotency-key",
    "x-retry-attempt",
    "x-retry-timeout-ms",
    "host",
    "connection",
    "content-length",
    "content-type",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What begins the value of a header that is read from the environment.
const ENV: &str = "env:";

pub(super) fn read(node: &Node) -> Result<Action, Diagnostic> {
    let fields = node.fields(&KEYS)?;
    let kind = fields.get("kind").map_or(Ok(ActionKind::default()), |n| n.choice(&KINDS))?;
    let inner = fields.get("inner_attempts").map(|n| n.count(1, u32::MAX)).transpose()?;
    let target = target(&fields)?;
    Ok(Action {
        kind,
        heartbeat_timeout: heartbeat_timeout(&fields, Some(&target))?,
        target,
        idempotent: fields.get("idempotent").map(Node::boolean).transpose()?,
        inner_attempts: inner,
        guard: guard::read_guards(&fields)?,
        webhook: None,
    })
}

/// The longest time an attempt may run without a heartbeat. `target` is what it calls.
pub(super) fn heartbeat_timeout(
    fields: &Fields<'_>,
    target: Option<&Target>,
) -> Result<Option<Nanos>, Diagnostic> {
    let Some(node) = fields.get("heartbeat_timeout") else { return Ok(None) };
    let limit = node.timeout(SECOND)?;
    match target {
        Some(Target::Http(_)) => Err(node
            .place
            .error("an HTTP action can't send heartbeats")
            .help_with("leave it out, or bound the attempt with attempt_timeout")),
        _ => Ok(Some(limit)),
    }
}

fn target(fields: &Fields<'_>) -> Result<Target, Diagnostic> {
    let headers = fields.get("headers");
    match (fields.get("http"), headers) {
        (Some(http), _) => {
            let (method, url) = endpoint(http)?;
            let headers = headers.map_or(Ok(BTreeMap::new()), read_headers)?;
            Ok(Target::Http(Endpoint { method, url, headers }))
        }
        (None, None) => Ok(Target::Registered),
        (None, Some(headers)) => {
            Err(headers.place.error("headers without `http`").help_with("add http = \"POST URL\""))
        }
    }
}

/// Where the endpoint of an action stands, if it has one.
pub(super) fn endpoint_place(action: &Node) -> Option<EndpointPlace> {
    let entries = action.entries().ok()?;
    let field = |key: &str| entries.iter().find(|e| e.key == key).map(|e| &e.node);
    let headers = field("headers").and_then(|n| n.entries().ok()).unwrap_or_default();
    let headers = headers.iter().map(|e| (e.key.to_ascii_lowercase(), e.node.place.clone()));
    Some(EndpointPlace { http: field("http")?.place.clone(), headers: headers.collect() })
}

/// `POST http://host/path`: a method in capitals and an absolute URL.
fn endpoint(node: &Node) -> Result<(String, String), Diagnostic> {
    let error = |message: String| match message.contains("; ") {
        true => node.place.refuse(&message),
        false => node
            .place
            .error(message)
            .help_with("write a method and a URL, such as POST http://host/path"),
    };
    let Some((method, url)) = node.name()?.trim().split_once(char::is_whitespace) else {
        return Err(error("expected a method and a URL".into()));
    };
    let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    if !is_method || matches!(method, "CONNECT" | "TRACE") {
        return Err(error(format!("{:?} is not a method that an action can use", brief(method))));
    }
    let url = url.trim();
    check_url(url).map_err(error)?;
    Ok((method.to_owned(), url.to_owned()))
}

fn check_url(url: &str) -> Result<(), String> {
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return Err("the URL does not begin with http:// or https://".into());
    };
    if let Some(c) = url.chars().find(|c| !is_url_char(*c)) {
        return Err(format!("`{}` can't stand in a URL; write it as %XX", c.escape_debug()));
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("the URL holds credentials; put them in a header from env:NAME".into());
    }
    check_authority(authority)
}

/// The characters of RFC 3986 but `#`: a fragment is never sent.
fn is_url_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?[]@!$&'()*+,;=%".contains(c)
}

fn check_authority(authority: &str) -> Result<(), String> {
    let after_host = match authority.strip_prefix('[') {
        Some(literal) => {
            let end = literal.find(']').ok_or("the IPv6 address has no `]`")?;
            let (address, after) = (&literal[..end], &literal[end + 1..]);
            address.parse::<std::net::Ipv6Addr>().map_err(|_| "the IPv6 address is not one")?;
            after
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let is_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
            if end == 0 || !authority[..end].bytes().all(is_host) {
                return Err("the URL has no valid host".into());
            }
            &authority[end..]
        }
    };
    match after_host.strip_prefix(':') {
        None if after_host.is_empty() => Ok(()),
        Some(port) if port.parse::<u16>().is_ok_and(|p| p > 0) && !port.starts_with('+') => Ok(()),
        _ => Err("the URL's port is not from 1 to 65535".into()),
    }
}

/// Header names are lower-cased. What is wrong with a value never shows the value.
fn read_headers(node: &Node) -> Result<BTreeMap<String, HeaderText>, Diagnostic> {
    let mut headers = BTreeMap::new();
    for entry in node.entries()? {
        let name = entry.key.to_ascii_lowercase();
        let error = |message: String| entry.place.error(message);
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(error(format!("{:?} is not the name of a header", brief(&entry.key))));
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err(
                error(format!("only the HTTP client may set `{name}`")).help_with("leave it out")
            );
        }
        let value = header_text(&entry.node)?;
        if headers.insert(name.clone(), value).is_some() {
            return Err(error(format!("`{}` is given twice", brief(&name)))
                .help_with("header names ignore case; keep one"));
        }
    }
    Ok(headers)
}

fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn header_text(node: &Node) -> Result<HeaderText, Diagnostic> {
    let crate::dialect::tree::Data::Text(text) = &node.data else {
        return Err(node.place.error(format!("expected a text, found {}", node.kind())));
    };
    if let Some(name) = text.strip_prefix(ENV) {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            let error = node.place.error("`env:` is not followed by the name of a variable");
            return Err(error.help_with("write env:NAME"));
        }
        return Ok(HeaderText::Env(name.to_owned()));
    }
    if !text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) {
        return Err(node
            .place
            .error("the header's value has a character that can't be sent")
            .help_with("use printable ASCII"));
    }
    Ok(HeaderText::Literal(text.as_ref().to_owned()))
}
