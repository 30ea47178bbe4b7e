//! `retrial-lab search`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use retrial_lab::model::MOST_SEEDS;
use retrial_lab::page;
use retrial_lab::search;

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
    /// Write what was found to this file as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what was found to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How many threads; it changes no figure
    #[arg(long)]
    jobs: Option<usize>,
}

/// Tries all; 0 whatever is found.
pub(super) fn run(asked: &Asked) -> Result<ExitCode, CliError> {
    let scenario = super::scenario(&asked.file)?;
    let (name, text) = super::text_of(&asked.within)?;
    let bounds = search::bounds(&name, &text).map_err(|found| vec![found])?;
    let found = search::search(&scenario, &bounds, asked.seeds, super::jobs(asked.jobs));
    if let Some(file) = &asked.html {
        super::write(file, &page::search(&found))?;
    }
    if let Some(file) = &asked.json {
        super::write(file, &(serde_json::to_string_pretty(&found).unwrap_or_default() + "\n"))?;
    }
    // A closed stdout is not an error.
    let _ = std::io::stdout().write_all(found.text().as_bytes());
    Ok(ExitCode::SUCCESS)
}
