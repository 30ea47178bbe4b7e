//! Failures that the engine and its HTTP client create.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, Failure, is_type};
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

/// The codes and types of the failures that the engine and its HTTP client create, besides statuses.
pub(crate) const OWN_NAMES: [&str; 32] = [
    ErrorCode::TIMEOUT,
    ErrorCode::HEARTBEAT_TIMEOUT,
    ErrorCode::NETWORK_ERROR,
    ErrorCode::LEASE_LOST,
    ErrorCode::WORK_FAILED,
    ErrorCode::BAD_RESPONSE,
    ErrorCode::PRECONDITION_FAILED,
    ErrorCode::POSTCONDITION_FAILED,
    ErrorCode::TOO_FEW_SUCCEEDED,
    ErrorCode::ARGUMENTS_TOO_LARGE,
    "ArgumentsTooLargeError",
    "BadResponseError",
    "ClientError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "DnsError",
    "HTTPError",
    "HeartbeatTimeoutError",
    "IncompleteReadError",
    "LeaseLostError",
    "NetworkError",
    "PostconditionError",
    "PreconditionError",
    "RateLimitError",
    "ServerError",
    "TimeoutError",
    "TlsError",
    "ValidationError",
    "ValueError",
    "WorkFailedError",
];

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
        let transient = |t: &String| TRANSIENT_TYPES.iter().any(|name| is_type(t, name));
        let retryable = lineage.iter().any(transient);
        let failure = Self::new(kind, message).with_lineage(lineage);
        if retryable { failure.retryable() } else { failure }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn own_names_are_those_that_failures_have() {
        use NetworkFault::{Aborted, Cut, Dns, Other, Refused, Reset, Tls};
        let networks = [Refused, Reset, Aborted, Dns, Cut, Tls, Other];
        let mut all: Vec<Failure> =
            networks.into_iter().map(|fault| Failure::network(fault, "m")).collect();
        all.extend([200, 404, 429, 503].map(|status| Failure::http(status, "m")));
        all.extend([
            Failure::precondition("m"),
            Failure::postcondition("m"),
            Failure::too_few(1, 2),
            Failure::arguments_too_large(),
            Failure::timeout(Nanos::ZERO),
            Failure::heartbeat_missed(Nanos::ZERO),
            Failure::lease_lost(),
            Failure::work_failed("m"),
            Failure::bad_response("m"),
        ]);
        let codes = all.iter().filter(|f| f.status().is_none()).map(|f| f.code().as_str());
        let types = all.iter().flat_map(|f| f.lineage().iter().map(String::as_str));
        let had: BTreeSet<&str> = codes.chain(types).collect();
        assert_eq!(had, BTreeSet::from(OWN_NAMES));
    }
}
