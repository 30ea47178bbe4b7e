//! `retrial-lab search`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use retrial_core::dialect::Diagnostics;
use retrial_lab::model::MOST_SEEDS;
use retrial_lab::page;
use retrial_lab::search;

use super::Output;
use super::error::CliError;

#[derive(Debug, Args)]
pub(super) struct Asked {
    /// The lab file
    file: PathBuf,
    /// A file with what may be tried: lists of attempts, backoff, jitter, timeout, retry_budget
    #[arg(long, value_name = "FILE")]
    within: PathBuf,
    /// How many seeds for each policy
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SEEDS)))]
    seeds: u32,
    #[command(flatten)]
    output: Output,
}

/// Tries all; 0 whatever is found.
pub(super) fn run(asked: &Asked) -> Result<ExitCode, CliError> {
    let scenario = super::scenario(&asked.file)?;
    let (name, text) = super::text_of(&asked.within)?;
    let bounds = search::bounds(&name, &text).map_err(Diagnostics::from)?;
    let found = search::search(&scenario, &bounds, asked.seeds, super::jobs(asked.output.jobs));
    asked.output.show(&found, &found.text(), || page::search(&found))
}
