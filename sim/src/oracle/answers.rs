//! How the answer of an endpoint must be read.

use retrial::failure::sanitise;
use retrial::failure::{Class, ErrorCode, Failure};
use serde_json::{Value, json};

use crate::evidence::Arrival;
use crate::scenario::Reply;

/// Descendants of these may pass.
const TRANSIENT: [&str; 5] =
    ["TimeoutError", "ConnectionError", "NetworkError", "ServerError", "RateLimitError"];

/// An exception object.
pub(super) struct Exception {
    /// Its type as a code.
    pub(super) code: ErrorCode,
    pub(super) class: Class,
    /// Its type and those that it descends from, as far as they are kept.
    pub(super) types: Vec<String>,
}

impl Exception {
    fn new(kind: &str, mro: Vec<&str>) -> Self {
        let mut names = vec![kind];
        names.extend(mro.into_iter().filter(|name| *name != kind));
        let may_pass = names.iter().any(|name| TRANSIENT.contains(name));
        let kept = |name: &&str| sanitise::message(name, ErrorCode::MAX_CHARS);
        Self {
            code: ErrorCode::new(kind),
            class: if may_pass { Class::Retryable } else { Class::Permanent },
            types: names.iter().take(Failure::MAX_LINEAGE).map(kept).collect(),
        }
    }

    /// The exception that a reply is, if it is one.
    pub(super) fn of(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Exception { kind, mro, .. } => {
                Some(Self::new(kind, mro.iter().map(String::as_str).collect()))
            }
            Reply::Ok(body) if !body.get("success").is_some_and(Value::is_boolean) => {
                Self::in_body(body)
            }
            _ => None,
        }
    }

    fn in_body(body: &Value) -> Option<Self> {
        let kind = body.get("type")?.as_str()?;
        body.get("message")?.as_str()?;
        let mro = body.get("mro").and_then(Value::as_array).into_iter().flatten();
        Some(Self::new(kind, mro.filter_map(Value::as_str).collect()))
    }
}

/// The exception of this code that one of the arrivals was answered with.
pub(super) fn exception(arrivals: &[&Arrival], code: &ErrorCode) -> Option<Exception> {
    let mut found = arrivals.iter().filter_map(|arrival| Exception::of(arrival.reply.last()));
    found.find(|exception| exception.code == *code)
}

pub(crate) fn succeeds(reply: &Reply) -> bool {
    match reply {
        Reply::Echo | Reply::SuccessTrue | Reply::SlowStream { .. } => true,
        Reply::Ok(_) => failure_in(reply).is_none(),
        _ => false,
    }
}

/// Whether a failure of this code follows from the reply.
pub(super) fn gives(reply: &Reply, code: &ErrorCode) -> bool {
    let is = |name: &str| code.as_str() == name;
    match reply {
        Reply::Status { code: status, .. } => is(&status.to_string()),
        Reply::SuccessFalse => is("WORK_FAILED"),
        Reply::Malformed => is("BAD_RESPONSE"),
        _ => failure_in(reply).as_ref() == Some(code),
    }
}

/// Whether the reply breaks the exchange by itself.
pub(super) fn breaks(reply: &Reply) -> bool {
    matches!(reply, Reply::Truncated | Reply::ResetAfterHandling)
}

/// The code of the failure that a complete JSON answer means: by its `success` field first (A3,
/// A4), as an exception object, or by its type.
fn failure_in(reply: &Reply) -> Option<ErrorCode> {
    let exception = Exception::of(reply).map(|exception| exception.code);
    let Reply::Ok(body) = reply else { return exception };
    match body.get("success") {
        Some(Value::Bool(false)) => Some(ErrorCode::new("WORK_FAILED")),
        _ => exception.or_else(|| not_kept(body).map(ErrorCode::new)),
    }
}

/// Why a value is refused as a result: it is nested deeper than 100 levels, or longer than 256 KiB.
fn not_kept(body: &Value) -> Option<&'static str> {
    if depth(body) > 100 {
        return Some("RESULT_TOO_DEEP");
    }
    (body.to_string().len() > 256 * 1024).then_some("RESULT_TOO_LARGE")
}

fn depth(value: &Value) -> u32 {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

/// The answer to a request with the body `sent` if the reply is the success `reply`.
pub(crate) fn body_of(reply: &Reply, sent: &[u8]) -> Value {
    match reply {
        Reply::Ok(body) => body.clone(),
        Reply::Echo => {
            let args: Value = serde_json::from_slice(sent).unwrap_or_default();
            json!({"success": true, "args": args})
        }
        _ => json!({"success": true}),
    }
}
