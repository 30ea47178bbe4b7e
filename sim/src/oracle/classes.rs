//! The part of promise 7 about a failure's class and types: they follow from its code, or from the
//! exception in the answer. The policy decides by both whether to retry.

use retrial::failure::{Class, Failure};
use retrial::run::RunId;

use super::history::Entry;
use super::{Report, answers};
use crate::evidence::Arrival;

/// A failure is of another class than its code or its types say.
pub const WRONG_CLASS: &str = "wrong_class";
/// A failure lacks a type that its code implies, or that its exception descends from.
pub const WRONG_LINEAGE: &str = "wrong_lineage";

/// Judges what was written down of a failed attempt that these arrivals belong to.
pub(super) fn judge(
    report: &mut Report,
    run: RunId,
    entry: &Entry<'_>,
    failure: &Failure,
    arrivals: &[&Arrival],
) {
    let shown = || entry.show();
    let exception = answers::exception(arrivals, failure.code()).map(|e| (e.class, e.types));
    // An exception may be called as a failure of the engine's own is: then it is either.
    let may_be: Vec<_> = of_code(failure.code().as_str()).into_iter().chain(exception).collect();
    if may_be.is_empty() {
        return;
    }
    let classed = may_be.iter().any(|(class, _)| failure.class() == *class);
    report.check(classed, run, WRONG_CLASS, || {
        format!("it must be {may_be:?} but is {:?}: {}", failure.class(), shown())
    });
    let has = |name: &String| failure.lineage().contains(name);
    let same = |class: &Class| !classed || failure.class() == *class;
    let typed = may_be.iter().any(|(class, types)| same(class) && types.iter().all(has));
    report.check(typed, run, WRONG_LINEAGE, || format!("it is none of {may_be:?}: {}", shown()));
}

/// The class and the types that a failure of this code must have; none where only the action knows.
fn of_code(code: &str) -> Option<(Class, Vec<String>)> {
    use Class::{Permanent, Retryable};
    let (class, types): (Class, &[&str]) = match code {
        "NETWORK_ERROR" => (Retryable, &["ConnectionError", "NetworkError"]),
        "TIMEOUT" => (Retryable, &["TimeoutError"]),
        "LEASE_LOST" | "HEARTBEAT_TIMEOUT" => (Retryable, &[]),
        // The action and what its step ensures are tried again as one.
        "POSTCONDITION_FAILED" => (Retryable, &[]),
        "WORK_FAILED" => (Permanent, &[]),
        "BAD_RESPONSE" => (Permanent, &["ValueError"]),
        // The specification leaves it open.
        "408" => return None,
        "429" => (Retryable, &["RateLimitError", "HTTPError"]),
        _ => match code.parse().ok()? {
            400..=499_u16 => (Permanent, &["ClientError", "HTTPError"]),
            500..=599 => (Retryable, &["ServerError", "HTTPError"]),
            _ => return None,
        },
    };
    Some((class, types.iter().map(|name| (*name).to_owned()).collect()))
}
