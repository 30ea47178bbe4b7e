use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

/// The cost of attempts, in millionths of the unit that the actions report: dollars, tokens or calls.
/// Adding saturates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cost(u64);

impl Cost {
    /// Nothing, or nothing reported.
    pub const ZERO: Self = Self(0);

    /// So many millionths.
    #[must_use]
    pub const fn from_millionths(n: u64) -> Self {
        Self(n)
    }

    /// The millionths.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::ZERO, Self::plus)
    }
}

/// As an exact decimal: `1.25`.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}
