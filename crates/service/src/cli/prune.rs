//! `retrial prune`: removes old runs.

use std::process::ExitCode;

use retrial::dialect::parse_duration;
use retrial::time::Nanos;
use serde_json::json;

use super::Lookup;
use super::error::CliError;
use super::output::{list, print, print_json};
use super::target::{self, Target, TargetArgs};

/// Remove runs that ended long ago: their events, results, dead letters and submission keys.
///
/// Keeps runs with waiting dead letters unless --with-letters is given.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Remove runs that ended at least this long ago, such as 30d or 12h
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    older_than: Nanos,

    /// Only archived runs
    #[arg(long)]
    archived_only: bool,

    /// Include runs with waiting dead letters
    #[arg(long)]
    with_letters: bool,

    #[command(flatten)]
    target: TargetArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn length(text: &str) -> Result<Nanos, String> {
    parse_duration(text)
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let asked = json!({
        "older_than_ns": arguments.older_than.get(),
        "archived_only": arguments.archived_only,
        "with_letters": arguments.with_letters,
    });
    target::at(&arguments.target, lookup, async |target: &Target| {
        let pruned = target.post("/v1/prune", &asked).await??;
        if arguments.json {
            return print_json(&pruned);
        }
        let gone = list(&pruned, "pruned").len();
        let runs = if gone == 1 { "run" } else { "runs" };
        print(&format!("Pruned {gone} {runs}.\n"))
    })
}
