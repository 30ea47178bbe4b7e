//! How failures of a task are treated: rules, backoff, limits, timeouts.
//!
//! Decides, from one failure and what the task has used up, whether and when to try again
//! ([`Policy::verdict`]). Must never know text syntaxes, runs, stores or clocks: time comes in as an
//! argument, chance as a number. To add a backoff, add a variant to [`Shape`] and its arm in
//! `nominal`; to add a reason to stop, add a variant to [`GiveUp`] and its check in `verdict`.

mod backoff;
mod budget;
mod builder;
mod limit;
mod matcher;
mod precedence;
mod verdict;

use serde::{Deserialize, Serialize};

pub use backoff::{
    Backoff, BackoffError, CustomBackoff, Functions, Jitter, Multiplier, Shape, Share,
};
pub use budget::{Budget, BudgetError, BudgetScope, Denied, Refill};
pub use builder::PolicyBuilder;
pub use limit::Limit;
pub use matcher::{Matcher, Scope};
pub use precedence::{ActionKind, Defaults, Origin};
pub use verdict::{GiveUp, Used, Verdict};

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
            Self::Builder => "builder",
        }
    }
}

/// One rule: which failures it is for, how many attempts it allows, how long it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Which failures the rule is for.
    pub matcher: Matcher,
    /// Attempts in all, the first included.
    pub limit: Limit,
    /// The wait before each retry.
    pub backoff: Backoff,
}

/// How failures of a task are treated. Every value is a policy that makes sense: see
/// [`PolicyError`] for what is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Policy(Parts);

/// The public form of a policy's contents, checked when it becomes a [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
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
    /// The most retries that timeouts may cause (R11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_retries: Option<u32>,
    /// The longest `Retry-After` that is obeyed (spec decision 7).
    pub max_retry_after: Nanos,
    /// What bounds the retries of many tasks together; off unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

impl Parts {
    /// The longest `Retry-After` obeyed unless set: 1 h.
    pub const MAX_RETRY_AFTER: Nanos = Nanos::from_secs(3_600);

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
            budget: None,
        }
    }
}

/// What a policy may not say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Unlimited retries whose nominal delay is zero would spin (spec decision 10).
    #[error(
        "unlimited retries need a delay: rule {rule} waits 0 between attempts; set a backoff above zero or limit the attempts"
    )]
    UnlimitedWithoutDelay {
        /// The rule's place in the text, from 1.
        rule: usize,
    },
    /// A timeout of zero would cut every attempt before it starts.
    #[error("{field} is zero: no attempt could ever run; leave it out for no timeout")]
    ZeroTimeout {
        /// Which timeout.
        field: &'static str,
    },
    /// A retry budget that makes no sense.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

impl TryFrom<Parts> for Policy {
    type Error = PolicyError;

    fn try_from(parts: Parts) -> Result<Self, PolicyError> {
        let spins = |r: &Rule| r.limit == Limit::Unlimited && r.backoff.is_always_zero();
        if let Some(at) = parts.rules.iter().position(spins) {
            return Err(PolicyError::UnlimitedWithoutDelay { rule: at + 1 });
        }
        for (field, value) in
            [("attempt timeout", parts.attempt_timeout), ("total timeout", parts.total_timeout)]
        {
            if value == Some(Nanos::ZERO) {
                return Err(PolicyError::ZeroTimeout { field });
            }
        }
        parts.budget.as_ref().map_or(Ok(()), Budget::check)?;
        Ok(Self(parts))
    }
}

impl From<Policy> for Parts {
    fn from(policy: Policy) -> Self {
        policy.0
    }
}

impl Policy {
    /// A policy in Rust (W16, R2 to R4).
    #[must_use]
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// One attempt, no timeout.
    #[must_use]
    pub fn no_retries(dialect: Dialect) -> Self {
        Self(Parts::new(dialect))
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

    /// The most retries that timeouts may cause (R11).
    #[must_use]
    pub fn timeout_retries(&self) -> Option<u32> {
        self.0.timeout_retries
    }

    /// The longest `Retry-After` that is obeyed.
    #[must_use]
    pub fn max_retry_after(&self) -> Nanos {
        self.0.max_retry_after
    }

    /// What bounds the retries of many tasks together, if anything does.
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.0.budget.as_ref()
    }

    /// The largest limit of any rule; one attempt when there is no rule.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.0.rules.iter().map(|r| r.limit).max().unwrap_or(Limit::ONE)
    }

    /// The class of `failure` under this policy: 429 and 408 are Argyll's to name (spec decision 6).
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
    /// tie the first in the text (W8, spec decision 5). A lost lease that no rule names falls to
    /// the largest limit (spec decision 12).
    #[must_use]
    pub fn rule_for(&self, failure: &Failure) -> Option<&Rule> {
        let class = self.class_of(failure);
        most_attempts(self.0.rules.iter().filter(|r| r.matcher.matches(failure, class))).or_else(
            || {
                let lost = failure.code().as_str() == ErrorCode::LEASE_LOST;
                most_attempts(self.0.rules.iter().filter(|_| lost))
            },
        )
    }
}

fn most_attempts<'a>(rules: impl Iterator<Item = &'a Rule>) -> Option<&'a Rule> {
    rules.reduce(|best, r| if r.limit > best.limit { r } else { best })
}
