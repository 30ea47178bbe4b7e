use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ErrorCode, Failure};
use crate::time::Timestamp;

/// The record of a final failure, with Capability 5's JSON names; routed as `_last_error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorContext {
    /// The failure's code.
    pub code: ErrorCode,
    /// The sanitised message.
    pub message: String,
    /// Whether the failure is of the retryable class; not whether it will be retried.
    pub retryable: bool,
    /// The step that failed.
    pub node_id: String,
    /// The action that failed.
    pub action_id: String,
    /// When it failed finally, by the store's clock, RFC 3339.
    pub timestamp: String,
    /// The attempt that failed last, from 1.
    pub attempt: u32,
    /// The sanitised stack trace, if the action gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
}

/// ``step `charge`: NETWORK_ERROR: connection refused (attempt 3)``.
impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node_id, code, message, attempt, .. } = self;
        write!(f, "step `{node_id}`: {code}: {message}")?;
        // A step that failed before any attempt.
        if *attempt == 0 { Ok(()) } else { write!(f, " (attempt {attempt})") }
    }
}

impl ErrorContext {
    /// The record of `failure`, of `attempt` of `step`'s `action`, at `at`. `retryable` is the
    /// class under the task's policy.
    #[must_use]
    pub fn new(
        failure: &Failure,
        retryable: bool,
        step: &str,
        action: &str,
        attempt: u32,
        at: Timestamp,
    ) -> Self {
        Self {
            code: failure.code().clone(),
            message: failure.message().to_owned(),
            retryable,
            node_id: step.to_owned(),
            action_id: action.to_owned(),
            timestamp: at.to_string(),
            attempt,
            stack_trace: failure.stack_trace().map(str::to_owned),
        }
    }
}
