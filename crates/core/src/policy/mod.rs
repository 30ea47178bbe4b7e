//! How failures of a task are treated: rules, backoff, limits, timeouts.
//!
//! Decides, from one failure and what the task has used, whether and when to try again
//! ([`Policy::verdict`]). Must never know text syntaxes, runs, stores or clocks: time comes in as an
//! argument, chance as a number. To add a backoff, add a variant to [`Shape`] and its arm in
//! `nominal`; to add a reason to stop, add a variant to [`GiveUp`] and its check in `verdict`; to add
//! a preset, add a variant to [`Preset`] with its source.

mod backoff;
mod budget;
mod builder;
mod factor;
mod limit;
mod matcher;
mod precedence;
mod preset;
mod verdict;

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

pub use backoff::{Backoff, CustomBackoff, Functions, Jitter, Shape};
pub use budget::{Budget, BudgetError, BudgetScope, Denied, Refill};
pub use builder::PolicyBuilder;
pub use factor::{BackoffError, DelayList, Multiplier, Share};
pub use limit::{Counting, Limit};
pub use matcher::{Matcher, Scope};
pub use precedence::{ActionKind, Defaults, Origin};
pub use preset::Preset;
pub use verdict::{AtDeadline, GiveUp, Used, Verdict};

use crate::failure::{Class, ErrorCode, Failure};
use crate::time::Nanos;

/// The dialect that a policy was written in. It decides the default classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Waymark's and Rappel's bracket syntax.
    Ir,
    /// Argyll's `work_config`.
    WorkConfig,
    /// Capability 5's `execution` block.
    Execution,
    /// rh_agents' `RetryConfig`.
    RetryConfig,
    /// A preset's name.
    Preset,
    /// The Rust builder.
    Builder,
}

impl Dialect {
    /// The dialect's name, as `--dialect` and `explain` spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ir => "ir",
            Self::WorkConfig => "work_config",
            Self::Execution => "execution",
            Self::RetryConfig => "retry_config",
            Self::Preset => "preset",
            Self::Builder => "builder",
        }
    }
}

/// One rule: which failures it applies to, how many attempts it allows, how long it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Which failures the rule applies to.
    pub matcher: Matcher,
    /// Attempts in all, the first included.
    pub limit: Limit,
    /// The wait before each retry.
    pub backoff: Backoff,
}

/// How failures of a task are treated. Every value is valid: see [`PolicyError`] for what is
/// rejected. Copies share their contents: a default is that of many steps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PolicyParts")]
pub struct Policy(Arc<PolicyParts>);

/// The public form of a policy's contents, checked when it becomes a [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyParts {
    /// The dialect it came from.
    pub dialect: Dialect,
    /// The rules, in text order. None: nothing is retried.
    pub rules: Vec<Rule>,
    /// The most time one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Nanos>,
    /// The most time all attempts and delays may take, from the first attempt's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout: Option<Nanos>,
    /// The most retries that timeouts may cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_retries: Option<u32>,
    /// The longest `Retry-After` that is obeyed.
    pub max_retry_after: Nanos,
    /// Whether the rules' limits count the same attempts.
    #[serde(default, skip_serializing_if = "Counting::is_shared")]
    pub counting: Counting,
    /// What happens to a delay that would cross the total timeout.
    #[serde(default, skip_serializing_if = "AtDeadline::is_give_up")]
    pub at_deadline: AtDeadline,
    /// Whether a failure whose outcome is unknown is retried although the action is not idempotent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry_unknown_outcome: bool,
    /// The retry budget that the tasks share; off unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

impl PolicyParts {
    /// The default of `max_retry_after`: 1 h.
    pub const MAX_RETRY_AFTER: Nanos = Nanos::from_secs(3_600);
    /// How long a node lets an attempt take that has no attempt timeout, unless it is configured:
    /// 5 min.
    pub const DEFAULT_TIMEOUT: Nanos = Nanos::from_secs(300);

    /// No rules and no timeouts.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            rules: Vec::new(),
            attempt_timeout: None,
            total_timeout: None,
            timeout_retries: None,
            max_retry_after: Self::MAX_RETRY_AFTER,
            counting: Counting::Shared,
            at_deadline: AtDeadline::GiveUp,
            retry_unknown_outcome: false,
            budget: None,
        }
    }
}

/// Why a policy is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Unlimited retries whose nominal delay is zero would spin.
    #[error(
        "unlimited retries need a delay: that of rule {rule} is 0 or becomes 0; set a backoff above zero or limit the attempts"
    )]
    UnlimitedWithoutDelay {
        /// The rule's place in the text, from 1.
        rule: usize,
    },
    /// A timeout of zero would cut every attempt before it starts.
    #[error("{field} is zero: no attempt could ever run; leave it out")]
    ZeroTimeout {
        /// Which timeout.
        field: &'static str,
    },
    /// The retry budget is rejected.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

impl TryFrom<PolicyParts> for Policy {
    type Error = PolicyError;

    fn try_from(parts: PolicyParts) -> Result<Self, PolicyError> {
        let spins = |r: &Rule| r.limit == Limit::Unlimited && r.backoff.comes_to_zero();
        if let Some(at) = parts.rules.iter().position(spins) {
            return Err(PolicyError::UnlimitedWithoutDelay { rule: at + 1 });
        }
        for (field, value) in [
            ("attempt timeout", parts.attempt_timeout),
            ("total timeout", parts.total_timeout),
            ("reserve of the last attempt", parts.at_deadline.reserve()),
        ] {
            if value == Some(Nanos::ZERO) {
                return Err(PolicyError::ZeroTimeout { field });
            }
        }
        parts.budget.as_ref().map_or(Ok(()), Budget::check)?;
        Ok(Self(Arc::new(parts)))
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl From<Policy> for PolicyParts {
    fn from(policy: Policy) -> Self {
        Arc::unwrap_or_clone(policy.0)
    }
}

impl Policy {
    /// Starts building a policy.
    #[must_use]
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Where its contents are: copies that share them have the same.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// One attempt, no timeout.
    #[must_use]
    pub fn no_retries(dialect: Dialect) -> Self {
        Self(Arc::new(PolicyParts::new(dialect)))
    }

    /// The dialect it came from.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    /// The rules in text order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0.rules
    }

    /// The most time one attempt may take.
    #[must_use]
    pub fn attempt_timeout(&self) -> Option<Nanos> {
        self.0.attempt_timeout
    }

    /// The most time all attempts and delays may take, from the first attempt's start.
    #[must_use]
    pub fn total_timeout(&self) -> Option<Nanos> {
        self.0.total_timeout
    }

    /// The most retries that timeouts may cause.
    #[must_use]
    pub fn timeout_retries(&self) -> Option<u32> {
        self.0.timeout_retries
    }

    /// The longest `Retry-After` that is obeyed.
    #[must_use]
    pub fn max_retry_after(&self) -> Nanos {
        self.0.max_retry_after
    }

    /// Whether the rules' limits count the same attempts.
    #[must_use]
    pub fn counting(&self) -> Counting {
        self.0.counting
    }

    /// What happens to a delay that would cross the total timeout.
    #[must_use]
    pub fn at_deadline(&self) -> AtDeadline {
        self.0.at_deadline
    }

    /// Whether a failure whose outcome is unknown is retried although the action is not idempotent.
    #[must_use]
    pub fn retries_unknown_outcome(&self) -> bool {
        self.0.retry_unknown_outcome
    }

    /// The retry budget that the tasks share, if there is one.
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.0.budget.as_ref()
    }

    /// The most attempts that a task can make, the first included: the largest limit of any rule;
    /// where each rule has its own count, all their retries together, up to the total. One
    /// attempt when there is no rule.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let limits = self.0.rules.iter().map(|r| r.limit);
        match self.0.counting {
            Counting::Shared => limits.max().unwrap_or(Limit::ONE),
            Counting::PerRule { total } => {
                limits.fold(Limit::ONE, Limit::with_retries_of).min(total)
            }
        }
    }

    /// The class of `failure` under this policy. In `work_config` 429 and 408 are retryable only when
    /// a rule names them.
    #[must_use]
    pub fn class_of(&self, failure: &Failure) -> Class {
        let argyll = self.0.dialect == Dialect::WorkConfig;
        if argyll && matches!(failure.code().as_str(), "429" | "408") {
            let named = self.0.rules.iter().any(|r| r.matcher.names(failure));
            return if named { Class::Retryable } else { Class::Permanent };
        }
        failure.class()
    }

    /// The rule that governs `failure`: of those that match, the one with the most attempts, on a
    /// tie the first in the text. A lost lease that no rule matches is governed by the rule with the
    /// largest limit. No rule retries a failed precondition.
    #[must_use]
    pub fn rule_for(&self, failure: &Failure) -> Option<&Rule> {
        self.governing(failure).map(|(_, rule)| rule)
    }

    /// The rule with the most attempts, on a tie the first in the text.
    #[must_use]
    pub fn most_generous(&self) -> Option<&Rule> {
        most_attempts(self.places()).map(|(_, rule)| rule)
    }

    /// The rules with their places in the text, from 0.
    fn places(&self) -> impl Iterator<Item = (u32, &Rule)> {
        (0..).zip(&self.0.rules)
    }

    /// The governing rule and its place in the text, from 0.
    fn governing(&self, failure: &Failure) -> Option<(u32, &Rule)> {
        if failure.code().as_str() == ErrorCode::PRECONDITION_FAILED {
            return None;
        }
        let class = self.class_of(failure);
        let matching = self.places().filter(|(_, r)| r.matcher.matches(failure, class));
        most_attempts(matching).or_else(|| {
            let lost = failure.code().as_str() == ErrorCode::LEASE_LOST;
            most_attempts(self.places().filter(|_| lost))
        })
    }
}

fn most_attempts<'a>(rules: impl Iterator<Item = (u32, &'a Rule)>) -> Option<(u32, &'a Rule)> {
    rules.reduce(|best, r| if r.1.limit > best.1.limit { r } else { best })
}
