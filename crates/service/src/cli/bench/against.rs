//! Whether one bench is worse than another.
//!
//! A figure has a value for each round. Its interval is that of the median with a confidence of 95 in
//! 100, by order statistics: it assumes nothing about how the values are spread.

use super::Plan;
use super::report::{Report, Round, StoreKind, number};
use crate::cli::error::CliError;
use crate::cli::output::table;

/// With fewer rounds there is no such interval.
pub(super) const FEWEST_ROUNDS: usize = 6;
/// A difference smaller than this share is none, however narrow the intervals are.
const LEAST: f64 = 0.02;

/// The median of some values, and the interval in which the true one lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Interval {
    /// Of these values; of fewer than [`FEWEST_ROUNDS`] the least and the greatest. `None` of none.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let last = count.checked_sub(1)?;
        let at = |n: usize| values.get(n).copied();
        let outside = outside(count);
        let median = f64::midpoint(at(last / 2)?, at(count / 2)?);
        Some(Self { low: at(outside)?, median, high: at(last - outside)? })
    }
}

/// How many of so many ordered values lie below the interval, and how many above it. The true median
/// is below the value at `n` with the chance that at most `n` of `count` tosses of a coin are heads.
fn outside(count: usize) -> usize {
    if count > 1_000 {
        // By then the tosses are normally distributed, and the chance of no head is next to nothing.
        return (count as f64 / 2.0 - 0.98 * (count as f64).sqrt()) as usize - 1;
    }
    let mut chance = 0.5_f64.powi(count as i32);
    let (mut below, mut outside) = (0.0, 0);
    for n in 0..count / 2 {
        below += chance;
        if 2.0 * below > 0.05 {
            break;
        }
        outside = n;
        chance *= (count - n) as f64 / (n + 1) as f64;
    }
    outside
}

/// A figure that is compared.
struct Metric {
    name: &'static str,
    more_is_better: bool,
    of: fn(&Round) -> Option<f64>,
}

const fn less(name: &'static str, of: fn(&Round) -> Option<f64>) -> Metric {
    Metric { name, more_is_better: false, of }
}

const fn more(name: &'static str, of: fn(&Round) -> Option<f64>) -> Metric {
    Metric { name, more_is_better: true, of }
}

const METRICS: [Metric; 9] = [
    more("runs a second", |round| Some(round.runs_per_second())),
    more("submitted a second", |round| Some(round.submit_per_second())),
    less("due to start, half, ms", |round| Some(round.due_to_start_ms.p50)),
    less("due to start, 99 %, ms", |round| Some(round.due_to_start_ms.p99)),
    less("start to end, half, ms", |round| Some(round.start_to_end_ms.p50)),
    less("start to end, 99 %, ms", |round| Some(round.start_to_end_ms.p99)),
    less("transactions a run", Round::transactions_per_run),
    less("bytes of WAL a run", Round::wal_bytes_per_run),
    less("processor time a run, us", |round| Some(round.each(round.cpu_seconds * 1e6))),
];

/// How a figure has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Better,
    Same,
    Worse,
}

impl Change {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Same => "same",
            Self::Worse => "worse",
        }
    }

    /// The intervals must not touch, and the medians must differ by more than [`LEAST`].
    fn of(before: Interval, now: Interval, more_is_better: bool) -> Self {
        let least = LEAST * before.median.abs();
        let (rises, falls) = (
            now.low > before.high && now.median - before.median > least,
            now.high < before.low && before.median - now.median > least,
        );
        match (rises, falls) {
            (true, _) if more_is_better => Self::Better,
            (true, _) => Self::Worse,
            (_, true) if more_is_better => Self::Worse,
            (_, true) => Self::Better,
            _ => Self::Same,
        }
    }
}

/// One figure in both benches.
pub(super) struct Compared {
    pub(super) name: &'static str,
    pub(super) before: Interval,
    pub(super) now: Interval,
    pub(super) change: Change,
}

/// A bench beside an earlier one.
pub(super) struct Comparison {
    pub(super) figures: Vec<Compared>,
    other_machine: bool,
}

impl Comparison {
    /// # Errors
    /// If one of the reports has too few rounds.
    pub(super) fn of(before: &Report, now: &Report) -> Result<Self, CliError> {
        let too_few = before.rounds.len().min(now.rounds.len()) < FEWEST_ROUNDS;
        if too_few {
            return Err(few_rounds());
        }
        let compare = |metric: &Metric| {
            let of = |report: &Report| Interval::of(report.rounds.iter().filter_map(metric.of));
            let (before, now) = (of(before)?, of(now)?);
            let change = Change::of(before, now, metric.more_is_better);
            Some(Compared { name: metric.name, before, now, change })
        };
        let figures = METRICS.iter().filter_map(compare).collect();
        Ok(Self { figures, other_machine: before.machine != now.machine })
    }

    pub(super) fn is_worse(&self) -> bool {
        self.figures.iter().any(|figure| figure.change == Change::Worse)
    }

    /// The verdict in one sentence.
    pub(super) fn verdict(&self) -> String {
        let worse: Vec<_> =
            self.figures.iter().filter(|f| f.change == Change::Worse).map(|f| f.name).collect();
        let mut text = match worse.as_slice() {
            [] => "Not worse than before.".to_owned(),
            names => format!("Worse than before: {}.", names.join("; ")),
        };
        if self.other_machine {
            text.push_str(" The machines differ.");
        }
        text
    }

    /// The figures as a table, the first row its header.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let words =
            |i: Interval| format!("{} ({} to {})", number(i.median), number(i.low), number(i.high));
        let header = ["figure", "before", "now", "change"].map(str::to_owned).to_vec();
        let row = |f: &Compared| {
            vec![f.name.to_owned(), words(f.before), words(f.now), f.change.word().to_owned()]
        };
        std::iter::once(header).chain(self.figures.iter().map(row)).collect()
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}\n", table(&self.rows()), self.verdict())
    }
}

fn few_rounds() -> CliError {
    CliError::input(format!("a comparison needs {FEWEST_ROUNDS} rounds in both benches"))
        .help(format!("measure at least {FEWEST_ROUNDS} runs"))
}

impl Report {
    /// Refuses to compare this report with a bench of another kind.
    pub(super) fn must_match(&self, plan: &Plan, store: StoreKind) -> Result<(), CliError> {
        let Self { workload, items, rate, concurrency, nodes, .. } = self;
        let differs = [
            ("workload", *workload != plan.workload),
            ("store", self.store != store),
            ("items", *items != plan.items),
            ("rate", *rate != plan.rate),
            ("concurrency", *concurrency != plan.concurrency),
            ("nodes", *nodes != plan.nodes),
        ];
        if let Some((name, _)) = differs.iter().find(|(_, differs)| *differs) {
            let before = self.title();
            return Err(CliError::input(format!(
                "the earlier bench can't be compared: its {name} differs"
            ))
            .help(format!("it measured {before}")));
        }
        if self.rounds.len() < FEWEST_ROUNDS || plan.has_few_rounds() {
            return Err(few_rounds());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_out_as_many_values_as_it_may() {
        // From tables of the sign test: at 95 in 100, with 6, 9, 12 and 25 values.
        let found = [5, 6, 8, 9, 10, 12, 25].map(|count| (count, outside(count)));
        assert_eq!(found, [(5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (25, 7)]);
        assert!(outside(1_001).abs_diff(outside(1_000)) <= 1);
        let values = [7.0, 1.0, 9.0, 3.0, 5.0, 2.0, 8.0, 4.0, 6.0, 10.0];
        let wanted = Interval { low: 2.0, median: 5.5, high: 9.0 };
        assert_eq!(Interval::of(values.into_iter()), Some(wanted));
        assert_eq!(Interval::of([].into_iter()), None);
    }

    #[test]
    fn only_intervals_that_do_not_touch_differ() {
        let around =
            |median: f64, wide: f64| Interval { low: median - wide, median, high: median + wide };
        let change = |now: Interval| Change::of(around(100.0, 5.0), now, true);
        assert_eq!(change(around(91.0, 5.0)), Change::Same);
        assert_eq!(change(around(89.0, 5.0)), Change::Worse);
        assert_eq!(change(around(111.0, 5.0)), Change::Better);
        let narrow = |now: f64| Change::of(around(100.0, 0.1), around(now, 0.1), false);
        assert_eq!(narrow(101.9), Change::Same);
        assert_eq!(narrow(102.1), Change::Worse);
        assert_eq!(narrow(97.9), Change::Better);
    }
}
