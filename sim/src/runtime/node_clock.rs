//! A node's clocks, computed from the true time and their error. Integer arithmetic only.

use retrial::time::{Mono, Nanos, Timestamp};
use serde::{Deserialize, Serialize};

const MILLION: u128 = 1_000_000;

/// How much faster than true time a monotonic clock runs, in parts per million. At most half as
/// fast again, at least half as fast.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "i32", into = "i32")]
pub struct Drift(i32);

/// A drift beyond half the clock's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a drift of {0} ppm is out of range: give -500000 to 500000")]
pub struct DriftOutOfRange(i32);

impl Drift {
    /// A clock that runs true.
    pub const NONE: Self = Self(0);
    /// The largest drift either way, in parts per million.
    pub const LIMIT: i32 = 500_000;

    /// `ppm` parts per million fast, or slow when negative.
    ///
    /// # Errors
    /// When it is beyond [`Drift::LIMIT`].
    pub fn ppm(ppm: i32) -> Result<Self, DriftOutOfRange> {
        if (-Self::LIMIT..=Self::LIMIT).contains(&ppm) {
            Ok(Self(ppm))
        } else {
            Err(DriftOutOfRange(ppm))
        }
    }

    /// Ticks of the node's clock in a million ticks of true time.
    fn rate(self) -> u128 {
        u128::from((1_000_000 + self.0).unsigned_abs())
    }

    /// The node's time while `elapsed` true time passes, rounded down.
    fn bend(self, elapsed: Nanos) -> Nanos {
        saturate(u128::from(elapsed.get()) * self.rate() / MILLION)
    }

    /// The least true time in which the node's clock advances by `by`.
    fn unbend(self, by: Nanos) -> Nanos {
        saturate((u128::from(by.get()) * MILLION).div_ceil(self.rate()))
    }
}

impl TryFrom<i32> for Drift {
    type Error = DriftOutOfRange;

    fn try_from(ppm: i32) -> Result<Self, DriftOutOfRange> {
        Self::ppm(ppm)
    }
}

impl From<Drift> for i32 {
    fn from(drift: Drift) -> Self {
        drift.0
    }
}

fn saturate(n: u128) -> Nanos {
    Nanos::new(u64::try_from(n).unwrap_or(u64::MAX))
}

/// A jump of a wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jump {
    /// The true time of the jump.
    pub at: Mono,
    /// How far, in nanoseconds; back when negative.
    pub by: i64,
}

/// How wrong a node's clocks are, as data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockPlan {
    /// The monotonic clock when an incarnation starts.
    pub origin: Mono,
    /// How fast the monotonic clock runs. The wall clock does not drift.
    pub drift: Drift,
    /// A correct wall clock when the world begins.
    pub base: Timestamp,
    /// How far the wall clock is ahead, in nanoseconds; behind when negative.
    pub skew: i64,
    /// When the wall clock jumps.
    pub jumps: Vec<Jump>,
}

/// The clocks of one incarnation.
#[derive(Clone, Debug)]
pub struct NodeClock {
    plan: ClockPlan,
    born: Mono,
}

impl NodeClock {
    /// Clocks that follow `plan`, of an incarnation that starts at the true time `born`.
    #[must_use]
    pub fn new(plan: ClockPlan, born: Mono) -> Self {
        Self { plan, born }
    }

    /// The monotonic clock at true time `at`. Never goes back while `at` doesn't.
    #[must_use]
    pub fn mono(&self, at: Mono) -> Mono {
        self.plan.origin.after(self.plan.drift.bend(at.since(self.born)))
    }

    /// The first true time at which the monotonic clock has reached `mono`.
    #[must_use]
    pub fn true_at(&self, mono: Mono) -> Mono {
        self.born.after(self.plan.drift.unbend(mono.since(self.plan.origin)))
    }

    /// The wall clock at true time `at`. Stops at the ends of what a [`Timestamp`] can say.
    #[must_use]
    pub fn wall(&self, at: Mono) -> Timestamp {
        let right = i128::from(self.plan.base.as_nanos()) + i128::from(at.as_nanos());
        let said = (right + self.error(at)).clamp(0, i128::from(u64::MAX));
        Timestamp::from_nanos(u64::try_from(said).unwrap_or(u64::MAX))
    }

    /// How far the wall clock is ahead of a right one at true time `at`, in nanoseconds.
    #[must_use]
    pub fn error(&self, at: Mono) -> i128 {
        let jumped = self.plan.jumps.iter().filter(|j| j.at <= at).map(|j| i128::from(j.by));
        i128::from(self.plan.skew) + jumped.sum::<i128>()
    }

    /// Whether the wall clock is wrong from the beginning.
    #[must_use]
    pub fn is_skewed(&self) -> bool {
        self.plan.skew != 0
    }

    /// Whether the wall clock has jumped by true time `at`.
    #[must_use]
    pub fn has_jumped(&self, at: Mono) -> bool {
        self.plan.jumps.iter().any(|jump| jump.at <= at)
    }

    /// Whether the monotonic clock runs fast or slow.
    #[must_use]
    pub fn drifts(&self) -> bool {
        self.plan.drift != Drift::NONE
    }
}
