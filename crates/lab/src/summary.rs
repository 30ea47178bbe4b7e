//! What the runs of all seeds say together, as plain data: for tables, pages and other programs.
//!
//! Decides which figures are shown. Must never know how. To show one more, add a field here and its
//! row in `terminal` and `page`.

use serde::Serialize;

use crate::judge::{Judged, Judgement, Verdict};
use crate::measure::Bucket;
use crate::model::Scenario;

/// A judged scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The verdict.
    pub verdict: Verdict,
    /// What it means.
    pub means: &'static str,
    /// The seeds, and how many of them recovered.
    pub seeds: u32,
    /// How many of them recovered.
    pub recovered: u32,
    /// How many were good without triggers.
    pub good_without_triggers: u32,
    /// The interval of the share that recovers.
    pub interval: (f64, f64),
    /// Over all seeds after the warm-up.
    pub total: Figures,
    /// By class.
    pub classes: Vec<ClassFigures>,
    /// By caller and callee.
    pub edges: Vec<EdgeFigures>,
    /// By service.
    pub services: Vec<ServiceFigures>,
    /// How long after the last trigger it was good again, in seconds; the mean of the seeds that were.
    pub drained_after: Option<f64>,
    /// The most requests in a second that came to a service after the last trigger.
    pub peak_after: f64,
    /// Tasks that had not ended at the end, a seed.
    pub left: f64,
    /// Whether a run was cut off because it took too many events.
    pub cut_off: bool,
    /// By time, the means over all seeds.
    pub series: Vec<Point>,
    /// Each seed.
    pub by_seed: Vec<SeedFigures>,
}

/// What became of tasks.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Tasks that began.
    pub offered: u64,
    /// Tasks that succeeded in time.
    pub good: u64,
    /// Tasks that succeeded too late.
    pub late: u64,
    /// Tasks that failed for good.
    pub failed: u64,
    /// Of those, the ones kept as dead letters.
    pub dead_letters: u64,
    /// Tasks that clients began anew.
    pub begun_anew: u64,
    /// Tasks for which there was no room.
    pub shed: u64,
    /// The share that succeeded of those that ended.
    pub success: f64,
    /// Tasks that succeeded, a second.
    pub goodput: f64,
    /// Requests of the first layer for each task.
    pub calls_per_task: f64,
    /// Latency in seconds: the mean, and by percentiles.
    pub latency: Latency,
}

/// Latency in seconds, from the intended start.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// What became of the tasks of one class.
#[derive(Clone, Debug, Serialize)]
pub struct ClassFigures {
    /// Its name.
    pub name: String,
    /// Tasks that began.
    pub offered: u64,
    /// The share that succeeded of those that ended.
    pub success: f64,
    /// The 99th percentile of latency, in seconds.
    pub p99: f64,
}

/// What one kind of callers did.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeFigures {
    /// Its name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Attempts.
    pub attempts: u64,
    /// Attempts for each call.
    pub amplification: f64,
    /// Attempts that ran out of time.
    pub timeouts: u64,
    /// Retries that a budget denied.
    pub denied: u64,
    /// Attempts that a guard held back.
    pub held: u64,
    /// The most attempts of one call.
    pub most_attempts: u64,
}

/// What one service did.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceFigures {
    /// Its name.
    pub name: String,
    /// Requests that came.
    pub arrived: u64,
    /// Requests for each task: the amplification of all layers above.
    pub amplification: f64,
    /// Requests that succeeded while their callers waited.
    pub served: u64,
    /// Requests that failed after work.
    pub errors: u64,
    /// Writes of an outdated version.
    pub conflicts: u64,
    /// Requests turned away.
    pub rejected: u64,
    /// Requests over the rate limit.
    pub throttled: u64,
    /// Requests worked on for nobody.
    pub wasted: u64,
    /// Requests dropped because their callers had gone.
    pub skipped: u64,
    /// The mean wait in the queue, in seconds.
    pub wait: f64,
    /// The mean queue.
    pub queue: f64,
    /// The longest queue.
    pub longest_queue: u64,
    /// The busy share of the workers.
    pub busy: f64,
}

/// One stretch of time.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Its begin, in seconds.
    pub at: f64,
    /// Tasks that began, a second.
    pub offered: f64,
    /// Tasks that succeeded in time, a second.
    pub good: f64,
    /// Tasks that did not, a second.
    pub bad: f64,
    /// First attempts and retries of the first layer, a second.
    pub attempts: f64,
    /// Retries of the first layer, a second.
    pub retries: f64,
    /// Retries that budgets denied, a second.
    pub denied: f64,
    /// Dead letters, a second.
    pub dead_letters: f64,
    /// The median latency in seconds of what succeeded.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// Attempts for each call that began, by caller and callee; zero where none began.
    pub amplification: Vec<f64>,
    /// Requests that came to each service, a second.
    pub load: Vec<f64>,
    /// The mean queue of each service.
    pub queue: Vec<f64>,
    /// Requests worked on for nobody, a second, in all services.
    pub wasted: f64,
    /// Breakers that were open.
    pub open: f64,
    /// Calls that guards held back.
    pub waiting: f64,
    /// What the budgets held, where there are any.
    pub tokens: Option<f64>,
}

/// One seed in short.
#[derive(Clone, Debug, Serialize)]
pub struct SeedFigures {
    /// The seed.
    pub seed: u64,
    /// Whether it was good at the end.
    pub good: bool,
    /// The share that succeeded in the judged window.
    pub success: f64,
    /// The share that succeeded in all.
    pub success_in_all: f64,
    /// Events.
    pub events: u64,
}

impl Summary {
    /// The summary of a judgement.
    #[must_use]
    pub fn of(scenario: &Scenario, judgement: &Judgement) -> Self {
        let runs = &judgement.runs;
        let total = &judgement.total;
        let seeds = runs.len().max(1) as f64;
        // Whole buckets belong to the warm-up.
        let width = judgement.width.get().max(1);
        let warm = scenario.warmup.get().div_ceil(width) * width;
        let seconds = scenario.length.get().saturating_sub(warm) as f64 / 1e9 * seeds;
        let drained = runs.iter().filter_map(|r| r.drained_after).map(|n| n.get() as f64 / 1e9);
        let drained: Vec<f64> = drained.collect();
        let series = series(scenario, judgement);
        let end = scenario.last_trigger_end().map_or(0.0, |end| end.get() as f64 / 1e9);
        let after = series.iter().filter(|p| p.at >= end).flat_map(|p| p.load.iter().copied());
        Self {
            verdict: judgement.verdict,
            means: judgement.verdict.sentence(),
            seeds: judgement.seeds,
            recovered: judgement.recovered,
            good_without_triggers: judgement.good_without,
            interval: judgement.interval,
            total: figures(scenario, total, seconds),
            classes: classes(scenario, total),
            edges: edges(scenario, total),
            services: services(scenario, total, seconds),
            drained_after: (!drained.is_empty())
                .then(|| drained.iter().sum::<f64>() / drained.len() as f64),
            peak_after: after.fold(0.0, f64::max),
            left: runs.iter().map(|r| r.left as f64).sum::<f64>() / seeds,
            cut_off: runs.iter().any(|r| r.cut_off),
            series,
            by_seed: runs.iter().map(seed_figures).collect(),
        }
    }
}

/// `a` for each of `b`; zero of none.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn seed_figures(run: &Judged) -> SeedFigures {
    SeedFigures {
        seed: run.seed,
        good: run.good,
        success: run.success,
        success_in_all: run.success_in_all,
        events: run.events,
    }
}

fn figures(scenario: &Scenario, total: &Bucket, seconds: f64) -> Figures {
    let count = |get: fn(&crate::measure::ClassCount) -> u64| total.classes.iter().map(get).sum();
    let first = total.edges.iter().take(scenario.classes.len());
    let attempts: u64 = first.clone().map(|e| e.attempts).sum();
    let calls: u64 = first.map(|e| e.calls).sum();
    let latency = total.latency();
    let at = |share| latency.percentile(share).get() as f64 / 1e9;
    Figures {
        offered: total.offered(),
        good: total.good(),
        late: count(|c| c.late),
        failed: count(|c| c.failed),
        dead_letters: count(|c| c.dead_letters),
        begun_anew: count(|c| c.begun_anew),
        shed: count(|c| c.shed),
        success: ratio(total.good() as f64, (total.good() + total.bad()) as f64),
        goodput: ratio(total.good() as f64, seconds),
        calls_per_task: ratio(attempts as f64, calls as f64),
        latency: Latency {
            mean: latency.mean().get() as f64 / 1e9,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: latency.most().get() as f64 / 1e9,
        },
    }
}

fn classes(scenario: &Scenario, total: &Bucket) -> Vec<ClassFigures> {
    let both = scenario.classes.iter().zip(&total.classes);
    both.map(|(class, count)| {
        let ended = count.good + count.late + count.failed + count.shed;
        ClassFigures {
            name: class.name.clone(),
            offered: count.offered,
            success: ratio(count.good as f64, ended as f64),
            p99: count.latency.percentile(0.99).get() as f64 / 1e9,
        }
    })
    .collect()
}

fn edges(scenario: &Scenario, total: &Bucket) -> Vec<EdgeFigures> {
    let both = scenario.edges.iter().zip(&total.edges);
    both.map(|(edge, count)| EdgeFigures {
        name: edge.name.clone(),
        calls: count.calls,
        attempts: count.attempts,
        amplification: ratio(count.attempts as f64, count.calls as f64),
        timeouts: count.timeouts,
        denied: count.denied,
        held: count.held,
        most_attempts: count.most_attempts,
    })
    .collect()
}

fn services(scenario: &Scenario, total: &Bucket, seconds: f64) -> Vec<ServiceFigures> {
    let both = scenario.services.iter().zip(&total.services);
    both.map(|(service, count)| ServiceFigures {
        name: service.name.clone(),
        arrived: count.arrived,
        amplification: ratio(count.arrived as f64, total.offered() as f64),
        served: count.served,
        errors: count.errors,
        conflicts: count.conflicts,
        rejected: count.rejected,
        throttled: count.throttled,
        wasted: count.wasted,
        skipped: count.skipped,
        wait: ratio(count.waited / 1e9, count.begun as f64),
        queue: ratio(count.queue / 1e9, seconds),
        longest_queue: count.longest,
        busy: ratio(count.busy / 1e9, seconds * f64::from(service.workers)),
    })
    .collect()
}

fn series(scenario: &Scenario, judgement: &Judgement) -> Vec<Point> {
    let seeds = judgement.runs.len().max(1) as f64;
    let width = judgement.width.get() as f64 / 1e9;
    let point = |(at, sum): (usize, &Bucket)| {
        let each = width * seeds;
        let rate = |n: u64| n as f64 / each;
        let own = sum.edges.iter().take(scenario.classes.len());
        let attempts: u64 = own.clone().map(|e| e.attempts).sum();
        let calls: u64 = own.clone().map(|e| e.calls).sum();
        let latency = sum.latency();
        let tokens = sum.edges.iter().filter_map(|e| e.tokens);
        Point {
            at: at as f64 * width,
            offered: rate(sum.offered()),
            good: rate(sum.good()),
            bad: rate(sum.bad()),
            attempts: rate(attempts),
            retries: rate(attempts.saturating_sub(calls)),
            denied: rate(own.map(|e| e.denied).sum()),
            dead_letters: rate(sum.classes.iter().map(|c| c.dead_letters).sum()),
            amplification: sum
                .edges
                .iter()
                .map(|e| ratio(e.attempts as f64, e.calls as f64))
                .collect(),
            p50: latency.percentile(0.5).get() as f64 / 1e9,
            p99: latency.percentile(0.99).get() as f64 / 1e9,
            load: sum.services.iter().map(|s| rate(s.arrived)).collect(),
            queue: sum.services.iter().map(|s| s.queue / 1e9 / each).collect(),
            wasted: rate(sum.services.iter().map(|s| s.wasted).sum()),
            open: sum.edges.iter().map(|e| e.open as f64).sum::<f64>() / seeds,
            waiting: sum.edges.iter().map(|e| e.waiting as f64).sum::<f64>() / seeds,
            tokens: (tokens.clone().count() > 0).then(|| tokens.sum::<f64>() / seeds),
        }
    };
    judgement.buckets.iter().enumerate().map(point).collect()
}
