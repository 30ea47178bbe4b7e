//! What went wrong: codes, type lineage, class, retry hints, and the masking of secrets.
//!
//! Decides how a raw failure is described and classed. Must never know policies, runs or
//! what is retried. To add one more kind of failure, add a constructor to [`Failure`] with its code,
//! lineage and class, and a row to `docs/semantics.md`.

mod context;
mod kinds;
pub mod sanitise;
mod statuses;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use context::ErrorContext;
pub(crate) use kinds::OWN_NAMES;
pub use kinds::{NetworkFault, RetryKind};

unstable! {
    use kinds::{THROTTLING};
    use statuses::{looks_like_statuses, statuses};
}

use crate::time::Nanos;

/// A short machine-readable name of a failure: `503`, `TIMEOUT`, or any code that an action gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(Arc<str>);

impl ErrorCode {
    /// An attempt, or the whole task, ran out of time.
    pub const TIMEOUT: &'static str = "TIMEOUT";
    /// An attempt gave no heartbeat for too long.
    pub const HEARTBEAT_TIMEOUT: &'static str = "HEARTBEAT_TIMEOUT";
    /// The transport failed: refused, reset, DNS, cut or truncated.
    pub const NETWORK_ERROR: &'static str = "NETWORK_ERROR";
    /// The node that ran the attempt crashed or lost its lease.
    pub const LEASE_LOST: &'static str = "LEASE_LOST";
    /// The endpoint answered `success: false`.
    pub const WORK_FAILED: &'static str = "WORK_FAILED";
    /// A complete 2xx answer that could not be read.
    pub const BAD_RESPONSE: &'static str = "BAD_RESPONSE";
    /// What a step requires did not hold when it was entered.
    pub const PRECONDITION_FAILED: &'static str = "PRECONDITION_FAILED";
    /// What a step ensures did not hold over an attempt's result.
    pub const POSTCONDITION_FAILED: &'static str = "POSTCONDITION_FAILED";
    /// Fewer tasks than a fanned-out step needs could ever succeed, though none failed.
    pub const TOO_FEW_SUCCEEDED: &'static str = "TOO_FEW_SUCCEEDED";
    /// A task's arguments, filled in, would be larger than an action is given.
    pub const ARGUMENTS_TOO_LARGE: &'static str = "ARGUMENTS_TOO_LARGE";
    /// The longest code kept; the rest is cut.
    pub const MAX_CHARS: usize = 64;

    /// Keeps the printable part of `text`, sanitised and cut to [`ErrorCode::MAX_CHARS`]; empty
    /// becomes `ERROR`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let line: String = text.chars().filter(|c| !c.is_control()).collect();
        let kept = sanitise::message(&line, Self::MAX_CHARS);
        Self(if kept.is_empty() { "ERROR".into() } else { kept.into() })
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether trying again can help. A policy's rules decide before the class does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Transient: the same call may succeed later.
    Retryable,
    /// The same call will fail again.
    Permanent,
}

/// What went wrong with one attempt. Its message is sanitised when it is made.
///
/// Infrastructure failures (store, queue) are not failures of an attempt: they never reach this
/// type, use up no attempt, and the node itself retries them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    code: ErrorCode,
    message: String,
    lineage: Vec<String>,
    class: Class,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<Nanos>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stack_trace: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    outcome_unknown: bool,
}

impl Failure {
    /// The longest message or stack trace kept, in characters.
    pub const MAX_MESSAGE: usize = 2_000;
    /// The most ancestors kept of a type.
    pub const MAX_LINEAGE: usize = 16;

    /// A failure that an action reports. Permanent until [`retryable`](Self::retryable) is called.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        Self {
            code: ErrorCode::new(code),
            message: sanitise::message(message, Self::MAX_MESSAGE),
            lineage: Vec::new(),
            class: Class::Permanent,
            retry_after: None,
            stack_trace: None,
            outcome_unknown: false,
        }
    }

    /// The same failure, classed as retryable.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.class = Class::Retryable;
        self
    }

    /// The same failure, classed as permanent.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.class = Class::Permanent;
        self
    }

    /// The same failure with its type and that type's ancestors, nearest first.
    #[must_use]
    pub fn with_lineage<S: AsRef<str>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.lineage = types
            .into_iter()
            .take(Self::MAX_LINEAGE)
            .map(|t| sanitise::message(t.as_ref(), ErrorCode::MAX_CHARS))
            .collect();
        self
    }

    /// The same failure with the endpoint's `Retry-After`: no retry starts sooner.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Nanos) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same failure with a stack trace, sanitised.
    #[must_use]
    pub fn with_stack_trace(mut self, trace: &str) -> Self {
        self.stack_trace = Some(sanitise::message(trace, Self::MAX_MESSAGE));
        self
    }

    /// The same failure, marked as one whose work may have been done: the request may have reached
    /// the endpoint, and no answer says whether it took effect.
    #[must_use]
    pub fn with_unknown_outcome(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// Whether the work may have been done: the attempt ran out of time, its
    /// lease was lost, or its answer was cut off or unreadable.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.outcome_unknown
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &ErrorCode {
        &self.code
    }

    /// The same failure, whose message ends with `detail` in brackets.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.message =
            sanitise::message(&format!("{} ({detail})", self.message), Self::MAX_MESSAGE);
        self
    }

    /// The sanitised message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The type of the failure and its ancestors, nearest first; empty when the action gave none.
    #[must_use]
    pub fn lineage(&self) -> &[String] {
        &self.lineage
    }

    /// The class before any policy is applied.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// The wait that the endpoint asked for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Nanos> {
        self.retry_after
    }

    /// The sanitised stack trace.
    #[must_use]
    pub fn stack_trace(&self) -> Option<&str> {
        self.stack_trace.as_deref()
    }

    /// Whether `name` is this failure's code, its type or an ancestor of its type, with or without
    /// its module (`asyncio.TimeoutError` is `TimeoutError`), or stands for HTTP statuses among which
    /// its code is, as `5xx` and `500-599` do.
    #[must_use]
    pub fn is_a(&self, name: &str) -> bool {
        is_named(&self.code, &self.lineage, name)
    }

    /// The HTTP status that the code is, if it is one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        statuses::status(self.code.as_str())
    }

    /// What triggers a retry after this failure.
    #[must_use]
    pub fn kind(&self) -> RetryKind {
        match self.code.as_str() {
            ErrorCode::TIMEOUT | ErrorCode::HEARTBEAT_TIMEOUT => RetryKind::Timeout,
            ErrorCode::LEASE_LOST => RetryKind::LeaseLost,
            _ => RetryKind::Failure,
        }
    }
}

/// Whether two names of types mean the same. A name may have its module before it:
/// `asyncio.TimeoutError` is `TimeoutError`.
fn is_type(one: &str, other: &str) -> bool {
    let ends_with = |long: &str, short: &str| {
        let module = long.strip_suffix(short);
        module.is_some_and(|module| module.ends_with('.')) && !short.contains('.')
    };
    one == other || ends_with(one, other) || ends_with(other, one)
}

/// As [`Failure::is_a`], where a failure's code and lineage are at hand.
pub(crate) fn is_named(code: &ErrorCode, lineage: &[String], name: &str) -> bool {
    let status = || statuses::status(code.as_str());
    code.as_str() == name
        || lineage.iter().any(|t| is_type(t, name))
        || statuses(name).is_some_and(|among| status().is_some_and(|s| among.contains(&s)))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<&Self> for Failure {
    fn from(failure: &Self) -> Self {
        failure.clone()
    }
}

/// An action's own words for a failure: code `ERROR`, permanent.
impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::new("ERROR", message)
    }
}

/// An action's own words for a failure: code `ERROR`, permanent.
impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::new("ERROR", &message)
    }
}
