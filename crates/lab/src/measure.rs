//! What is measured of a run: totals and a series of buckets, in space that does not grow with time.
//!
//! Decides what is counted where. Must never know what is good or bad. To measure one more thing, add
//! a field to a part of [`Bucket`] and the method that counts it.

use retrial_core::time::Nanos;

use crate::histogram::Histogram;
use crate::model::Scenario;

/// The most buckets of a run.
pub const BUCKETS: u64 = 240;

/// What happened in one stretch of time, or in all.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    /// By class.
    pub classes: Vec<ClassCount>,
    /// By edge.
    pub edges: Vec<EdgeCount>,
    /// By service.
    pub services: Vec<ServiceCount>,
    /// The tasks that had begun and not ended when it ended.
    pub in_progress: u64,
}

/// What became of the tasks of a class.
#[derive(Clone, Debug, Default)]
pub struct ClassCount {
    /// Tasks that clients wanted to begin.
    pub offered: u64,
    /// Tasks that succeeded in time.
    pub good: u64,
    /// Tasks that succeeded, but later than the deadline.
    pub late: u64,
    /// Tasks that failed for good.
    pub failed: u64,
    /// Of those, the ones kept as dead letters.
    pub dead_letters: u64,
    /// Tasks that failed and were begun anew.
    pub begun_anew: u64,
    /// Tasks for which there was no room.
    pub shed: u64,
    /// From the intended start to the success.
    pub latency: Histogram,
}

/// What callers did.
#[derive(Clone, Debug, Default)]
pub struct EdgeCount {
    /// Calls that began.
    pub calls: u64,
    /// Attempts that started.
    pub attempts: u64,
    /// Attempts that ran out of time.
    pub timeouts: u64,
    /// Retries that a budget denied.
    pub denied: u64,
    /// Attempts that a guard held back.
    pub held: u64,
    /// The most attempts of one call that ended.
    pub most_attempts: u64,
    /// Breakers that were open at the end.
    pub open: u64,
    /// Calls that guards held back at the end.
    pub waiting: u64,
    /// What the budgets held at the end, in tokens.
    pub tokens: Option<f64>,
}

/// What a service did.
#[derive(Clone, Debug, Default)]
pub struct ServiceCount {
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that succeeded while their callers waited.
    pub served: u64,
    /// Requests that failed after work.
    pub errors: u64,
    /// Writes of an outdated version.
    pub conflicts: u64,
    /// Requests that were turned away, or waited too long.
    pub rejected: u64,
    /// Requests over the rate limit.
    pub throttled: u64,
    /// Requests worked on whose callers had gone.
    pub wasted: u64,
    /// Requests dropped without work, because their callers had gone.
    pub skipped: u64,
    /// Requests that a worker began.
    pub begun: u64,
    /// What these waited together, in nanoseconds.
    pub waited: f64,
    /// The queue over time, in requests times nanoseconds.
    pub queue: f64,
    /// The busy workers over time, in workers times nanoseconds.
    pub busy: f64,
    /// The longest queue.
    pub longest: u64,
}

/// Counts while a run goes on.
#[derive(Debug)]
pub struct Measure {
    width: Nanos,
    warm_buckets: usize,
    current: Bucket,
    done: Vec<Bucket>,
    empty: Bucket,
    /// Whether the run took too many events.
    pub cut_off: bool,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The length of a bucket.
    pub width: Nanos,
    /// The buckets that belong to the warm-up.
    pub warm_buckets: usize,
    /// By time, the warm-up included.
    pub buckets: Vec<Bucket>,
    /// All buckets after the warm-up.
    pub total: Bucket,
    /// The events that were handled.
    pub events: u64,
    /// Tasks that had begun and not ended.
    pub left: u64,
    /// Whether the run was cut off.
    pub cut_off: bool,
}

impl Measure {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let width = Nanos::new(scenario.length.get().div_ceil(BUCKETS).max(1));
        let empty = Bucket {
            classes: vec![ClassCount::default(); scenario.classes.len()],
            edges: vec![EdgeCount::default(); scenario.edges.len()],
            services: vec![ServiceCount::default(); scenario.services.len()],
            in_progress: 0,
        };
        let warm_buckets = scenario.warmup.get().div_ceil(width.get()) as usize;
        let (current, done) = (empty.clone(), Vec::new());
        Self { width, warm_buckets, current, done, empty, cut_off: false }
    }

    /// The length of a bucket.
    #[must_use]
    pub fn width(&self) -> Nanos {
        self.width
    }

    pub(crate) fn offered(&mut self, class: usize) {
        self.current.classes[class].offered += 1;
    }

    pub(crate) fn shed(&mut self, class: usize) {
        self.current.classes[class].shed += 1;
    }

    pub(crate) fn begun_anew(&mut self, class: usize) {
        self.current.classes[class].begun_anew += 1;
    }

    pub(crate) fn succeeded(&mut self, class: usize, took: Nanos, in_time: bool) {
        let count = &mut self.current.classes[class];
        count.good += u64::from(in_time);
        count.late += u64::from(!in_time);
        count.latency.add(took);
    }

    pub(crate) fn failed(&mut self, class: usize, dead_letter: bool) {
        let count = &mut self.current.classes[class];
        count.failed += 1;
        count.dead_letters += u64::from(dead_letter);
    }

    pub(crate) fn attempt(&mut self, edge: usize, number: u32) {
        let count = &mut self.current.edges[edge];
        count.attempts += 1;
        count.calls += u64::from(number == 1);
    }

    pub(crate) fn attempts_of_call(&mut self, edge: usize, attempts: u32) {
        let count = &mut self.current.edges[edge];
        count.most_attempts = count.most_attempts.max(attempts.into());
    }

    pub(crate) fn timeout(&mut self, edge: usize) {
        self.current.edges[edge].timeouts += 1;
    }

    pub(crate) fn denied(&mut self, edge: usize) {
        self.current.edges[edge].denied += 1;
    }

    pub(crate) fn held(&mut self, edge: usize) {
        self.current.edges[edge].held += 1;
    }

    pub(crate) fn gates(&mut self, edge: usize, open: u64, waiting: u64, tokens: Option<f64>) {
        let count = &mut self.current.edges[edge];
        (count.open, count.waiting, count.tokens) = (open, waiting, tokens);
    }

    pub(crate) fn arrived(&mut self, service: usize) {
        self.current.services[service].arrived += 1;
    }

    pub(crate) fn throttled(&mut self, service: usize) {
        self.current.services[service].throttled += 1;
    }

    pub(crate) fn rejected(&mut self, service: usize) {
        self.current.services[service].rejected += 1;
    }

    pub(crate) fn skipped(&mut self, service: usize) {
        self.current.services[service].skipped += 1;
    }

    pub(crate) fn errors(&mut self, service: usize) {
        self.current.services[service].errors += 1;
    }

    pub(crate) fn conflict(&mut self, service: usize) {
        self.current.services[service].conflicts += 1;
    }

    pub(crate) fn served(&mut self, service: usize, gone: bool, well: bool) {
        let count = &mut self.current.services[service];
        count.wasted += u64::from(gone);
        count.served += u64::from(!gone && well);
    }

    pub(crate) fn waits(&mut self, service: usize, queued: u32) {
        let count = &mut self.current.services[service];
        count.longest = count.longest.max(queued.into());
    }

    pub(crate) fn waited(&mut self, service: usize, wait: Nanos) {
        let count = &mut self.current.services[service];
        count.begun += 1;
        count.waited += wait.get() as f64;
    }

    pub(crate) fn stood(&mut self, service: usize, passed: f64, queued: u32, busy: u32) {
        let count = &mut self.current.services[service];
        count.queue += passed * f64::from(queued);
        count.busy += passed * f64::from(busy);
    }

    pub(crate) fn next_bucket(&mut self, in_progress: u64) {
        let mut done = std::mem::replace(&mut self.current, self.empty.clone());
        done.in_progress = in_progress;
        self.done.push(done);
    }

    pub(crate) fn finish(mut self, events: u64, left: u64) -> Measured {
        self.done.truncate(BUCKETS as usize);
        let mut total = self.empty.clone();
        self.done.iter().skip(self.warm_buckets).for_each(|bucket| total.add(bucket));
        Measured {
            width: self.width,
            warm_buckets: self.warm_buckets,
            buckets: self.done,
            total,
            events,
            left,
            cut_off: self.cut_off,
        }
    }
}

impl Bucket {
    /// Adds what another one counted; what is seen at the end of a bucket is that of the other one.
    pub fn add(&mut self, other: &Self) {
        for (own, its) in self.classes.iter_mut().zip(&other.classes) {
            own.offered += its.offered;
            own.good += its.good;
            own.late += its.late;
            own.failed += its.failed;
            own.dead_letters += its.dead_letters;
            own.begun_anew += its.begun_anew;
            own.shed += its.shed;
            own.latency.merge(&its.latency);
        }
        for (own, its) in self.edges.iter_mut().zip(&other.edges) {
            own.calls += its.calls;
            own.attempts += its.attempts;
            own.timeouts += its.timeouts;
            own.denied += its.denied;
            own.held += its.held;
            own.most_attempts = own.most_attempts.max(its.most_attempts);
            (own.open, own.waiting, own.tokens) = (its.open, its.waiting, its.tokens);
        }
        for (own, its) in self.services.iter_mut().zip(&other.services) {
            own.arrived += its.arrived;
            own.served += its.served;
            own.errors += its.errors;
            own.conflicts += its.conflicts;
            own.rejected += its.rejected;
            own.throttled += its.throttled;
            own.wasted += its.wasted;
            own.skipped += its.skipped;
            own.begun += its.begun;
            own.waited += its.waited;
            own.queue += its.queue;
            own.busy += its.busy;
            own.longest = own.longest.max(its.longest);
        }
        self.in_progress = other.in_progress;
    }

    /// Adds what the same bucket of another seed counted.
    pub fn join(&mut self, other: &Self) {
        let sums = |own: &EdgeCount, its: &EdgeCount| {
            let tokens = own.tokens.map(|n| n + its.tokens.unwrap_or(0.0));
            (own.open + its.open, own.waiting + its.waiting, tokens)
        };
        let both = self.edges.iter().zip(&other.edges);
        let ends: Vec<_> = both.map(|(own, its)| sums(own, its)).collect();
        let in_progress = self.in_progress + other.in_progress;
        self.add(other);
        self.in_progress = in_progress;
        for (edge, ends) in self.edges.iter_mut().zip(ends) {
            (edge.open, edge.waiting, edge.tokens) = ends;
        }
    }

    /// Tasks that clients wanted to begin.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.classes.iter().map(|c| c.offered).sum()
    }

    /// Tasks that succeeded in time.
    #[must_use]
    pub fn good(&self) -> u64 {
        self.classes.iter().map(|c| c.good).sum()
    }

    /// Tasks that ended without: too late, failed, or shed.
    #[must_use]
    pub fn bad(&self) -> u64 {
        self.classes.iter().map(|c| c.late + c.failed + c.shed).sum()
    }

    /// The latency of all classes.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        let mut all = Histogram::default();
        self.classes.iter().for_each(|c| all.merge(&c.latency));
        all
    }
}
