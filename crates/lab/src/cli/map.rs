//! `retrial-lab map`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use retrial_lab::map::{self, values};
use retrial_lab::model::MOST_SEEDS;
use retrial_lab::page;

use super::Output;
use super::error::CliError;

#[derive(Debug, Args)]
pub(super) struct Asked {
    /// The lab file
    file: PathBuf,
    /// Multiples of the file's load and of its triggers' length: load=0.4..1.2/9,trigger=0..4/5
    #[arg(long, default_value = "load=0.2..1.2/11,trigger=0.5..4/8")]
    sweep: String,
    /// How many seeds for each cell
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SEEDS)))]
    seeds: u32,
    #[command(flatten)]
    output: Output,
}

/// Draws the map; 0 whatever it shows.
pub(super) fn run(asked: &Asked) -> Result<ExitCode, CliError> {
    let scenario = super::scenario(&asked.file)?;
    let (loads, triggers) = sweep(&asked.sweep)?;
    let map = map::map(&scenario, &loads, &triggers, asked.seeds, super::jobs(asked.output.jobs));
    asked.output.show(&map, &map.text(), || page::map(&map))
}

/// The loads and the triggers; what is not named stays as it is.
fn sweep(text: &str) -> Result<(Vec<f64>, Vec<f64>), CliError> {
    let (mut loads, mut triggers) = (vec![1.0], vec![1.0]);
    for part in text.split(',') {
        let refuse = |why: &str| {
            let help = "write load=0.4..1.2/9,trigger=0..4/5";
            let (message, help) = why.split_once("; ").unwrap_or((why, help));
            CliError::plain(format!("--sweep: {message}"), help)
        };
        let Some((name, range)) = part.split_once('=') else {
            return Err(refuse(&format!("`{part}` has no values")));
        };
        let found = values(range).map_err(|why| refuse(&why))?;
        match name.trim() {
            "load" if found.first().is_some_and(|n| *n > 0.0) => loads = found,
            "load" => return Err(refuse("a load of 0 shows nothing; begin above 0")),
            "trigger" => triggers = found,
            name => return Err(refuse(&format!("`{name}` can't be swept; use load and trigger"))),
        }
    }
    Ok((loads, triggers))
}
