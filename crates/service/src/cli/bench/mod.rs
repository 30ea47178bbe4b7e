//! `retrial bench`: how fast the engine works on a user's own machine and server.
//!
//! Decides what is measured and shown. Must never change how a node works: a bench uses the engine
//! as any program does. To add a workload, add it to `workload.rs`; to add a figure, add it to
//! `Round` in `report.rs`, and to `METRICS` in `against.rs` if it may be worse.

mod against;
mod machine;
mod page;
mod report;
mod round;
mod stage;
mod watch;
mod workload;

use std::io::{IsTerminal as _, Read as _, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use retrial::dialect::parse_duration;
use retrial::time::Nanos;

use self::against::Comparison;
use self::report::Report;
use self::stage::Stage;
use self::workload::Workload;
use super::error::CliError;
use super::output::{print, table};
use super::signals::Signals;
use super::target;

/// Measure how fast runs are submitted and worked off.
///
/// Without --rate, runs are submitted to a store that nobody works on, and then worked off. With
/// --rate, they are submitted at that rate while nodes work, and count as late from the time at which
/// they should have been submitted. Everything is written to a file or a schema of the bench's own,
/// which is removed at the end.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Arguments {
    /// A folder or a new file for the store, postgres://..., or `memory` [default: a file in the
    /// system's folder for temporary files]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,

    /// What the runs do
    #[arg(long, value_enum, default_value_t = Workload::Noop)]
    workload: Workload,

    /// How many runs in all [default: 10000, or fewer that fan out into 10000 tasks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    runs: Option<u64>,

    /// How long to go on instead, such as 30s
    #[arg(long = "for", value_name = "LENGTH", conflicts_with = "runs", value_parser = length)]
    length: Option<Nanos>,

    /// Items of each run that fans out [default: 100], or pending runs beside those measured
    /// [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    items: Option<u64>,

    /// Submit so many runs a second while nodes work
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rate: Option<u64>,

    /// The most attempts in progress on each node, and submissions without --rate
    #[arg(long, value_name = "N", default_value_t = 256,
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    concurrency: u64,

    /// How many nodes work, all in this process
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=64))]
    nodes: u64,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Compare with the JSON of an earlier bench
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
}

const AFTER: &str = "Exit codes: 0 measured, 1 worse than the bench of --against, 2 bad input, \
3 store unavailable, 130 Ctrl-C.";

/// How many rounds there are where the number of runs is given, if there are so many runs.
const ROUNDS: u64 = 10;
/// The tasks of a round where nothing is given.
const ROUND_TASKS: u64 = 1_000;
/// The most tasks of a bench: what is remembered of each must fit into memory.
const MOST_TASKS: u64 = 10_000_000;
/// The longest bench.
const LONGEST: Nanos = Nanos::from_secs(24 * 3_600);
/// The largest report that is read, in bytes.
const LARGEST_REPORT: u64 = 64 * 1_024 * 1_024;

fn length(text: &str) -> Result<Nanos, String> {
    match parse_duration(text)? {
        Nanos::ZERO => Err("a bench takes some time; write a length such as 30s".to_owned()),
        length if length > LONGEST => Err("a bench takes at most 24h".to_owned()),
        length => Ok(length),
    }
}

/// What is measured, and how often.
#[derive(Debug)]
struct Plan {
    workload: Workload,
    /// Items of a run, or pending runs; `None` where the workload has neither.
    items: Option<u64>,
    rate: Option<u64>,
    concurrency: u64,
    nodes: u64,
    rounds: Rounds,
}

/// How many runs each round has.
#[derive(Clone, Copy, Debug)]
enum Rounds {
    /// So many runs, in rounds of about the same size.
    Runs(u64),
    /// Rounds of so many runs until the time is over, and not more rounds than this.
    For { length: Nanos, runs: u64, most: u64 },
}

impl Plan {
    fn of(arguments: &Arguments) -> Result<Self, CliError> {
        let Arguments { workload, runs, length, items, rate, concurrency, nodes, .. } = arguments;
        let items = workload.items(*items)?;
        let tasks = match workload {
            Workload::FanOut => items.unwrap_or(1),
            _ => 1,
        };
        let round = (ROUND_TASKS / tasks).max(1);
        let rounds = match (length, rate) {
            (None, _) => Rounds::Runs(runs.unwrap_or(ROUNDS * round)),
            // As many rounds as usual.
            (Some(length), Some(rate)) => {
                let all = u128::from(length.get()) * u128::from(*rate) / 1_000_000_000;
                Rounds::Runs(u64::try_from(all).unwrap_or(u64::MAX).max(1))
            }
            (Some(length), None) => {
                let most = MOST_TASKS / (round * tasks);
                Rounds::For { length: *length, runs: round, most }
            }
        };
        if let Rounds::Runs(runs) = rounds
            && runs.saturating_mul(tasks) > MOST_TASKS
        {
            let all = runs.saturating_mul(tasks);
            return Err(CliError::input(format!(
                "the bench would have {all} tasks; at most {MOST_TASKS} can be measured"
            ))
            .help("choose fewer --runs or --items, a lower --rate or a shorter --for"));
        }
        let (workload, rate, concurrency, nodes) = (*workload, *rate, *concurrency, *nodes);
        Ok(Self { workload, items, rate, concurrency, nodes, rounds })
    }

    /// The runs of the round after `done` rounds, the first of which began `since` ago; none where the
    /// bench is over.
    fn next_round(&self, done: u64, since: Nanos) -> Option<u64> {
        match self.rounds {
            Rounds::Runs(runs) => {
                let rounds = runs.min(ROUNDS);
                let part = |n: u64| runs * n / rounds;
                (done < rounds).then(|| part(done + 1) - part(done))
            }
            Rounds::For { length, runs, most } => {
                let few = done < against::FEWEST_ROUNDS as u64;
                (few || since < length && done < most).then_some(runs)
            }
        }
    }

    fn has_few_rounds(&self) -> bool {
        matches!(self.rounds, Rounds::Runs(runs) if runs < against::FEWEST_ROUNDS as u64)
    }
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let plan = Plan::of(arguments)?;
    let stage = Stage::of(arguments.store.as_deref())?;
    let before = arguments.against.as_deref().map(read_report).transpose()?;
    if let Some(before) = &before {
        before.must_match(&plan, stage.kind())?;
    }
    let bar = progress(&plan);
    let measured = target::block_on(async {
        let mut signals = Signals::listen()
            .map_err(|e| CliError::store(format!("signal handlers can't be installed: {e}")))?;
        stage::measure(stage, &plan, &bar, &mut signals).await
    });
    bar.finish_and_clear();
    let report = match measured? {
        Ok(report) => report,
        Err(stop) => return Ok(stop.code()),
    };
    let compared = before.map(|before| Comparison::of(&before, &report)).transpose()?;
    write(arguments.json.as_deref(), || report.json())?;
    write(arguments.html.as_deref(), || page::html(&report, compared.as_ref()))?;
    print(&table(&report.rows()))?;
    let Some(compared) = compared else { return Ok(ExitCode::SUCCESS) };
    print(&format!("\n{}", compared.text()))?;
    Ok(if compared.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads the report of an earlier bench.
fn read_report(path: &Path) -> Result<Report, CliError> {
    let place = path.display();
    let mut text = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(LARGEST_REPORT + 1).read_to_end(&mut text));
    read.map_err(|e| CliError::input(format!("the report `{place}` can't be read: {e}")))?;
    if text.len() as u64 > LARGEST_REPORT {
        return Err(CliError::input(format!(
            "the report `{place}` is larger than {LARGEST_REPORT} bytes"
        )));
    }
    serde_json::from_slice(&text).map_err(|e| {
        CliError::input(format!("`{place}` is not the report of a bench: {e}"))
            .help("name a file that `retrial bench --json FILE` wrote")
    })
}

fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text())
        .map_err(|e| CliError::input(format!("`{}` can't be written: {e}", path.display())))
}

fn progress(plan: &Plan) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, style) = match plan.rounds {
        Rounds::Runs(runs) => {
            (ProgressBar::new(runs), "{bar:40} {pos}/{len} runs, {msg}{per_sec}, {eta} left")
        }
        Rounds::For { length, .. } => (
            ProgressBar::no_length().with_prefix(length.to_string()),
            "{spinner} {pos} runs, {msg}{per_sec}, {elapsed} of {prefix}",
        ),
    };
    bar.with_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}
