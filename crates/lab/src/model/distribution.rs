use std::sync::Arc;

use retrial_core::time::Nanos;

use crate::numeric::{Chance, exp};

/// How a length of time is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(Nanos),
    /// Between two lengths.
    Uniform(Nanos, Nanos),
    /// Exponential with this mean.
    Exponential(Nanos),
    /// Normal with this mean and deviation, folded at zero: a negative draw counts as positive.
    Normal(Nanos, Nanos),
    /// The exponential of a normal: its median, and the deviation of its logarithm in millionths.
    Lognormal(Nanos, u32),
    /// One of these, each as likely. Not empty.
    Empirical(Arc<[Nanos]>),
}

impl Distribution {
    /// No time.
    pub const ZERO: Self = Self::Constant(Nanos::ZERO);

    /// Draws one.
    pub fn draw(&self, chance: &mut Chance) -> Nanos {
        match self {
            Self::Constant(n) => *n,
            Self::Uniform(low, high) => {
                let width = high.saturating_sub(*low).get().saturating_add(1);
                low.saturating_add(Nanos::new(chance.below(width)))
            }
            Self::Exponential(mean) => scaled(*mean, chance.exponential()),
            Self::Normal(mean, deviation) => {
                let drawn = mean.get() as f64 + deviation.get() as f64 * chance.normal();
                Nanos::new(drawn.abs() as u64)
            }
            Self::Lognormal(median, sigma) => {
                scaled(*median, exp(f64::from(*sigma) / 1e6 * chance.normal()))
            }
            Self::Empirical(all) => {
                let at = chance.below(all.len() as u64);
                let at = usize::try_from(at).unwrap_or(0);
                all.get(at).copied().unwrap_or_default()
            }
        }
    }

    /// The mean; of a folded normal that of the normal.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        match self {
            Self::Constant(n) | Self::Exponential(n) | Self::Normal(n, _) => *n,
            Self::Uniform(low, high) => {
                Nanos::new(low.get() / 2 + high.get() / 2 + (low.get() & high.get() & 1))
            }
            Self::Lognormal(median, sigma) => {
                let sigma = f64::from(*sigma) / 1e6;
                scaled(*median, exp(sigma * sigma / 2.0))
            }
            Self::Empirical(all) => {
                let sum: u128 = all.iter().map(|n| u128::from(n.get())).sum();
                Nanos::new(u64::try_from(sum / all.len().max(1) as u128).unwrap_or(u64::MAX))
            }
        }
    }
}

/// `n` times `factor`, rounded down, saturating.
#[must_use]
pub fn scaled(n: Nanos, factor: f64) -> Nanos {
    Nanos::new((n.get() as f64 * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_what_is_drawn_on_average() {
        let ms = Nanos::from_millis;
        let all = [
            Distribution::Constant(ms(7)),
            Distribution::Uniform(ms(5), ms(15)),
            Distribution::Exponential(ms(10)),
            Distribution::Normal(ms(100), ms(10)),
            Distribution::Lognormal(ms(10), 500_000),
            Distribution::Empirical(vec![ms(1), ms(2), ms(9)].into()),
        ];
        for distribution in all {
            let (mut chance, n) = (Chance::of(3, 3), 100_000);
            let sum: u64 = (0..n).map(|_| distribution.draw(&mut chance).get()).sum();
            let ratio = sum as f64 / n as f64 / distribution.mean().get() as f64;
            assert!((ratio - 1.0).abs() < 0.01, "{distribution:?}: {ratio}");
        }
        let folded = Distribution::Normal(Nanos::ZERO, ms(10));
        let mut chance = Chance::of(3, 3);
        let sum: u64 = (0..100_000).map(|_| folded.draw(&mut chance).get()).sum();
        // The mean of a normal around zero, folded, is its deviation times the root of 2 / pi.
        assert!((sum as f64 / 1e5 / 7.978_845_6e6 - 1.0).abs() < 0.01);
    }
}
