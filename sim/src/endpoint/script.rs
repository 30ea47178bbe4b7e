//! What an endpoint answers, as plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::FaultKind;

/// What one endpoint answers, by path. A path without a route is answered with 404.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointScript {
    /// The routes, by path with its leading slash.
    #[serde(default)]
    pub routes: BTreeMap<String, Route>,
    /// Whether healing makes it answer well. Set it to false to study what never recovers.
    #[serde(default = "yes")]
    pub heals: bool,
}

fn yes() -> bool {
    true
}

/// No routes; heals.
impl Default for EndpointScript {
    fn default() -> Self {
        Self { routes: BTreeMap::new(), heals: true }
    }
}

/// The answers to one path. Each receipt token has its own sequence: its n-th arrival gets the
/// n-th reply. Requests without a token share one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The first replies.
    #[serde(default)]
    pub replies: Vec<Reply>,
    /// The reply to everything after them.
    #[serde(default = "success")]
    pub then: Reply,
}

fn success() -> Reply {
    Reply::SuccessTrue
}

/// Success, always.
impl Default for Route {
    fn default() -> Self {
        Self { replies: Vec::new(), then: success() }
    }
}

impl Route {
    /// The reply to the `arrival`-th request of one token, from 0.
    #[must_use]
    pub fn reply(&self, arrival: u64) -> &Reply {
        let listed = usize::try_from(arrival).ok().and_then(|n| self.replies.get(n));
        listed.unwrap_or(&self.then)
    }

    /// The reply once healed: the last one where that is a success, else a plain success.
    #[must_use]
    pub fn healed(&self) -> Reply {
        if self.then.is_success() { self.then.clone() } else { success() }
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// 200 with this JSON.
    Ok(Value),
    /// 200 with `success: true` and the arguments under `args`.
    Echo,
    /// 200 with `success: true` (A4).
    SuccessTrue,
    /// 200 with `success: false` (A3).
    SuccessFalse,
    /// 200 with an exception object (W7).
    Exception {
        /// Its type.
        #[serde(rename = "type")]
        kind: String,
        /// Its message.
        message: String,
        /// Its type and that type's ancestors, nearest first.
        #[serde(default)]
        mro: Vec<String>,
    },
    /// A status, with whatever body.
    Status {
        /// The status.
        code: HttpStatus,
        /// The `Retry-After` header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<RetryAfter>,
        /// The body, as it is.
        #[serde(default)]
        body: String,
    },
    /// 200 with a whole body that is not JSON.
    Malformed,
    /// 200 whose body ends before its announced length.
    Truncated,
    /// 200 at once, then a good body byte by byte.
    SlowStream {
        /// The pause before each piece.
        every_ms: u64,
        /// About how long the whole body takes: at most 10,000 pieces are sent.
        total_ms: u64,
    },
    /// No answer, until it heals.
    Hang,
    /// The reply, later. The caller may have given up by then; the handling goes on all the same.
    Delay {
        /// How much later.
        ms: u64,
        /// The reply.
        then: Box<Reply>,
    },
    /// The request is handled, then the connection is reset.
    ResetAfterHandling,
}

impl Reply {
    /// Whether it is a plain success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Ok(_) | Self::Echo | Self::SuccessTrue)
    }

    /// The fault that it is counted as when it is given. A delay by itself is none.
    #[must_use]
    pub fn fault(&self) -> Option<FaultKind> {
        Some(match self {
            Self::Status { code, .. } => match code.get() {
                429 => FaultKind::RateLimit,
                400..=499 => FaultKind::ClientError,
                500..=599 => FaultKind::ServerError,
                _ => return None,
            },
            Self::Malformed | Self::Truncated => FaultKind::Malformed,
            Self::SlowStream { .. } => FaultKind::SlowStream,
            Self::Hang => FaultKind::EndpointHang,
            Self::ResetAfterHandling => FaultKind::Reset,
            _ => return None,
        })
    }
}

/// A final HTTP status: 200 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct HttpStatus(u16);

/// The status can't end an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a status that ends an exchange; use 200 to 599")]
pub struct StatusError(u16);

impl HttpStatus {
    /// 404.
    pub const NOT_FOUND: Self = Self(404);

    /// The number.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for HttpStatus {
    type Error = StatusError;

    fn try_from(code: u16) -> Result<Self, StatusError> {
        if (200..600).contains(&code) { Ok(Self(code)) } else { Err(StatusError(code)) }
    }
}

impl From<HttpStatus> for u16 {
    fn from(status: HttpStatus) -> Self {
        status.0
    }
}

/// A `Retry-After` header (C12, spec decision 7).
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
    /// This text, however unreadable.
    Text(String),
}
