//! What a bench has measured, as JSON and as a table.

use retrial::store::postgres::ServerUse;
use retrial::time::Nanos;
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::round::Timed;
use super::watch::Counted;
use super::workload::Workload;
use super::{Plan, against};

/// The kind of store that a bench used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StoreKind {
    Memory,
    Redb,
    Postgres,
}

/// A report. Rates and figures for each run are medians of the rounds; percentiles are of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Of the program.
    pub(super) version: String,
    pub(super) workload: Workload,
    pub(super) store: StoreKind,
    pub(super) items: Option<u64>,
    /// Runs submitted a second; `None` where they were submitted before.
    pub(super) rate: Option<u64>,
    pub(super) concurrency: u64,
    pub(super) nodes: u64,
    pub(super) runs: u64,
    /// Of these runs.
    pub(super) failed_runs: u64,
    pub(super) tasks: u64,
    pub(super) attempts: u64,
    pub(super) runs_per_second: f64,
    pub(super) tasks_per_second: f64,
    pub(super) submit_per_second: f64,
    pub(super) due_to_start_ms: Percentiles,
    pub(super) start_to_end_ms: Percentiles,
    /// Where the store has a server.
    pub(super) transactions_per_run: Option<f64>,
    pub(super) wal_bytes_per_run: Option<f64>,
    /// The most memory that this process has had, where the system says it.
    pub(super) rss_bytes: Option<u64>,
    /// Of this process, in all rounds.
    pub(super) cpu_seconds: f64,
    pub(super) machine: Machine,
    pub(super) rounds: Vec<Round>,
    #[serde(skip)]
    due_to_start: Vec<Nanos>,
    #[serde(skip)]
    start_to_end: Vec<Nanos>,
}

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) runs: u64,
    pub(super) tasks: u64,
    pub(super) attempts: u64,
    pub(super) submit_seconds: f64,
    pub(super) work_seconds: f64,
    pub(super) due_to_start_ms: Percentiles,
    pub(super) start_to_end_ms: Percentiles,
    pub(super) transactions: Option<u64>,
    pub(super) wal_bytes: Option<u64>,
    pub(super) cpu_seconds: f64,
}

/// Lengths of time that a half, nine tenths and so on do not exceed, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Percentiles {
    /// Of these lengths, which it sorts; zeros of none.
    fn of(lengths: &mut [Nanos]) -> Self {
        lengths.sort_unstable();
        let at = |share: f64| {
            let rank = (lengths.len() as f64 * share).ceil() as usize;
            let length = lengths.get(rank.max(1) - 1).copied().unwrap_or_default();
            length.get() as f64 / 1e6
        };
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }

    /// With their names.
    pub(super) fn named(&self) -> [(&'static str, f64); 5] {
        let Self { p50, p90, p99, p999, max } = *self;
        [("50 %", p50), ("90 %", p90), ("99 %", p99), ("99.9 %", p999), ("max", max)]
    }
}

impl Round {
    /// `used` is what the server said after the round and before it.
    pub(super) fn of(timed: &mut Timed, cpu: Nanos, used: Option<(ServerUse, ServerUse)>) -> Self {
        let Timed { submitting, working, counted } = timed;
        let transactions = |(after, before): &(ServerUse, ServerUse)| {
            after.transactions.saturating_sub(before.transactions)
        };
        let wal = |(after, before): &(ServerUse, ServerUse)| {
            after.wal_bytes.saturating_sub(before.wal_bytes)
        };
        Self {
            runs: counted.completed + counted.failed,
            tasks: counted.tasks,
            attempts: counted.due_to_start.len() as u64,
            submit_seconds: seconds(*submitting),
            work_seconds: seconds(*working),
            due_to_start_ms: Percentiles::of(&mut counted.due_to_start),
            start_to_end_ms: Percentiles::of(&mut counted.start_to_end),
            transactions: used.as_ref().map(transactions),
            wal_bytes: used.as_ref().map(wal),
            cpu_seconds: seconds(cpu),
        }
    }

    /// `n` for each run.
    pub(super) fn each(&self, n: impl Into<f64>) -> f64 {
        n.into() / self.runs.max(1) as f64
    }

    pub(super) fn runs_per_second(&self) -> f64 {
        rate(self.runs, self.work_seconds)
    }

    pub(super) fn submit_per_second(&self) -> f64 {
        rate(self.runs, self.submit_seconds)
    }

    pub(super) fn transactions_per_run(&self) -> Option<f64> {
        self.transactions.map(|n| self.each(n as f64))
    }

    pub(super) fn wal_bytes_per_run(&self) -> Option<f64> {
        self.wal_bytes.map(|n| self.each(n as f64))
    }
}

fn seconds(length: Nanos) -> f64 {
    length.get() as f64 / 1e9
}

fn rate(n: u64, seconds: f64) -> f64 {
    // A length of zero has no rate that JSON could hold.
    n as f64 / seconds.max(1e-9)
}

impl Report {
    pub(super) fn new(plan: &Plan, store: StoreKind, machine: Machine) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workload: plan.workload,
            store,
            items: plan.items,
            rate: plan.rate,
            concurrency: plan.concurrency,
            nodes: plan.nodes,
            runs: 0,
            failed_runs: 0,
            tasks: 0,
            attempts: 0,
            runs_per_second: 0.0,
            tasks_per_second: 0.0,
            submit_per_second: 0.0,
            due_to_start_ms: Percentiles::default(),
            start_to_end_ms: Percentiles::default(),
            transactions_per_run: None,
            wal_bytes_per_run: None,
            rss_bytes: None,
            cpu_seconds: 0.0,
            machine,
            rounds: Vec::new(),
            due_to_start: Vec::new(),
            start_to_end: Vec::new(),
        }
    }

    /// Takes in a round.
    pub(super) fn add(&mut self, round: Round, counted: Counted) {
        self.runs += round.runs;
        self.failed_runs += counted.failed;
        self.tasks += round.tasks;
        self.attempts += round.attempts;
        self.cpu_seconds += round.cpu_seconds;
        self.due_to_start.extend(counted.due_to_start);
        self.start_to_end.extend(counted.start_to_end);
        self.rounds.push(round);
    }

    /// Computes what is said of all rounds together.
    pub(super) fn finish(&mut self, rss_bytes: Option<u64>) {
        let median = |of: &dyn Fn(&Round) -> Option<f64>| {
            against::Interval::of(self.rounds.iter().filter_map(of)).map(|found| found.median)
        };
        let runs_per_second = median(&|round| Some(round.runs_per_second()));
        let tasks_per_second = median(&|round| Some(rate(round.tasks, round.work_seconds)));
        let submit_per_second = median(&|round| Some(round.submit_per_second()));
        self.transactions_per_run = median(&Round::transactions_per_run);
        self.wal_bytes_per_run = median(&Round::wal_bytes_per_run);
        self.runs_per_second = runs_per_second.unwrap_or_default();
        self.tasks_per_second = tasks_per_second.unwrap_or_default();
        self.submit_per_second = submit_per_second.unwrap_or_default();
        self.due_to_start_ms = Percentiles::of(&mut self.due_to_start);
        self.start_to_end_ms = Percentiles::of(&mut self.start_to_end);
        self.rss_bytes = rss_bytes;
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What was measured, in words.
    pub(super) fn title(&self) -> String {
        let store = match self.store {
            StoreKind::Memory => "in memory",
            StoreKind::Redb => "on a file",
            StoreKind::Postgres => "on PostgreSQL",
        };
        let items = match (self.workload, self.items) {
            (Workload::FanOut, Some(n)) => format!(" of {n} items"),
            (Workload::Pending, Some(n)) => format!(" beside {n}"),
            _ => String::new(),
        };
        let nodes =
            if self.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", self.nodes) };
        let rate =
            self.rate.map_or("submitted before".to_owned(), |n| format!("{n} submitted a second"));
        let name = self.workload.name();
        format!("{name}{items} {store}, {nodes}, {} at once, {rate}", self.concurrency)
    }

    /// The figures as a table of names and values.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let rows = [
            ("workload", self.title()),
            ("machine", self.machine.words()),
            ("runs", format!("{} in {} rounds", self.runs, self.rounds.len())),
            ("runs that failed", self.failed_runs.to_string()),
            ("tasks", self.tasks.to_string()),
            ("attempts", self.attempts.to_string()),
            ("runs a second", self.with_interval(self.runs_per_second, &Round::runs_per_second)),
            ("tasks a second", number(self.tasks_per_second)),
            (
                "submitted a second",
                self.with_interval(self.submit_per_second, &Round::submit_per_second),
            ),
            ("due to start, ms", words(&self.due_to_start_ms)),
            ("start to end, ms", words(&self.start_to_end_ms)),
            ("transactions a run", self.transactions_per_run.map_or("-".into(), number)),
            ("bytes of WAL a run", self.wal_bytes_per_run.map_or("-".into(), number)),
            ("most memory, MB", self.rss_bytes.map_or("-".into(), |n| number(n as f64 / 1e6))),
            ("processor time, s", number(self.cpu_seconds)),
        ];
        rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec()
    }

    fn with_interval(&self, median: f64, of: &dyn Fn(&Round) -> f64) -> String {
        match against::Interval::of(self.rounds.iter().map(of)) {
            Some(found) => {
                format!("{} ({} to {})", number(median), number(found.low), number(found.high))
            }
            None => number(median),
        }
    }
}

fn words(percentiles: &Percentiles) -> String {
    let each = percentiles.named().map(|(name, value)| format!("{name}: {}", number(value)));
    each.join(", ")
}

/// A number in a few digits.
pub(super) fn number(n: f64) -> String {
    match n.abs() {
        size if size >= 100.0 => format!("{n:.0}"),
        size if size >= 10.0 => format!("{n:.1}"),
        size if size >= 1.0 => format!("{n:.2}"),
        _ => format!("{n:.3}"),
    }
}
