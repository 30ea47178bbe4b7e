//! The command `retrial-releases`: seeds whose nodes run two releases.

use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use retrial_releases::{OLDER, THIS, run, scenario};
use retrial_sim::unstable::report::SweepReport;
use retrial_sim::unstable::sweep::{Sweep, cores};

/// Runs nodes of two releases in simulated worlds, one for each seed, and judges the results.
#[derive(Parser)]
#[command(name = "retrial-releases", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a sweep of seeds. Exit 0: all promises held. 1: they did not.
    Run {
        /// The first seed.
        from: u64,
        /// The seed after the last.
        to: u64,
    },
    /// Replays a seed and prints its history and verdict. Exit codes as of `run`.
    Repro {
        /// The seed.
        seed: u64,
    },
    /// Reads seeds from standard input and writes reports, as a sweep's worker.
    #[command(hide = true)]
    Worker,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    match Cli::parse().command {
        Command::Run { from, to } => sweep(from..to),
        Command::Repro { seed } => repro(seed),
        Command::Worker => worker(),
    }
}

fn sweep(seeds: Range<u64>) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let sweep = Sweep::new(std::env::current_exe()?, cores(), Duration::from_secs(60));
    let reports = Sweep { seeds: seeds.collect(), ..sweep }.run(|_| ())?;
    let report = SweepReport::of(reports);
    let [older, this] = [OLDER, THIS].map(|name| report.features.get(name).copied().unwrap_or(0));
    let mut out = io::stdout().lock();
    write!(out, "{}", report.words("retrial-releases repro", None))?;
    writeln!(out, "incarnations of nodes  {older} of the older release, {this} of this one")?;
    if older == 0 || this == 0 {
        writeln!(out, "nothing tested: one of them has not run")?;
        return Ok(ExitCode::from(5));
    }
    Ok(ExitCode::from(report.exit_code(false)))
}

fn repro(seed: u64) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (report, history) = run(scenario(seed), true);
    let mut out = io::stdout().lock();
    write!(out, "{}", history.words())?;
    for breach in &report.breaches {
        writeln!(out, "{} ({}): {}", breach.oracle, breach.reason, breach.text)?;
    }
    writeln!(out, "seed {seed}: {}", report.verdict.words())?;
    Ok(ExitCode::from(u8::from(report.verdict.is_failure())))
}

fn worker() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let (report, _) = run(scenario(line?.trim().parse()?), false);
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}
