//! Whether a system recovers: from one run, and from many seeds.
//!
//! Decides what is bad, and which of the four verdicts the seeds give. Must never know how a verdict
//! is shown, nor what could change it. Seeds run on several threads; the result does not depend on how
//! many.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use retrial_core::time::Nanos;
use serde::Serialize;

use crate::measure::{Bucket, Measured};
use crate::model::Scenario;
use crate::world;

/// What the seeds say about a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In every seed it is good again at the end.
    Recovers,
    /// It recovers in some seeds.
    Vulnerable,
    /// In no seed: the triggers are gone, and the bad state stays.
    Metastable,
    /// It is bad in most seeds even if nothing goes wrong.
    Overloaded,
}

impl Verdict {
    /// The verdict's name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Recovers => "recovers",
            Self::Vulnerable => "vulnerable",
            Self::Metastable => "metastable",
            Self::Overloaded => "overloaded",
        }
    }

    /// What it means, in a sentence.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Recovers => "In every seed the system is good again at the end.",
            Self::Vulnerable => "In some seeds the system recovers, in others the bad state stays.",
            Self::Metastable => "The trigger is gone, and the bad state stays.",
            Self::Overloaded => "The system is bad even if nothing goes wrong.",
        }
    }
}

/// The verdict and what it rests on.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The seeds that ran.
    pub seeds: u32,
    /// Those at whose end the system was good.
    pub recovered: u32,
    /// Those in which it was good without triggers.
    pub good_without: u32,
    /// The share of seeds that recover: an interval that holds it with 95 %, by Wilson (1927).
    pub interval: (f64, f64),
    /// Each seed.
    pub runs: Vec<Judged>,
    /// The length of a bucket.
    pub width: Nanos,
    /// By time, all seeds joined.
    pub buckets: Vec<Bucket>,
    /// All buckets after the warm-up, all seeds joined.
    pub total: Bucket,
}

/// One seed.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The seed.
    pub seed: u64,
    /// Whether it was good at the end.
    pub good: bool,
    /// Whether it was good without triggers.
    pub good_without: bool,
    /// The share of tasks that succeeded in the judged window.
    pub success: f64,
    /// The share of tasks that succeeded in all.
    pub success_in_all: f64,
    /// How long after the last trigger it took until it stayed good; none where it never did.
    pub drained_after: Option<Nanos>,
    /// The events that were handled.
    pub events: u64,
    /// Tasks that had begun and not ended.
    pub left: u64,
    /// Whether the run was cut off.
    pub cut_off: bool,
}

/// Runs `scenario` with these many seeds on these many threads, and judges it.
#[must_use]
pub fn judge(scenario: &Scenario, seeds: u32, jobs: usize) -> Judgement {
    let all: Vec<u64> = (0..u64::from(seeds)).map(|n| scenario.seed.wrapping_add(n)).collect();
    let (mut runs, mut joined): (_, Option<Measured>) = (Vec::new(), None);
    // A few at a time, so that memory does not grow with the seeds.
    for some in all.chunks(2 * jobs.max(1)) {
        for (run, measured) in each(some, jobs, |seed| judged(scenario, *seed)) {
            runs.push(run);
            match &mut joined {
                None => joined = Some(measured),
                Some(joined) => {
                    joined.total.join(&measured.total);
                    let both = joined.buckets.iter_mut().zip(&measured.buckets);
                    both.for_each(|(own, its)| own.join(its));
                }
            }
        }
    }
    let count = |is: fn(&Judged) -> bool| runs.iter().filter(|run| is(run)).count() as u32;
    let (recovered, good_without) = (count(|r| r.good), count(|r| r.good_without));
    let verdict = verdict(recovered, good_without, seeds);
    let interval = wilson(recovered, seeds);
    let (width, buckets, total) = joined.map(|j| (j.width, j.buckets, j.total)).unwrap_or_default();
    Judgement { verdict, seeds, recovered, good_without, interval, runs, width, buckets, total }
}

fn verdict(recovered: u32, good_without: u32, seeds: u32) -> Verdict {
    match recovered {
        _ if 2 * good_without <= seeds => Verdict::Overloaded,
        all if all == seeds => Verdict::Recovers,
        0 => Verdict::Metastable,
        _ => Verdict::Vulnerable,
    }
}

/// `work` for each item, on these many threads; the results in the order of the items.
pub fn each<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((item, slot)) = items.get(at).zip(done.get(at)) else { break };
            let result = work(item);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(worker);
        }
        worker();
    });
    done.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

fn judged(scenario: &Scenario, seed: u64) -> (Judged, Measured) {
    let measured = world::run(scenario, seed);
    let good = is_good(scenario, &measured);
    let good_without = if scenario.triggers.is_empty() {
        good
    } else {
        is_good(scenario, &world::run(&scenario.without_triggers(), seed))
    };
    let run = Judged {
        seed,
        good,
        good_without,
        success: success(&window(scenario, &measured)),
        success_in_all: success(&measured.total),
        drained_after: drained_after(scenario, &measured).filter(|_| good),
        events: measured.events,
        left: measured.left,
        cut_off: measured.cut_off,
    };
    (run, measured)
}

/// The buckets of the judged window, added up.
fn window(scenario: &Scenario, measured: &Measured) -> Bucket {
    let many = (scenario.judge.window.get() / measured.width.get()).max(1) as usize;
    let from = measured.buckets.len().saturating_sub(many);
    sum(&measured.buckets[from..])
}

fn sum(buckets: &[Bucket]) -> Bucket {
    let mut buckets = buckets.iter();
    let mut sum = buckets.next().cloned().unwrap_or_default();
    buckets.for_each(|bucket| sum.add(bucket));
    sum
}

/// The share of the tasks that ended which succeeded in time; of none it is all.
fn success(bucket: &Bucket) -> f64 {
    let ended = bucket.good() + bucket.bad();
    if ended == 0 { 1.0 } else { bucket.good() as f64 / ended as f64 }
}

/// Whether the system is good at the end of a run: tasks succeed, as many end as begin, and they take
/// no longer than they may.
fn is_good(scenario: &Scenario, measured: &Measured) -> bool {
    let window = window(scenario, measured);
    !measured.cut_off && bucket_is_good(scenario, &window)
}

fn bucket_is_good(scenario: &Scenario, bucket: &Bucket) -> bool {
    let judge = &scenario.judge;
    let (offered, ended) = (bucket.offered(), bucket.good() + bucket.bad());
    // Both come by chance: three deviations of the difference of two Poisson streams.
    let least = offered as f64 - 3.0 * (2.0 * offered as f64).sqrt();
    let keeps_up =
        if offered == 0 { ended > 0 || bucket.in_progress == 0 } else { ended as f64 >= least };
    let soon = |limit| bucket.latency().percentile(0.99) <= limit;
    success(bucket) >= judge.success && keeps_up && judge.latency.is_none_or(soon)
}

/// How long after the last trigger the system needed until each later stretch was good. Stretches are
/// a few buckets long, so that chance does not make one bad.
fn drained_after(scenario: &Scenario, measured: &Measured) -> Option<Nanos> {
    let end = scenario.last_trigger_end()?;
    let first = (end.get() / measured.width.get()) as usize;
    let after = measured.buckets.get(first..)?;
    let stretch = (after.len() / 20).clamp(1, 6);
    let bad = after.chunks(stretch).rposition(|part| !bucket_is_good(scenario, &sum(part)));
    let buckets = bad.map_or(0, |at| (at + 1) * stretch) as u64;
    let until = measured.width.saturating_mul(first as u64 + buckets);
    Some(until.saturating_sub(end))
}

/// Wilson's score interval with 95 %.
fn wilson(hits: u32, of: u32) -> (f64, f64) {
    let (n, z) = (f64::from(of.max(1)), 1.96);
    let p = f64::from(hits) / n;
    let (middle, scale) = (p + z * z / (2.0 * n), 1.0 + z * z / n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from Brown, Cai and DasGupta, Statistical Science 16 (2001), and by hand.
    #[test]
    fn intervals_are_wilsons() {
        let near = |found: (f64, f64), wanted: (f64, f64)| {
            let off = (found.0 - wanted.0).abs().max((found.1 - wanted.1).abs());
            assert!(off < 0.001, "{found:?}, not {wanted:?}");
        };
        near(wilson(10, 10), (0.722, 1.0));
        near(wilson(0, 10), (0.0, 0.278));
        near(wilson(5, 10), (0.237, 0.763));
    }

    #[test]
    fn seeds_give_one_of_four_verdicts() {
        assert_eq!(verdict(10, 10, 10), Verdict::Recovers);
        assert_eq!(verdict(9, 10, 10), Verdict::Vulnerable);
        assert_eq!(verdict(1, 6, 10), Verdict::Vulnerable);
        assert_eq!(verdict(0, 6, 10), Verdict::Metastable);
        assert_eq!(verdict(0, 5, 10), Verdict::Overloaded);
        assert_eq!(verdict(1, 1, 1), Verdict::Recovers);
    }

    #[test]
    fn results_come_in_the_order_of_their_items_on_any_number_of_threads() {
        let items: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = items.iter().map(|n| n * n).collect();
        for jobs in [0, 1, 3, 200] {
            assert_eq!(each(&items, jobs, |n| n * n), squares);
        }
        assert!(each(&[], 4, |n: &u64| *n).is_empty());
    }
}
