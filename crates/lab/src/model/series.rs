use std::sync::Arc;

use retrial_core::time::{Nanos, Timestamp};

/// A number that changes at given times and stays between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Series(Arc<[(Nanos, f64)]>);

impl Series {
    /// Always `value`.
    #[must_use]
    pub fn constant(value: f64) -> Self {
        Self(vec![(Nanos::ZERO, value)].into())
    }

    /// These values from these times on, in order of time. Before the first it is the first.
    #[must_use]
    pub fn of(mut points: Vec<(Nanos, f64)>) -> Self {
        points.sort_by_key(|(at, _)| *at);
        if points.is_empty() {
            points.push((Nanos::ZERO, 0.0));
        }
        Self(points.into())
    }

    /// The value at `at`.
    #[must_use]
    pub fn at(&self, at: Timestamp) -> f64 {
        if let [(_, only)] = *self.0 {
            return only;
        }
        let later = self.0.partition_point(|(from, _)| from.get() <= at.as_nanos());
        self.0.get(later.saturating_sub(1)).map_or(0.0, |(_, value)| *value)
    }

    /// When it changes next after `at`.
    #[must_use]
    pub fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let later = self.0.partition_point(|(from, _)| from.get() <= at.as_nanos());
        self.0.get(later).map(|(from, _)| Timestamp::from_nanos(from.get()))
    }

    /// The largest value.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.0.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    /// The same with each value changed.
    #[must_use]
    pub fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|(at, value)| (*at, change(*value))).collect())
    }

    /// The same, `factor` times as large from `from` until `until`.
    #[must_use]
    pub fn times(&self, factor: f64, from: Nanos, until: Nanos) -> Self {
        let edges = [from, until];
        let mut times: Vec<Nanos> = self.0.iter().map(|(at, _)| *at).chain(edges).collect();
        times.sort();
        times.dedup();
        let value = |at: Nanos| {
            let value = self.at(Timestamp::from_nanos(at.get()));
            if (from..until).contains(&at) { value * factor } else { value }
        };
        let mut points: Vec<_> = times.iter().map(|at| (*at, value(*at))).collect();
        if points.first().is_none_or(|(at, _)| !at.is_zero()) {
            points.insert(0, (Nanos::ZERO, value(Nanos::ZERO)));
        }
        Self(points.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_steps_and_is_multiplied_within_a_window() {
        let s = Nanos::from_secs;
        let at = |n: u64| Timestamp::from_nanos(s(n).get());
        let series = Series::of(vec![(s(10), 2.0), (s(0), 1.0)]);
        assert_eq!([9, 10, 11].map(|n| series.at(at(n))), [1.0, 2.0, 2.0]);
        assert_eq!(series.next_change(at(0)), Some(at(10)));
        assert_eq!(series.next_change(at(10)), None);
        let spiked = series.times(3.0, s(5), s(12));
        assert_eq!([4, 5, 9, 10, 11, 12].map(|n| spiked.at(at(n))), [1.0, 3.0, 3.0, 6.0, 6.0, 2.0]);
        assert_eq!((spiked.most(), series.most()), (6.0, 2.0));
    }
}
