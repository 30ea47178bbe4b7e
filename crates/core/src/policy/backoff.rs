//! Delays: integer nanoseconds, multipliers in millionths, saturating, no floats.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DelayList, Multiplier, Share};
use crate::time::Nanos;

const MILLION: u128 = 1_000_000;

/// How the nominal delay grows with the retry's number n, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Shape {
    /// Retry at once.
    None,
    /// Always `base`.
    Fixed {
        /// The delay.
        base: Nanos,
    },
    /// `base + step * (n - 1)`; with `step == base` that is `base * n`.
    Linear {
        /// The first delay.
        base: Nanos,
        /// What each further retry adds.
        step: Nanos,
    },
    /// `base * multiplier^(n - 1)`.
    Exponential {
        /// The first delay.
        base: Nanos,
        /// The growth.
        multiplier: Multiplier,
    },
    /// `base` times 1, 1, 2, 3, 5, 8.
    Fibonacci {
        /// The unit.
        base: Nanos,
    },
    /// `base * n^degree`.
    Polynomial {
        /// The first delay.
        base: Nanos,
        /// The power of n: 1 grows in a line, 2 with the square.
        degree: u32,
    },
    /// Each delay written out.
    List {
        /// The delays in order.
        delays: DelayList,
    },
    /// A function registered under this name in [`Functions`].
    Custom {
        /// The function's name.
        name: String,
    },
}

impl Shape {
    /// The shape's name, as its stored form spells it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed { .. } => "fixed",
            Self::Linear { .. } => "linear",
            Self::Exponential { .. } => "exponential",
            Self::Fibonacci { .. } => "fibonacci",
            Self::Polynomial { .. } => "polynomial",
            Self::List { .. } => "list",
            Self::Custom { .. } => "custom",
        }
    }

    /// Whether a registered function computes the delay.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        matches!(self, Self::Custom { .. })
    }
}

/// The range from which the delay is drawn, where d = min(nominal, cap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Exactly d.
    None,
    /// [d(1-p), min(d(1+p), cap)].
    Proportional(Share),
    /// [0, d].
    Full,
    /// [d/2, d].
    Equal,
    /// [base, min(cap, 3 x previous)], previous starting at base.
    Decorrelated,
}

/// A custom backoff: the retry's number, from 1, to its nominal delay.
pub type CustomBackoff = Arc<dyn Fn(u32) -> Nanos + Send + Sync>;

/// The custom backoff functions that a program has registered, by name. Policies are stored, so
/// they hold the name and each process registers the function.
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<String, CustomBackoff>);

impl Functions {
    /// Registers `function` as `name`, replacing any earlier one.
    pub fn register(
        &mut self,
        name: &str,
        function: impl Fn(u32) -> Nanos + Send + Sync + 'static,
    ) {
        self.0.insert(name.to_owned(), Arc::new(function));
    }

    /// The function registered as `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CustomBackoff> {
        self.0.get(name)
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The wait before each retry of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// How the nominal delay grows.
    pub shape: Shape,
    /// How the delay is randomised.
    pub jitter: Jitter,
    /// The longest delay; `None` for no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Nanos>,
}

impl Backoff {
    /// Retry at once.
    pub const NONE: Self = Self { shape: Shape::None, jitter: Jitter::None, cap: None };

    /// Doubling from `base`, without jitter or cap.
    #[must_use]
    pub fn exponential(base: impl Into<Nanos>) -> Self {
        let shape = Shape::Exponential { base: base.into(), multiplier: Multiplier::TWO };
        Self { shape, jitter: Jitter::None, cap: None }
    }

    /// The same backoff with another jitter.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The same backoff with a cap.
    #[must_use]
    pub fn with_cap(mut self, cap: impl Into<Nanos>) -> Self {
        self.cap = Some(cap.into());
        self
    }

    /// Whether every delay is zero, custom functions aside.
    #[must_use]
    pub fn is_always_zero(&self) -> bool {
        let base_is_zero = match &self.shape {
            Shape::None => true,
            Shape::Fixed { base }
            | Shape::Exponential { base, .. }
            | Shape::Fibonacci { base }
            | Shape::Polynomial { base, .. } => base.is_zero(),
            Shape::List { delays } => delays.as_slice().iter().all(|d| d.is_zero()),
            Shape::Linear { base, step } => base.is_zero() && step.is_zero(),
            Shape::Custom { .. } => false,
        };
        base_is_zero || self.cap == Some(Nanos::ZERO)
    }

    /// Whether the delay is zero from some retry on, so that unlimited retries would spin.
    #[must_use]
    pub(crate) fn comes_to_zero(&self) -> bool {
        let ends_at_zero = matches!(&self.shape, Shape::List { delays } if delays.last().is_zero());
        self.is_always_zero() || ends_at_zero
    }

    /// The delay before retry `n` (from 1) without jitter: the shape's value, at most the cap. A
    /// custom function that is not registered counts as zero; the engine rejects such a run.
    #[must_use]
    pub fn nominal(&self, n: u32, functions: &Functions) -> Nanos {
        let n = n.max(1);
        let raw = match &self.shape {
            Shape::None => Nanos::ZERO,
            Shape::Fixed { base } => *base,
            Shape::Linear { base, step } => {
                base.saturating_add(step.saturating_mul(u64::from(n - 1)))
            }
            Shape::Exponential { base, multiplier } => power(*base, *multiplier, n - 1),
            Shape::Fibonacci { base } => base.saturating_mul(fibonacci(n)),
            Shape::Polynomial { base, degree } => {
                base.saturating_mul(u64::from(n).saturating_pow(*degree))
            }
            Shape::List { delays } => delays.delay(n),
            Shape::Custom { name } => functions.get(name).map_or(Nanos::ZERO, |f| f(n)),
        };
        raw.min(self.ceiling())
    }

    /// The earliest and latest delay before retry `n`, given the `previous` delay drawn (none
    /// before the first retry).
    #[must_use]
    pub fn range(
        &self,
        n: u32,
        previous: Option<Nanos>,
        functions: &Functions,
    ) -> RangeInclusive<Nanos> {
        let d = self.nominal(n, functions);
        let cap = self.ceiling();
        match self.jitter {
            Jitter::None => d..=d,
            Jitter::Proportional(p) => {
                let part = scale(d, u64::from(p.millionths()));
                d.saturating_sub(part)..=d.saturating_add(part).min(cap)
            }
            Jitter::Full => Nanos::ZERO..=d,
            Jitter::Equal => Nanos::new(d.get() / 2)..=d,
            Jitter::Decorrelated => {
                let base = self.nominal(1, functions);
                let high = previous.unwrap_or(base).saturating_mul(3).min(cap);
                base..=high.max(base)
            }
        }
    }

    /// The delay before retry `n`: the point of [`Backoff::range`] that `chance`, uniform over
    /// `u64`, picks.
    #[must_use]
    pub fn draw(
        &self,
        n: u32,
        previous: Option<Nanos>,
        chance: u64,
        functions: &Functions,
    ) -> Nanos {
        let range = self.range(n, previous, functions);
        let (low, high) = (range.start().get(), range.end().get());
        let width = u128::from(high - low) + 1;
        let offset = (u128::from(chance) * width) >> 64;
        Nanos::new(low + u64::try_from(offset).unwrap_or(high - low))
    }

    fn ceiling(&self) -> Nanos {
        self.cap.unwrap_or(Nanos::MAX)
    }
}

/// `base * millionths / 1,000,000`, saturating.
fn scale(base: Nanos, millionths: u64) -> Nanos {
    let product = u128::from(base.get()) * u128::from(millionths) / MILLION;
    Nanos::new(u64::try_from(product).unwrap_or(u64::MAX))
}

/// `base * multiplier^exponent`, saturating. Each step rounds down to a nanosecond; it stops as
/// soon as it saturates or stands still, so a huge exponent costs nothing.
fn power(base: Nanos, multiplier: Multiplier, exponent: u32) -> Nanos {
    let mut value = base;
    for _ in 0..exponent {
        let next = scale(value, multiplier.millionths());
        if next == value {
            break;
        }
        value = next;
    }
    value
}

/// The n-th Fibonacci number, from 1: 1, 1, 2, 3, 5, saturating.
fn fibonacci(n: u32) -> u64 {
    let (mut a, mut b) = (0_u64, 1_u64);
    // The 94th is beyond u64, so more rounds change nothing.
    for _ in 1..n.min(95) {
        (a, b) = (b, a.saturating_add(b));
    }
    b
}
