use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::alerts::ErrorBudget;
use super::error::GuardError;
use crate::policy::{Budget, Share};
use crate::time::Nanos;

/// The guards of an action. Each is off unless it is set. Pinned to each run with its workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRules {
    /// Stops calling an action that keeps failing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
    /// The most attempts in progress at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// How often attempts may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Pace>,
    /// What bounds the retries of steps whose own policy does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<Budget>,
    /// How many failures are too many, and when to tell. Holds nothing back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_budget: Option<ErrorBudget>,
}

impl GuardRules {
    /// Whether nothing is guarded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A circuit breaker. Closed it counts; it opens after `failures` in a row or at a failure `rate`;
/// open it lets nothing through for `open`; then `probes` attempts decide whether it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Breaker(Parts);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Parts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failures: Option<NonZeroU32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<FailureRate>,
    open: Nanos,
    probes: NonZeroU32,
}

/// A share of attempts that failed, over the last `window`, once there were enough of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRate {
    /// The share, in millionths, at or above which the breaker opens.
    #[serde(rename = "share_millionths")]
    pub share: Share,
    /// How far back outcomes count, to a tenth of itself.
    pub window: Nanos,
    /// Fewer outcomes than this within the window say nothing.
    pub min_calls: NonZeroU32,
}

impl FailureRate {
    /// How far back outcomes count unless set: 30 s.
    pub const WINDOW: Nanos = Nanos::from_secs(30);
    /// Fewer outcomes than this say nothing, unless set.
    pub const MIN_CALLS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
}

impl Breaker {
    /// How long it stays open unless set: 30 s.
    pub const OPEN: Nanos = Nanos::from_secs(30);

    /// A breaker that opens after so many failures in a row, at that failure rate, or at either.
    ///
    /// # Errors
    /// When it could never open, would open for no time, or opens at a rate of zero or over no
    /// time.
    pub fn new(
        failures: Option<NonZeroU32>,
        rate: Option<FailureRate>,
        open: Nanos,
        probes: NonZeroU32,
    ) -> Result<Self, GuardError> {
        Self::try_from(Parts { failures, rate, open, probes })
    }

    /// The failures in a row that open it.
    #[must_use]
    pub fn failures(&self) -> Option<NonZeroU32> {
        self.0.failures
    }

    /// The failure rate that opens it.
    #[must_use]
    pub fn rate(&self) -> Option<FailureRate> {
        self.0.rate
    }

    /// How long it lets nothing through.
    #[must_use]
    pub fn open(&self) -> Nanos {
        self.0.open
    }

    /// How many attempts decide whether it closes.
    #[must_use]
    pub fn probes(&self) -> NonZeroU32 {
        self.0.probes
    }
}

impl TryFrom<Parts> for Breaker {
    type Error = GuardError;

    fn try_from(parts: Parts) -> Result<Self, GuardError> {
        let bare = |rate: FailureRate| rate.share.millionths() == 0 || rate.window.is_zero();
        match parts {
            Parts { failures: None, rate: None, .. } => Err(GuardError::NeverOpens),
            Parts { open: Nanos::ZERO, .. } => Err(GuardError::OpenForNoTime),
            Parts { rate: Some(rate), .. } if bare(rate) => Err(GuardError::BareRate),
            parts => Ok(Self(parts)),
        }
    }
}

impl From<Breaker> for Parts {
    fn from(breaker: Breaker) -> Self {
        breaker.0
    }
}

/// How often attempts may start: a bucket of `calls` that fills again within `per`. So in any
/// stretch of time t at most `calls + calls * t / per` start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PaceParts", into = "PaceParts")]
pub struct Pace(PaceParts);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PaceParts {
    calls: NonZeroU32,
    per: Nanos,
}

impl Pace {
    /// So many attempts in that time.
    ///
    /// # Errors
    /// When the time is zero.
    pub fn new(calls: NonZeroU32, per: Nanos) -> Result<Self, GuardError> {
        Self::try_from(PaceParts { calls, per })
    }

    /// The attempts.
    #[must_use]
    pub fn calls(&self) -> NonZeroU32 {
        self.0.calls
    }

    /// The time.
    #[must_use]
    pub fn per(&self) -> Nanos {
        self.0.per
    }

    /// The time in which one attempt becomes possible again, rounded up.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        Nanos::new(self.0.per.get().div_ceil(u64::from(self.0.calls.get())))
    }
}

impl TryFrom<PaceParts> for Pace {
    type Error = GuardError;

    fn try_from(parts: PaceParts) -> Result<Self, GuardError> {
        if parts.per.is_zero() { Err(GuardError::NoTime) } else { Ok(Self(parts)) }
    }
}

impl From<Pace> for PaceParts {
    fn from(pace: Pace) -> Self {
        pace.0
    }
}
