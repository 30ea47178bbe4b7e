//! `[actions.NAME]`: what a step invokes.

use std::collections::BTreeMap;

use super::{EndpointPlace, guard, header};
use crate::dialect::number::SECOND;
use crate::dialect::tree::{Fields, Node, did_you_mean};
use crate::dialect::{Diagnostic, brief, policy};
use crate::policy::{ActionKind, Policy};
use crate::time::Nanos;
use crate::workflow::{Action, AnswerForm, BodyForm, Endpoint, MAX_URL, Target, UrlTemplate};

pub(in crate::dialect) const KEYS: [&str; 13] = [
    "http",
    "headers",
    "body",
    "answer",
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

/// The methods of HTTP that an action can use.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const BODIES: [(&str, BodyForm); 2] = [("json", BodyForm::Json), ("form", BodyForm::Form)];

const ANSWERS: [(&str, AnswerForm); 3] =
    [("json", AnswerForm::Json), ("text", AnswerForm::Text), ("status", AnswerForm::Status)];

/// The keys that only an action with an endpoint may have.
const OF_HTTP: [&str; 3] = ["headers", "body", "answer"];

/// The action, and the policy of its steps that set none.
pub(super) fn read(node: &Node) -> Result<(Action, Option<Policy>), Diagnostic> {
    if let Some(entry) = node.entries()?.iter().find(|e| e.key == "implementation") {
        let error = entry.place.error("an action's implementation is not written here");
        let help = "write http = \"POST URL\", or register a function under the action's name";
        return Err(error.help_with(help).of_value());
    }
    let known: Vec<&str> = KEYS.into_iter().chain(policy::KEYS).collect();
    let fields = node.fields(&known)?;
    let kind = fields.get("kind").map_or(Ok(ActionKind::default()), |n| n.choice(&KINDS))?;
    let inner = fields.get("inner_attempts").map(|n| n.count(1, u32::MAX)).transpose()?;
    let target = target(&fields)?;
    let action = Action {
        kind,
        heartbeat_timeout: heartbeat_timeout(&fields, Some(&target))?,
        target,
        idempotent: fields.get("idempotent").map(Node::boolean).transpose()?,
        inner_attempts: inner,
        guard: guard::read_guards(&fields)?,
        webhook: None,
    };
    Ok((action, policy::own(&fields)?))
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
    let Some(http) = fields.get("http") else {
        let lone = OF_HTTP.into_iter().find_map(|key| Some((key, fields.get(key)?)));
        return lone.map_or(Ok(Target::Registered), |(key, node)| {
            let error = node.place.error(format!("{key} without `http`"));
            Err(error.help_with("add http = \"POST URL\""))
        });
    };
    let (method, url) = endpoint(http)?;
    let headers = fields.get("headers").map_or(Ok(BTreeMap::new()), header::read)?;
    let body = fields.get("body").map(|node| body_of(node, method)).transpose()?;
    let answer = fields.get("answer").map(|node| answer_to(node, method)).transpose()?;
    let endpoint = Endpoint::new(method, url);
    Ok(Target::Http(Endpoint { headers, body, answer, ..endpoint }))
}

fn body_of(node: &Node, method: &str) -> Result<BodyForm, Diagnostic> {
    let form = node.choice(&BODIES)?;
    match method {
        "GET" | "HEAD" => Err(node
            .place
            .error(format!("a {method} request has no body: its arguments go into the query"))
            .help_with("leave it out, or use POST")),
        _ => Ok(form),
    }
}

fn answer_to(node: &Node, method: &str) -> Result<AnswerForm, Diagnostic> {
    match (node.choice(&ANSWERS)?, method) {
        (AnswerForm::Json | AnswerForm::Text, "HEAD") => Err(node
            .place
            .error("the answer to a HEAD request has no body")
            .help_with("use answer = \"status\", or GET")),
        (form, _) => Ok(form),
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
fn endpoint(node: &Node) -> Result<(&str, &str), Diagnostic> {
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
    if !METHODS.contains(&method) {
        let message = format!("`{}` is not a method that an action can use", brief(method));
        return Err(node.place.error(message).help_with(did_you_mean(method, METHODS)));
    }
    let url = url.trim();
    check_url(url).map_err(error)?;
    Ok((method, url))
}

fn check_url(url: &str) -> Result<(), String> {
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
        return Err("the URL does not begin with http:// or https://".into());
    };
    if url.len() > MAX_URL {
        return Err("the URL is longer than 8 KiB; send large values in the body".into());
    }
    let template = UrlTemplate::parse(url).map_err(|e| e.to_string())?;
    match template.plain().flat_map(str::chars).find(|c| !is_url_char(*c)) {
        Some(c @ ('{' | '}')) => {
            return Err(format!(
                "`{c}` can't stand in a URL; write ${{args.NAME}} for an argument of the step"
            ));
        }
        Some(c) => {
            return Err(format!("`{}` can't stand in a URL; write it as %XX", c.escape_debug()));
        }
        None => {}
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
