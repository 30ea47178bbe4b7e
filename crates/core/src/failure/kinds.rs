//! Failures that the engine and its HTTP client create.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, Failure};
use crate::time::Nanos;

/// What triggered a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryKind {
    /// The action failed.
    Failure,
    /// The attempt ran out of time, or gave no heartbeat for too long.
    Timeout,
    /// The node crashed or lost its lease.
    LeaseLost,
}

impl fmt::Display for RetryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failure => "failure",
            Self::Timeout => "timeout",
            Self::LeaseLost => "lost lease",
        })
    }
}

/// How a transport failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// Nothing listens on the address.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The connection was aborted on this side.
    Aborted,
    /// The name could not be resolved.
    Dns,
    /// The answer ended before it was whole.
    Cut,
    /// TLS could not be agreed on.
    Tls,
    /// Any other transport failure.
    Other,
}

impl NetworkFault {
    fn type_name(self) -> Option<&'static str> {
        Some(match self {
            Self::Refused => "ConnectionRefusedError",
            Self::Reset => "ConnectionResetError",
            Self::Aborted => "ConnectionAbortedError",
            Self::Dns => "DnsError",
            Self::Cut => "IncompleteReadError",
            Self::Tls => "TlsError",
            Self::Other => return None,
        })
    }
}

/// The types whose descendants are retryable when only a lineage is known.
const TRANSIENT_TYPES: [&str; 5] =
    ["TimeoutError", "ConnectionError", "NetworkError", "ServerError", "RateLimitError"];

/// The codes and types of throttling: HTTP 429 and the names that AWS SDKs call throttling errors
/// (botocore's `retries/standard.py`).
pub const THROTTLING: [&str; 16] = [
    "429",
    "RateLimitError",
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionInProgressException",
];

impl Failure {
    /// Whether the failure is throttling, by its code, its type or an ancestor.
    #[must_use]
    pub fn is_throttling(&self) -> bool {
        THROTTLING.iter().any(|name| self.is_a(name))
    }

    /// A transport failure: `NETWORK_ERROR`, retryable.
    #[must_use]
    pub fn network(fault: NetworkFault, message: &str) -> Self {
        let types = fault.type_name().into_iter().chain(["ConnectionError", "NetworkError"]);
        Self::new(ErrorCode::NETWORK_ERROR, message).with_lineage(types).retryable()
    }

    /// A step's precondition did not hold: `PRECONDITION_FAILED`, permanent.
    #[must_use]
    pub fn precondition(message: &str) -> Self {
        let types = ["PreconditionError", "ValidationError"];
        Self::new(ErrorCode::PRECONDITION_FAILED, message).with_lineage(types)
    }

    /// An attempt's postcondition did not hold: `POSTCONDITION_FAILED`, retryable, because the action
    /// and its postconditions are retried as one.
    #[must_use]
    pub fn postcondition(message: &str) -> Self {
        let types = ["PostconditionError"];
        Self::new(ErrorCode::POSTCONDITION_FAILED, message).with_lineage(types).retryable()
    }

    /// A fanned-out step that has too few tasks to succeed: `TOO_FEW_SUCCEEDED`, permanent.
    #[must_use]
    pub fn too_few(succeeded: usize, needed: usize) -> Self {
        let message = format!("{succeeded} tasks succeeded where {needed} must");
        Self::new(ErrorCode::TOO_FEW_SUCCEEDED, &message).with_lineage(["ValueError"])
    }

    /// A task whose arguments would be too large once filled in: `ARGUMENTS_TOO_LARGE`, permanent.
    #[must_use]
    pub fn arguments_too_large() -> Self {
        let message = "the arguments are larger than 256 KiB of JSON once their references are filled in; pass references to large values";
        Self::new(ErrorCode::ARGUMENTS_TOO_LARGE, message)
            .with_lineage(["ArgumentsTooLargeError", "ValueError"])
    }

    /// An attempt that ran longer than `limit`: `TIMEOUT`, retryable. What it did is unknown.
    #[must_use]
    pub fn timeout(limit: Nanos) -> Self {
        Self::timed_out(&format!("timed out after {limit}")).with_unknown_outcome()
    }

    /// A timeout with a message of the caller, who also knows whether the outcome is unknown.
    #[must_use]
    pub fn timed_out(message: &str) -> Self {
        Self::new(ErrorCode::TIMEOUT, message).with_lineage(["TimeoutError"]).retryable()
    }

    /// An attempt that gave no heartbeat for `limit`: `HEARTBEAT_TIMEOUT`, retryable. What it
    /// did is unknown.
    #[must_use]
    pub fn heartbeat_missed(limit: Nanos) -> Self {
        Self::new(ErrorCode::HEARTBEAT_TIMEOUT, &format!("gave no heartbeat for {limit}"))
            .with_lineage(["HeartbeatTimeoutError", "TimeoutError"])
            .retryable()
            .with_unknown_outcome()
    }

    /// The attempt's lease ended before its outcome was committed: `LEASE_LOST`, retryable.
    #[must_use]
    pub fn lease_lost() -> Self {
        Self::new(ErrorCode::LEASE_LOST, "the lease ended before an outcome was recorded")
            .with_lineage(["LeaseLostError"])
            .retryable()
            .with_unknown_outcome()
    }

    /// An HTTP status outside 2xx: the status is the code. 5xx and 429 are retryable.
    #[must_use]
    pub fn http(status: u16, message: &str) -> Self {
        let (types, retryable): (&[&str], bool) = match status {
            429 => (&["RateLimitError", "ClientError", "HTTPError"], true),
            400..=499 => (&["ClientError", "HTTPError"], false),
            500..=599 => (&["ServerError", "HTTPError"], true),
            _ => (&["HTTPError"], false),
        };
        let failure = Self::new(&status.to_string(), message).with_lineage(types);
        if retryable { failure.retryable() } else { failure }
    }

    /// The endpoint said `success: false`: `WORK_FAILED`, permanent.
    #[must_use]
    pub fn work_failed(message: &str) -> Self {
        Self::new(ErrorCode::WORK_FAILED, message).with_lineage(["WorkFailedError"])
    }

    /// A complete 2xx answer that is unreadable: `BAD_RESPONSE`, permanent.
    #[must_use]
    pub fn bad_response(message: &str) -> Self {
        Self::new(ErrorCode::BAD_RESPONSE, message)
            .with_lineage(["BadResponseError", "ValueError"])
            .with_unknown_outcome()
    }

    /// An exception object: `kind` is its type and its code; `mro` its lineage, itself first.
    #[must_use]
    pub fn exception(kind: &str, message: &str, mro: &[String]) -> Self {
        let mut lineage = vec![kind.to_owned()];
        lineage.extend(mro.iter().filter(|t| *t != kind).cloned());
        let retryable = lineage.iter().any(|t| TRANSIENT_TYPES.contains(&t.as_str()));
        let failure = Self::new(kind, message).with_lineage(lineage);
        if retryable { failure.retryable() } else { failure }
    }
}
