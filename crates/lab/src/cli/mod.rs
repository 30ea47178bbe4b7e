//! The command line `retrial-lab`.
//!
//! Decides which scenario is run and where reports go. Must never decide a verdict. To add a command,
//! add it to [`Command`] and its function.

mod error;
mod map;
mod run;
mod search;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use retrial_core::policy::Policy;
use retrial_lab::read;
use serde::Serialize;

use error::CliError;

/// See what a retry policy does to a system, before an outage does.
#[derive(Debug, Parser)]
#[command(name = "retrial-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and judge whether it recovers: ends with 0 if it does, 1 if not, 2 on bad input
    Run(run::Asked),
    /// Draw load against trigger, with the region that recovers and the highest safe load
    Map(map::Asked),
    /// Look for a better policy within bounds, and show the front of success against load
    Search(search::Asked),
}

/// Runs the command line.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Run(asked) => run::run(&asked),
        Command::Map(asked) => map::run(&asked),
        Command::Search(asked) => search::run(&asked),
    };
    done.unwrap_or_else(|error| {
        error.show();
        ExitCode::from(2)
    })
}

/// The threads to use unless asked otherwise.
fn jobs(asked: Option<usize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(cores).clamp(1, 256)
}

/// The scenario of a lab file.
fn scenario(file: &Path) -> Result<retrial_lab::model::Scenario, CliError> {
    let (name, text) = text_of(file)?;
    Ok(read::scenario(&name, &text, &read::folder(&name))?)
}

/// The name and the text of a file.
fn text_of(file: &Path) -> Result<(String, String), CliError> {
    let name = file.display().to_string();
    let text = read::read_text(file).map_err(|why| {
        CliError::plain(format!("{name} can't be read: {why}"), "name a text file that is there")
    })?;
    Ok((name, text))
}

/// The policy of a text, or of the file that it names.
fn policy(text: &str, step: Option<&str>) -> Result<Policy, CliError> {
    let file = Path::new(text);
    if file.is_file() {
        let (name, text) = text_of(file)?;
        return Ok(read::policy(&name, &text, step)?);
    }
    Ok(read::policy("--policy", text, step)?)
}

/// Where what was found goes beside the terminal, and how it is worked out.
#[derive(Debug, Args)]
struct Output {
    /// Write the result to this file as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the result to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How many threads; it changes no figure
    #[arg(long)]
    jobs: Option<usize>,
}

impl Output {
    /// Writes the files and prints the text; 0 whatever it shows.
    fn show(
        &self,
        result: &impl Serialize,
        text: &str,
        page: impl FnOnce() -> String,
    ) -> Result<ExitCode, CliError> {
        if let Some(file) = &self.html {
            write(file, &page())?;
        }
        if let Some(file) = &self.json {
            write(file, &json(result))?;
        }
        print(text);
        Ok(ExitCode::SUCCESS)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn print(text: &str) {
    // A closed stdout is not an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Writes a report to a file.
fn write(file: &PathBuf, text: &str) -> Result<(), CliError> {
    std::fs::write(file, text).map_err(|why| {
        let message = format!("{} can't be written: {why}", file.display());
        CliError::plain(message, "name a file in a folder that is there")
    })
}
