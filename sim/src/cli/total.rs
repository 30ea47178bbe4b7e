//! `retrial-sim total`: adds up the summaries of a sweep's parts.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use retrial_sim::unstable::report::SweepReport;

use super::output::print;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct Total {
    /// Summaries that `run --json` has written, in the order of their seeds.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Prints the sum, and what was met, the rarest first.
pub(crate) fn total(asked: &Total) -> Result<ExitCode, Box<dyn Error>> {
    let mut parts = Vec::new();
    for file in &asked.files {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let bytes = std::fs::read(file).map_err(|error| wrong(&error))?;
        parts.push(serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?);
    }
    let sum = SweepReport::total(parts);
    print(format_args!("{}\nthe rarest first\n", sum.words("retrial-sim repro", None)))?;
    for (times, what) in sum.rarest() {
        print(format_args!("  {times:>12} {what}\n"))?;
    }
    Ok(ExitCode::from(sum.exit_code(false)))
}
