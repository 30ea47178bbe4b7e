//! The command line `retrial-sim`: sweeps seeds, replays one, shrinks failures and writes capsules.
//!
//! Decides what a command prints and with which code it ends. Must never decide what happens in a
//! world or what is judged. To add a command, write a module with its function and add a variant to
//! [`Command`].

mod blame;
mod capsules;
mod crash_points;
mod disk_states;
mod error;
mod explore;
mod junit;
mod output;
mod total;

use std::io::{self, BufRead, IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use output::print;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::explore::shown;
use retrial_sim::unstable::report::{SeedReport, SweepReport, Verdict};
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::sweep::{Shard, Sweep, cores};
use retrial_sim::unstable::verify::{self, Receipt};
use retrial_sim::unstable::workload::{Draw, TaskOrder};
use retrial_sim::unstable::world;

/// Runs the retrial engine in simulated worlds, one for each seed, and judges the results.
#[derive(Parser)]
#[command(name = "retrial-sim", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a sweep of seeds. Exit 0: all promises held. 1: wrong. 2: bad usage or input. 3: stuck. 4:
    /// panic. 5: nothing was tested.
    Run(Run),
    /// Replays a seed or a capsule and prints its history, verdict and fingerprint.
    Repro {
        /// The seed, or a capsule file.
        what: String,
        /// Simulate this workflow file instead of drawn workflows.
        #[arg(long)]
        scenario: Option<PathBuf>,
        /// Add further faults of this kind to the seed, such as `bit_rot`.
        #[arg(long, conflicts_with = "scenario")]
        more: Option<FaultKind>,
        /// Poll the tasks of each node in this order: `any`, `lasting` or `anew`.
        #[arg(long, conflicts_with_all = ["scenario", "more"])]
        order: Option<TaskOrder>,
    },
    /// Shrinks a failing seed or capsule and writes the result as a capsule, a test and an HTML page.
    /// Exit 0: written. 2: nothing fails, bad usage or input.
    Shrink(Shrink),
    /// Finds the entry of a history after which its failure is certain: runs worlds that are alike up to an
    /// entry, and counts how many of them fail for the same cause. Exit 0: found. 2: nothing fails, bad
    /// usage or input.
    Blame(blame::Blame),
    /// Looks for failures in scenarios that are bred: keeps those whose worlds show something new, changes
    /// them, and mixes them. Exit codes as of `run`.
    Explore(explore::Explore),
    /// Writes an HTML page of a seed or a capsule, failing or not: a timeline and the broken promises.
    /// Exit 0: written. 2: bad usage or input.
    Report(Report),
    /// Runs each seed twice: in its own process, and as one of many in a process with another folder
    /// and environment. Exit 0: the histories are equal. 1: they differ. 2: bad usage or input.
    Verify(Verify),
    /// Runs a seed or a capsule once for each moment at which a node may crash: before each poll of its
    /// tasks and in the middle of each disk call. Exit 0: all promises held. 1: wrong. 2: bad usage or
    /// input.
    CrashPoints(CrashPoints),
    /// Opens the store on every state in which a power failure may leave its disk, and judges it. Exit
    /// 0: all are right. 1: wrong. 2: bad usage.
    DiskStates(disk_states::DiskStates),
    /// Adds up the summaries that `run --json` wrote of the parts of a sweep, and lists what was met, the
    /// rarest first. Exit codes as of `run`; 2 also where a file can't be read.
    Total(total::Total),
    /// Reads seeds and scenarios from standard input and writes reports, as a sweep's worker.
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        scenario: Option<PathBuf>,
        #[arg(long)]
        histories: Option<PathBuf>,
        #[arg(long)]
        shows: bool,
    },
}

#[derive(Args)]
struct Run {
    /// `N` seeds from 0, a range `A..B`, or `N@TEXT`: N seeds from a number that is made of the text,
    /// such as a commit's digest, so that they are seeds which nobody has seen.
    #[arg(long, default_value = "256")]
    seeds: Seeds,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// Add further faults of this kind to each seed, such as `bit_rot`.
    #[arg(long, conflicts_with = "scenario")]
    more: Option<FaultKind>,
    /// Poll the tasks of each node in this order, whatever the seeds draw: `any`, `lasting` for
    /// priorities that last, `anew` for others at each poll.
    #[arg(long, conflicts_with_all = ["scenario", "more"])]
    order: Option<TaskOrder>,
    /// Worker processes; by default one for each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// Run only part K of N of the seeds; K starts at 1.
    #[arg(long)]
    shard: Option<Shard>,
    /// Also write the summary as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Shrink the first failure of each cause, and write a capsule, a test and an HTML page into this
    /// folder.
    #[arg(long)]
    capsules: Option<PathBuf>,
    /// Also write a JUnit XML report to this file, with a test case for each seed.
    #[arg(long)]
    junit: Option<PathBuf>,
    /// Real seconds after which a seed that has not ended counts as stuck.
    #[arg(long, default_value_t = 60)]
    watchdog: u64,
}

#[derive(Args)]
struct Verify {
    /// `N` seeds from 0, a range `A..B`, or `N@TEXT`: N seeds from a number that is made of the text.
    #[arg(long, default_value = "256")]
    seeds: Seeds,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// Worker processes; by default one for each core.
    #[arg(long)]
    jobs: Option<usize>,
}

#[derive(Args)]
struct Shrink {
    /// The seed, or a capsule file.
    what: String,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// The folder to write to.
    #[arg(long, default_value = ".")]
    into: PathBuf,
    /// The most scenarios to try.
    #[arg(long, default_value_t = capsules::TRIES)]
    tries: u64,
}

#[derive(Args)]
struct CrashPoints {
    /// Seeds, or capsule files.
    #[arg(default_values_t = [String::from("2"), String::from("5")])]
    what: Vec<String>,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// Worker processes; by default one for each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// Shrink the first failure of each cause, and write a capsule and a test into this folder.
    #[arg(long)]
    capsules: Option<PathBuf>,
}

#[derive(Args)]
struct Report {
    /// The seed, or a capsule file.
    what: String,
    /// Simulate this workflow file instead of drawn workflows.
    #[arg(long)]
    scenario: Option<PathBuf>,
    /// The folder to write to.
    #[arg(long, default_value = ".")]
    into: PathBuf,
}

#[derive(Clone, Debug)]
struct Seeds {
    range: Range<u64>,
    /// Whether a text says where the range begins.
    of_text: bool,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |t: &str| format!("`{t}` is no seed: use N, A..B or N@TEXT");
        let number = |t: &str| t.parse::<u64>().map_err(|_| wrong(t));
        let range = match (text.split_once('@'), text.split_once("..")) {
            (Some((count, of)), _) => {
                // Seeds of at most 12 digits can still be typed.
                let from = Draw::new(0, of).below(1_000_000_000_000);
                from..from.saturating_add(number(count)?)
            }
            (None, Some((from, to))) => number(from)?..number(to)?,
            (None, None) => 0..number(text)?,
        };
        match range.is_empty() {
            true => Err(format!("`{text}` holds no seeds")),
            false => Ok(Self { range, of_text: text.contains('@') }),
        }
    }
}

/// Below this many seeds a sweep need not have tested everything.
const FULL_SWEEP: u64 = 64;

/// Does what the arguments say.
pub(crate) fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(run) => sweep(&run),
        Command::Repro { what, scenario, more, order } => {
            repro(&what, scenario.as_deref(), more.map(Source::More).or(order.map(Source::InOrder)))
        }
        Command::Shrink(asked) => capsules::shrink(&asked),
        Command::Blame(asked) => blame::blame(&asked),
        Command::Explore(asked) => explore::explore(&asked),
        Command::Report(asked) => capsules::report(&asked),
        Command::Verify(asked) => verify(&asked),
        Command::CrashPoints(asked) => crash_points::crash(&asked),
        Command::DiskStates(asked) => disk_states::disk_states(&asked),
        Command::Total(asked) => total::total(&asked),
        Command::Worker { scenario, histories, shows } => {
            worker(scenario, histories.as_deref(), shows)
        }
    };
    done.unwrap_or_else(|error| {
        error::show(&*error);
        ExitCode::from(2)
    })
}

fn sweep(run: &Run) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let source = match (run.more, run.order) {
        (Some(kind), _) => Source::More(kind),
        (None, Some(order)) => Source::InOrder(order),
        (None, None) => Source::read(run.scenario.as_deref())?,
    };
    let range = run.seeds.range.clone();
    let mine = |seed: &u64| run.shard.is_none_or(|shard| shard.has(*seed));
    let seeds: Vec<u64> = range.filter(mine).collect();
    let (jobs, watchdog) = (run.jobs.unwrap_or_else(cores), run.watchdog.max(1));
    let sweep = Sweep::new(std::env::current_exe()?, jobs, Duration::from_secs(watchdog));
    let sweep = Sweep { seeds, scenario: run.scenario.clone(), ..sweep };
    let bar = progress(sweep.seeds.len() as u64);
    let simulated = AtomicU64::new(0);
    let seen = |report: &SeedReport| {
        let total = simulated.fetch_add(report.simulated.as_millis(), Ordering::Relaxed);
        let total = retrial::time::Nanos::from_millis(total + report.simulated.as_millis());
        bar.set_message(format!("{total} simulated"));
        bar.inc(1);
    };
    let reports = match source {
        // A worker draws what its seed alone says.
        Source::More(_) | Source::InOrder(_) => {
            let scenarios = sweep.seeds.iter().map(|seed| source.scenario(*seed)).collect();
            let ran = sweep.run_scenarios(scenarios, seen)?;
            ran.into_iter().map(|(_, report)| report).collect()
        }
        _ => sweep.run(seen)?,
    };
    bar.finish_and_clear();
    let count = reports.len() as u64;
    if let Some(file) = &run.junit {
        std::fs::write(file, junit::written(&reports, &source.repro_command())?)?;
    }
    let report = SweepReport::of(reports);
    if run.seeds.of_text {
        print(format_args!(
            "{:<22} {}..{}\n",
            "range", run.seeds.range.start, run.seeds.range.end
        ))?;
    }
    print(format_args!("{}", report.words(&source.repro_command(), source.features().as_ref())))?;
    let full = count >= FULL_SWEEP && run.shard.is_none() && !source.is_fault_free();
    for gap in report.untested() {
        print(format_args!("{}: {gap}\n", if full { "nothing tested" } else { "note" }))?;
    }
    if let Some(folder) = &run.capsules {
        capsules::of_sweep(&source, &sweep, &report, folder)?;
    }
    if let Some(file) = &run.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(ExitCode::from(report.exit_code(full)))
}

pub(crate) fn progress(seeds: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = "{bar:40} {pos}/{len} seeds, {per_sec}, {msg}, {eta} left";
    ProgressBar::new(seeds).with_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

fn repro(
    what: &str,
    scenario: Option<&Path>,
    source: Option<Source>,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (scenario, before) = match (source, what.parse()) {
        (Some(source), Ok(seed)) => (source.scenario(seed), None),
        _ => capsules::scenario_of(what, scenario)?,
    };
    let seed = scenario.seed;
    let (report, history) = world::run_scenario(scenario, true);
    print(format_args!("{}", history.words()))?;
    for breach in &report.breaches {
        print(format_args!("{} ({}): {}\n", breach.oracle, breach.reason, breach.text))?;
    }
    print(format_args!("seed {seed}: {}\n", report.verdict.words()))?;
    print(format_args!("fingerprint {}\n", report.fingerprint))?;
    if let Some(capsule) = before {
        print(format_args!("{}\n", capsules::compared(&capsule, &report)))?;
    }
    Ok(ExitCode::from(match report.verdict {
        Verdict::Held | Verdict::Unbounded => 0,
        Verdict::Wrong => 1,
        Verdict::Stuck => 3,
        Verdict::Panicked => 4,
    }))
}

fn verify(asked: &Verify) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let bar = progress(asked.seeds.range.end - asked.seeds.range.start);
    let receipt = Receipt::of(
        asked.seeds.range.clone(),
        asked.scenario.as_deref(),
        &std::env::current_exe()?,
        asked.jobs.unwrap_or_else(cores),
        |seeds| bar.inc(seeds),
    )?;
    bar.finish_and_clear();
    print(format_args!("{}", receipt.words()))?;
    Ok(ExitCode::from(u8::from(!receipt.differing.is_empty())))
}

fn worker(
    scenario: Option<PathBuf>,
    histories: Option<&Path>,
    shows: bool,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let source = Source::read(scenario.as_deref())?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let keep = histories.is_some() || shows;
        let (mut report, history) = match line.trim().parse() {
            Ok(seed) => world::run_seed(&source, seed, keep),
            Err(_) => world::run_scenario(serde_json::from_str(&line)?, keep),
        };
        if shows {
            report.shown = shown(&history, &report);
        }
        if let Some(folder) = histories {
            std::fs::write(verify::file(folder, report.seed), history.marked())?;
        }
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}
