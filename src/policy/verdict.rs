use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Functions, Jitter, Limit, Policy, Rule};
use crate::failure::{Failure, RetryKind};
use crate::time::{Nanos, Timestamp};

/// What a task has used up when an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// Retries that timeouts have caused so far.
    pub timeout_retries: u32,
    /// The backoff drawn for the retry before this one.
    pub previous: Option<Nanos>,
    /// When the first attempt started.
    pub first_started: Timestamp,
}

/// Whether and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again.
    Retry {
        /// The wait: the backoff, raised by `Retry-After`.
        delay: Nanos,
        /// The backoff alone, which the next decorrelated draw starts from.
        backoff: Nanos,
    },
    /// Do not.
    GiveUp(GiveUp),
}

/// Why a task is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GiveUp {
    /// No rule matches the failure (R12).
    NotRetryable,
    /// The rule's attempts are used up (W10).
    Exhausted,
    /// The retries that timeouts may cause are used up (R11).
    TimeoutBudget,
    /// The next attempt would start at or after the total timeout (H5).
    TotalTimeout,
    /// The endpoint asked for a longer wait than is obeyed (spec decision 7).
    RetryAfter,
    /// Somebody failed the waiting task by hand (H17).
    ByHand,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRetryable => "no rule retries this failure",
            Self::Exhausted => "all attempts are used up",
            Self::TimeoutBudget => "the retries allowed for timeouts are used up",
            Self::TotalTimeout => "the total timeout leaves no time for another attempt",
            Self::ByHand => "it was failed by hand",
            Self::RetryAfter => "the endpoint asks for a longer wait than is allowed",
        })
    }
}

impl Policy {
    /// The shortest delay that chance or a custom function may choose under unlimited retries (spec
    /// decision 10).
    pub const FLOOR: Nanos = Nanos::from_millis(10);

    /// Whether to try again after `failure` at `now`. `chance` is uniform over `u64`; the same
    /// arguments give the same verdict.
    #[must_use]
    pub fn verdict(
        &self,
        failure: &Failure,
        used: &Used,
        now: Timestamp,
        chance: u64,
        functions: &Functions,
    ) -> Verdict {
        let Some(rule) = self.rule_for(failure) else {
            return Verdict::GiveUp(GiveUp::NotRetryable);
        };
        if !rule.limit.allows_more(used.attempt) {
            return Verdict::GiveUp(GiveUp::Exhausted);
        }
        let timeout = failure.kind() == RetryKind::Timeout;
        if timeout && self.timeout_retries().is_some_and(|most| used.timeout_retries >= most) {
            return Verdict::GiveUp(GiveUp::TimeoutBudget);
        }
        let backoff = rule.draw(used, chance, functions);
        let asked = failure.retry_after().unwrap_or(Nanos::ZERO);
        if asked > self.max_retry_after() && asked > backoff {
            return Verdict::GiveUp(GiveUp::RetryAfter);
        }
        let delay = backoff.max(asked);
        if self.deadline(used.first_started).is_some_and(|end| now.after(delay) >= end) {
            return Verdict::GiveUp(GiveUp::TotalTimeout);
        }
        Verdict::Retry { delay, backoff }
    }

    /// When the total timeout of a task that first started at `first_started` passes.
    #[must_use]
    pub fn deadline(&self, first_started: Timestamp) -> Option<Timestamp> {
        self.total_timeout().map(|total| first_started.after(total))
    }
}

impl Rule {
    /// The shortest delay that may be chosen: 10 ms where attempts are unlimited and chance or a
    /// custom function chooses (spec decision 10).
    #[must_use]
    pub fn floor(&self) -> Nanos {
        let chosen = self.backoff.jitter != Jitter::None || self.backoff.shape.is_custom();
        if self.limit == Limit::Unlimited && chosen { Policy::FLOOR } else { Nanos::ZERO }
    }

    fn draw(&self, used: &Used, chance: u64, functions: &Functions) -> Nanos {
        self.backoff.draw(used.attempt, used.previous, chance, functions).max(self.floor())
    }
}
