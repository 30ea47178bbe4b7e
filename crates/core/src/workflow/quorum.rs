use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// How many of several must succeed: of a fanned-out step's tasks, or of the steps that a join
/// waits for; all by default. In JSON `"all"`, `"any"` or `{"at_least": k}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quorum {
    /// Each of them.
    #[default]
    All,
    /// One.
    Any,
    /// This many. Out of reach where there are fewer in all.
    AtLeast(NonZeroU32),
}

impl Quorum {
    /// How many successes it takes where there are `count` in all.
    #[must_use]
    pub fn of(self, count: usize) -> usize {
        match self {
            Self::All => count,
            Self::Any => 1,
            Self::AtLeast(least) => usize::try_from(least.get()).unwrap_or(usize::MAX),
        }
    }

    /// Whether one failure alone decides against it.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}
