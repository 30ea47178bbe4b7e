//! `retrial inspect`: one run.

use std::process::ExitCode;

use super::Lookup;
use super::error::CliError;
use super::output::{print, print_json};
use super::run_text;
use super::target::{self, Target, TargetArgs};

/// Show one run: the phase of each step, the last error, and every attempt with its failure and the
/// reason for its retry.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The run's id, or a unique prefix of it
    run: String,

    #[command(flatten)]
    target: TargetArgs,

    /// Also print the run's input and its tasks' results, as they are stored. A service notes it in
    /// its audit trail
    #[arg(long)]
    reveal: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    target::at(&arguments.target, lookup, async |target: &Target| {
        let run = target.run(&arguments.run).await?;
        let mut shown = target.get(&format!("/v1/runs/{run}")).await?;
        if arguments.reveal {
            let (input, results) = target.values(run).await?;
            (shown["input"], shown["results"]) = (input, results);
        }
        match arguments.json {
            true => print_json(&shown),
            false => print(&(run_text::run(&shown).join("\n") + "\n")),
        }
    })
}
