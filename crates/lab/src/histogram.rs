//! A histogram of lengths of time in constant space: each power of two is cut into equal parts.
//!
//! Decides nothing. A percentile is off by at most a 64th of itself.

use retrial_core::time::Nanos;

/// Parts of each power of two, as a power of two.
const PARTS: u32 = 5;

/// How many lengths fell into each part.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u32>,
    count: u64,
    sum: u128,
    most: Nanos,
}

impl Histogram {
    /// Adds one.
    pub fn add(&mut self, n: Nanos) {
        let at = place(n.get());
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
        self.sum += u128::from(n.get());
        self.most = self.most.max(n);
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, its) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*its);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.most = self.most.max(other.most);
    }

    /// How many were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero of none.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Nanos::new(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The longest.
    #[must_use]
    pub fn most(&self) -> Nanos {
        self.most
    }

    /// The length that this share of all does not exceed; zero of none.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Nanos {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Nanos::new(middle(at)).min(self.most);
            }
        }
        self.most
    }
}

/// The part that `n` falls into.
fn place(n: u64) -> usize {
    let shift = n.checked_ilog2().unwrap_or(0).saturating_sub(PARTS);
    let part = n >> shift;
    ((u64::from(shift) << PARTS) + part) as usize
}

/// The middle of a part.
fn middle(at: usize) -> u64 {
    let at = at as u64;
    let shift = (at >> PARTS).saturating_sub(1).min(63);
    let low = (at - (shift << PARTS)) << shift;
    low + ((1_u64 << shift) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_close_to_the_middle_of_its_part() {
        let mut n = 1_u64;
        while n < u64::MAX / 3 {
            for n in [n, n + 1, n + n / 3] {
                let off = middle(place(n)).abs_diff(n);
                assert!(off * 64 <= n, "{n}: off by {off}");
            }
            n *= 2;
        }
        assert_eq!(middle(place(0)), 0);
        assert!(place(u64::MAX) < 2_048);
    }

    #[test]
    fn percentiles_of_even_lengths_are_even() {
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|n| histogram.add(Nanos::from_millis(n)));
        for (share, wanted) in [(0.5, 500), (0.99, 990), (1.0, 1_000)] {
            let found = histogram.percentile(share).as_millis();
            assert!(found.abs_diff(wanted) * 64 <= wanted, "{share}: {found}");
        }
        assert_eq!(histogram.mean(), Nanos::new(500_500_000));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.most()), (2_000, Nanos::from_secs(1)));
        assert_eq!(Histogram::default().percentile(0.5), Nanos::ZERO);
    }
}
