use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Counting, Functions, Jitter, Limit, Policy, Rule};
use crate::failure::{Failure, RetryKind};
use crate::time::{Nanos, Timestamp};

/// What a task has used when an attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used<'t> {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// Whether running the action again does no harm: true unless its declaration says otherwise.
    pub idempotent: bool,
    /// Retries that timeouts have caused so far.
    pub timeout_retries: u32,
    /// Retries that each rule has caused so far, by its place in the text; a missing entry is 0. Read
    /// only where each rule counts its own retries.
    pub by_rule: &'t [u32],
    /// The backoff drawn for the retry before this one.
    pub previous: Option<Nanos>,
    /// When the first attempt started.
    pub first_started: Timestamp,
}

impl Used<'_> {
    /// After the first attempt of an idempotent action, which started at `started`.
    #[must_use]
    pub fn first(started: Timestamp) -> Self {
        Self {
            attempt: 1,
            idempotent: true,
            timeout_retries: 0,
            by_rule: &[],
            previous: None,
            first_started: started,
        }
    }
}

/// Whether and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again.
    Retry {
        /// The wait: the backoff, raised by `Retry-After`. It is shorter than the backoff only where
        /// it was truncated at the deadline.
        delay: Nanos,
        /// The backoff alone, which the next decorrelated draw starts from.
        backoff: Nanos,
        /// The rule that governs, by its place in the text, from 0.
        rule: u32,
    },
    /// Do not.
    GiveUp(GiveUp),
}

/// What happens to a delay that would cross the total timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtDeadline {
    /// The task gives up now.
    #[default]
    GiveUp,
    /// The delay is shortened, so that the last attempt starts one attempt timeout before the
    /// deadline.
    Truncate {
        /// How long before the deadline it starts where there is no attempt timeout.
        reserve: Nanos,
    },
}

impl AtDeadline {
    /// The default reserve: 1 s.
    pub const RESERVE: Nanos = Nanos::from_secs(1);

    /// Whether the task gives up.
    #[must_use]
    pub fn is_give_up(&self) -> bool {
        *self == Self::GiveUp
    }

    /// The reserve of the last attempt, if delays are truncated.
    #[must_use]
    pub(crate) fn reserve(&self) -> Option<Nanos> {
        match self {
            Self::GiveUp => None,
            Self::Truncate { reserve } => Some(*reserve),
        }
    }
}

/// Why a task is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GiveUp {
    /// No rule matches the failure.
    NotRetryable,
    /// The rule's attempts are used up.
    Exhausted,
    /// The work may have been done, and the action is not idempotent.
    OutcomeUnknown,
    /// The retries that timeouts may cause are used up.
    TimeoutBudget,
    /// The next attempt would start at or after the total timeout.
    TotalTimeout,
    /// The retry budget has too few tokens left.
    RetryBudget,
    /// The endpoint asked for a longer wait than the policy accepts.
    RetryAfter,
    /// An operator failed the waiting task.
    ByHand,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRetryable => "no rule retries this failure",
            Self::Exhausted => "all attempts are used up",
            Self::OutcomeUnknown => "it may have taken effect, and the action is not idempotent",
            Self::TimeoutBudget => "the retries allowed for timeouts are used up",
            Self::TotalTimeout => "the total timeout leaves no time for another attempt",
            Self::RetryBudget => "the retry budget allows no more retries now",
            Self::ByHand => "it was failed by hand",
            Self::RetryAfter => "the endpoint asks for a longer wait than is allowed",
        })
    }
}

impl GiveUp {
    /// The numbers behind the reason, where it has any.
    #[must_use]
    pub fn numbers(self, policy: &Policy, failure: &Failure) -> Option<String> {
        let asked = failure.retry_after().filter(|_| self == Self::RetryAfter)?;
        Some(format!("{asked} is more than max_retry_after, {}", policy.max_retry_after()))
    }
}

impl Policy {
    /// The shortest delay that chance or a custom function may choose under unlimited retries (spec
    /// decision 10).
    pub(crate) const FLOOR: Nanos = Nanos::from_millis(10);

    /// Whether to try again after `failure` at `now`. `chance` is uniform over `u64`; the same
    /// arguments give the same verdict.
    #[must_use]
    pub fn verdict(
        &self,
        failure: &Failure,
        used: &Used<'_>,
        now: Timestamp,
        chance: u64,
        functions: &Functions,
    ) -> Verdict {
        let Some((place, rule)) = self.governing(failure) else {
            return Verdict::GiveUp(GiveUp::NotRetryable);
        };
        let count = self.count(place, used);
        if !rule.limit.allows_more(count) || !self.limit().allows_more(used.attempt) {
            return Verdict::GiveUp(GiveUp::Exhausted);
        }
        let harmful = !used.idempotent && failure.is_outcome_unknown();
        if harmful && !self.retries_unknown_outcome() {
            return Verdict::GiveUp(GiveUp::OutcomeUnknown);
        }
        let timeout = failure.kind() == RetryKind::Timeout;
        if timeout && self.timeout_retries().is_some_and(|most| used.timeout_retries >= most) {
            return Verdict::GiveUp(GiveUp::TimeoutBudget);
        }
        let backoff = rule.draw(count, used.previous, chance, functions);
        let asked = failure.retry_after().unwrap_or(Nanos::ZERO);
        if asked > self.max_retry_after() && asked > backoff {
            return Verdict::GiveUp(GiveUp::RetryAfter);
        }
        match self.within_total(backoff.max(asked), asked, used.first_started, now) {
            Some(delay) => Verdict::Retry { delay, backoff, rule: place },
            None => Verdict::GiveUp(GiveUp::TotalTimeout),
        }
    }

    /// The attempts that count against the rule at `place`, the first included.
    fn count(&self, place: u32, used: &Used<'_>) -> u32 {
        match self.counting() {
            Counting::Shared => used.attempt,
            Counting::PerRule { .. } => {
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                used.by_rule.get(place).copied().unwrap_or(0).saturating_add(1)
            }
        }
    }

    /// `delay`, shortened where it would cross the total timeout and the policy allows that. Never
    /// below `asked`, the `Retry-After`, and never to zero.
    fn within_total(
        &self,
        delay: Nanos,
        asked: Nanos,
        first_started: Timestamp,
        now: Timestamp,
    ) -> Option<Nanos> {
        let Some(end) = self.deadline(first_started) else { return Some(delay) };
        if now.after(delay) < end {
            return Some(delay);
        }
        let AtDeadline::Truncate { reserve } = self.at_deadline() else { return None };
        let reserve = self.attempt_timeout().unwrap_or(reserve);
        let left = end.before(reserve).since(now);
        (!left.is_zero() && left >= asked).then_some(left)
    }

    /// When the total timeout of a task that first started at `first_started` passes.
    #[must_use]
    pub fn deadline(&self, first_started: Timestamp) -> Option<Timestamp> {
        self.total_timeout().map(|total| first_started.after(total))
    }
}

impl Rule {
    /// The shortest delay that may be chosen: 10 ms where attempts are unlimited and chance or a
    /// custom function chooses.
    #[must_use]
    pub fn floor(&self) -> Nanos {
        let chosen = self.backoff.jitter != Jitter::None || self.backoff.shape.is_custom();
        if self.limit == Limit::Unlimited && chosen { Policy::FLOOR } else { Nanos::ZERO }
    }

    /// The delay after `count` attempts.
    fn draw(
        &self,
        count: u32,
        previous: Option<Nanos>,
        chance: u64,
        functions: &Functions,
    ) -> Nanos {
        self.backoff.draw(count, previous, chance, functions).max(self.floor())
    }
}
