use std::fmt;

use super::{
    Backoff, Budget, BudgetScope, Denied, Dialect, Jitter, Limit, Matcher, Policy, PolicyParts,
    Refill, Rule, Share,
};
use crate::failure::THROTTLING;
use crate::time::Nanos;

/// A named policy, with the source of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    /// AWS SDKs' standard retry mode, 2.1.
    AwsStandard21,
    /// Google's Site Reliability Engineering.
    GoogleSre,
    /// One attempt.
    None,
}

/// The codes and types that AWS SDKs retry beside throttling (botocore's `retries/standard.py`).
const AWS_TRANSIENT: [&str; 10] = [
    "500",
    "502",
    "503",
    "504",
    "ConnectionError",
    "HTTPClientError",
    "NetworkError",
    "RequestTimeout",
    "RequestTimeoutException",
    "TimeoutError",
];

impl Preset {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::AwsStandard21, Self::GoogleSre, Self::None];

    /// The preset's name, as texts spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsStandard21 => "aws-standard-2.1",
            Self::GoogleSre => "google-sre",
            Self::None => "none",
        }
    }

    /// The preset of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// The preset that `policy` is, unchanged.
    #[must_use]
    pub fn of(policy: &Policy) -> Option<Self> {
        if policy.dialect() != Dialect::Preset {
            return None;
        }
        Self::ALL.into_iter().find(|p| p.policy() == *policy)
    }

    /// Where its numbers come from.
    #[must_use]
    pub fn source(self) -> &'static str {
        match self {
            Self::AwsStandard21 => {
                "AWS SDKs' retry behaviour, standard mode 2.1: \
                 https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html"
            }
            Self::GoogleSre => {
                "Site Reliability Engineering, chapters 21 and 22: \
                 https://sre.google/sre-book/handling-overload/ (3 attempts, retries at most 10 % \
                 of requests, randomised exponential backoff; base and cap are ours)"
            }
            Self::None => "one attempt, nothing to look up",
        }
    }

    /// The policy.
    #[must_use]
    pub fn policy(self) -> Policy {
        let mut parts = PolicyParts::new(Dialect::Preset);
        match self {
            Self::AwsStandard21 => aws(&mut parts),
            Self::GoogleSre => google(&mut parts),
            Self::None => {}
        }
        Policy(parts.into())
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Three attempts in all, full jitter, cap 20 s; the base is 50 ms, after throttling 1 s. A bucket
/// of 500: a retry takes 14, after throttling 5; a success after retries returns the last
/// retry's cost, one at the first attempt adds 1.
fn aws(parts: &mut PolicyParts) {
    let rule = |names: &[&str], base_ms| Rule {
        matcher: Matcher::named(names.iter().copied()),
        limit: Limit::retries(2),
        backoff: Backoff::exponential(Nanos::from_millis(base_ms))
            .with_cap(Nanos::from_secs(20))
            .with_jitter(Jitter::Full),
    };
    parts.rules = vec![rule(&THROTTLING, 1_000), rule(&AWS_TRANSIENT, 50)];
    parts.budget = Some(Budget {
        capacity: 500,
        initial: 500,
        cost: 14,
        throttling_cost: 5,
        refill: Refill { ratio: Share::ZERO, first_success: 1, refund: true },
        scope: BudgetScope::Action,
        on_denied: Denied::Fail,
    });
}

/// Three attempts in all, retries at most a tenth of first attempts.
fn google(parts: &mut PolicyParts) {
    parts.rules = vec![Rule {
        matcher: Matcher::retryable(),
        limit: Limit::retries(2),
        backoff: Backoff::exponential(Nanos::from_millis(100))
            .with_cap(Nanos::from_secs(10))
            .with_jitter(Jitter::Full),
    }];
    parts.budget = Some(Budget::of_first_attempts(Share::TENTH));
}
