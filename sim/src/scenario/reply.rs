//! A reply of an endpoint.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::FaultKind;

/// One answer of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// 200 with this JSON.
    Ok(Value),
    /// 200 with `success: true` and the arguments under `args`.
    Echo,
    /// 200 with `success: true`.
    SuccessTrue,
    /// 200 with `success: false`.
    SuccessFalse,
    /// 200 with an exception object.
    Exception {
        /// Its type.
        #[serde(rename = "type")]
        kind: String,
        /// Its message.
        message: String,
        /// Its type and that type's ancestors, nearest first; may be empty.
        #[serde(default)]
        mro: Vec<String>,
    },
    /// A status with any body.
    Status {
        /// The status, 200 to 599.
        #[serde(deserialize_with = "final_status")]
        code: u16,
        /// The `Retry-After` header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<RetryAfter>,
        /// The body, as it is.
        #[serde(default)]
        body: String,
    },
    /// A complete 200 with a body that is not JSON.
    Malformed,
    /// 200 with a body that ends before its announced length.
    Truncated,
    /// 200 at once, then a good body byte by byte.
    SlowStream {
        /// The pause before each piece.
        every_ms: u64,
        /// About how long the whole body takes.
        total_ms: u64,
    },
    /// No answer, until it heals.
    Hang,
    /// The reply, later.
    Delay {
        /// How much later.
        ms: u64,
        /// The reply.
        then: Box<Reply>,
    },
    /// No answer: what was asked for ends the process that asks, as a request for too much memory
    /// does. It starts again.
    Poison,
    /// The request is handled, then the stream is reset without an answer.
    ResetAfterHandling,
}

/// A `Retry-After` header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RetryAfter {
    /// A number of seconds.
    Seconds(u64),
    /// An HTTP date this many seconds after true time; negative: in the past.
    Date {
        /// How many seconds.
        secs: i64,
        /// Whether the response says its own `Date` as well.
        own_date: bool,
    },
    /// This text, which is neither.
    Text(String),
}

fn final_status<'d, D: serde::Deserializer<'d>>(from: D) -> Result<u16, D::Error> {
    let code = u16::deserialize(from)?;
    if (200..600).contains(&code) {
        return Ok(code);
    }
    let wrong = format!("{code} is not a status that ends an exchange; use 200 to 599");
    Err(serde::de::Error::custom(wrong))
}

/// An answer that takes this long may find its caller gone, in milliseconds.
const LATE_MS: u64 = 2_000;

impl Reply {
    /// The reply after all delays.
    #[must_use]
    pub fn last(&self) -> &Self {
        match self {
            Self::Delay { then, .. } => then.last(),
            other => other,
        }
    }

    /// The fault that it is, if it is one.
    #[must_use]
    pub fn fault(&self) -> Option<FaultKind> {
        if let Self::Delay { ms: LATE_MS.., then } = self
            && then.is_success()
        {
            return Some(FaultKind::LateSuccess);
        }
        Some(match self.last() {
            Self::Status { code: 429, .. } => FaultKind::RateLimit,
            Self::Status { code: 400..=499, .. } => FaultKind::ClientError,
            Self::Status { code: 500..=599, .. } => FaultKind::ServerError,
            Self::Malformed | Self::Truncated => FaultKind::Malformed,
            Self::SlowStream { .. } => FaultKind::SlowStream,
            Self::Hang => FaultKind::EndpointHang,
            Self::Poison => FaultKind::Poison,
            Self::ResetAfterHandling => FaultKind::Reset,
            _ => return None,
        })
    }

    /// Whether it is a plain success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Ok(_) | Self::Echo | Self::SuccessTrue)
    }

    /// The reply's name, as its JSON spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Echo => "echo",
            Self::SuccessTrue => "success_true",
            Self::SuccessFalse => "success_false",
            Self::Exception { .. } => "exception",
            Self::Status { .. } => "status",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::SlowStream { .. } => "slow_stream",
            Self::Hang => "hang",
            Self::Poison => "poison",
            Self::Delay { .. } => "delay",
            Self::ResetAfterHandling => "reset_after_handling",
        }
    }
}
