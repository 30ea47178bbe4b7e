//! The part of promise 7 about what a failure is: its class and its types follow from its code, or
//! from the exception that was answered (spec decision 17, H4, W7). Whether it is tried again is for
//! the policy to say, which looks at both.

use retrial::failure::{Class, Failure};
use serde_json::Value;

use super::Report;
use super::history::{Entry, TaskHistory};
use crate::evidence::Arrival;
use crate::scenario::Reply;

/// A failure is of another class than its code or its types say.
pub const WRONG_CLASS: &str = "wrong_class";
/// A failure lacks a type that its code implies, or that its exception descends from.
pub const WRONG_LINEAGE: &str = "wrong_lineage";

/// What descends from one of these may pass (H4).
const TRANSIENT: [&str; 5] =
    ["TimeoutError", "ConnectionError", "NetworkError", "ServerError", "RateLimitError"];

/// Judges what was written down of a failed attempt that these arrivals belong to.
pub(super) fn judge(
    report: &mut Report,
    task: &TaskHistory<'_>,
    entry: &Entry<'_>,
    failure: &Failure,
    arrivals: &[&Arrival],
) {
    let Some((class, types)) = expected(failure.code().as_str(), arrivals) else { return };
    let (run, shown) = (task.run.id, || entry.show());
    report.check(failure.class() == class, run, WRONG_CLASS, || {
        format!("it must be {class:?} but is {:?}: {}", failure.class(), shown())
    });
    let has = |name: &String| failure.lineage().contains(name);
    report.check(types.iter().all(has), run, WRONG_LINEAGE, || {
        format!("it is no {}: {}", types.join(", "), shown())
    });
}

/// The class and the types that a failure of this code must have; none where only the action knows.
fn expected(code: &str, arrivals: &[&Arrival]) -> Option<(Class, Vec<String>)> {
    use Class::{Permanent, Retryable};
    let (class, types): (Class, &[&str]) = match code {
        "NETWORK_ERROR" => (Retryable, &["ConnectionError", "NetworkError"]),
        "TIMEOUT" => (Retryable, &["TimeoutError"]),
        "LEASE_LOST" => (Retryable, &[]),
        "WORK_FAILED" => (Permanent, &[]),
        "BAD_RESPONSE" => (Permanent, &["ValueError"]),
        // Spec decision 6 leaves it open.
        "408" => return None,
        "429" => (Retryable, &["RateLimitError", "HTTPError"]),
        _ => match code.parse() {
            Ok(400..=499_u16) => (Permanent, &["ClientError", "HTTPError"]),
            Ok(500..=599) => (Retryable, &["ServerError", "HTTPError"]),
            Ok(_) => return None,
            Err(_) => return arrivals.iter().find_map(|a| of_exception(a.reply.last(), code)),
        },
    };
    Some((class, types.iter().map(|name| (*name).to_owned()).collect()))
}

/// The same of an exception object of this type.
fn of_exception(reply: &Reply, code: &str) -> Option<(Class, Vec<String>)> {
    let types: Vec<String> = match reply {
        Reply::Exception { kind, mro, .. } if kind == code => {
            std::iter::once(kind).chain(mro).cloned().collect()
        }
        Reply::Ok(body) if body.get("type").and_then(Value::as_str) == Some(code) => {
            let mro = body.get("mro").and_then(Value::as_array).into_iter().flatten();
            let names = mro.filter_map(Value::as_str).map(str::to_owned);
            std::iter::once(code.to_owned()).chain(names).collect()
        }
        _ => return None,
    };
    let may_pass = types.iter().any(|name| TRANSIENT.contains(&name.as_str()));
    Some((if may_pass { Class::Retryable } else { Class::Permanent }, types))
}
