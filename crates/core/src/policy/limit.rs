use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Attempts in all, the first included. `Unlimited` is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At most this many attempts.
    Attempts(NonZeroU32),
    /// No limit by count.
    Unlimited,
}

impl Limit {
    /// One attempt: no retries.
    pub const ONE: Self = Self::Attempts(NonZeroU32::MIN);

    /// The first attempt and `n` retries, saturating.
    #[must_use]
    pub fn retries(n: u32) -> Self {
        Self::Attempts(NonZeroU32::MIN.saturating_add(n))
    }

    /// `n` attempts in all; `None` for zero.
    #[must_use]
    pub fn attempts(n: u32) -> Option<Self> {
        NonZeroU32::new(n).map(Self::Attempts)
    }

    /// Whether another attempt is allowed after `used` attempts.
    #[must_use]
    pub fn allows_more(self, used: u32) -> bool {
        match self {
            Self::Attempts(n) => used < n.get(),
            Self::Unlimited => true,
        }
    }

    /// The number of attempts; `None` when unlimited.
    #[must_use]
    pub fn count(self) -> Option<u32> {
        match self {
            Self::Attempts(n) => Some(n.get()),
            Self::Unlimited => None,
        }
    }
}

impl Limit {
    /// The attempts of `self` plus the retries of `other`, saturating.
    pub(super) fn with_retries_of(self, other: Self) -> Self {
        match (self, other) {
            (Self::Attempts(n), Self::Attempts(m)) => Self::Attempts(n.saturating_add(m.get() - 1)),
            _ => Self::Unlimited,
        }
    }
}

/// What a rule's limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Every attempt of the task, whatever caused it.
    #[default]
    Shared,
    /// The first attempt and the retries that the rule itself caused; its backoff grows with the
    /// same count.
    PerRule {
        /// Attempts in all, whichever rules caused them.
        total: Limit,
    },
}

impl Counting {
    /// Whether there is one counter.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attempts(n) => n.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}
