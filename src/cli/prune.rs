//! `retrial prune`: removes old runs (X9).

use std::process::ExitCode;

use retrial::dialect::parse_duration;
use retrial::engine::Retention;
use retrial::time::Nanos;
use serde_json::json;

use super::desk::{self, Desk, Place};
use super::report::Trouble;

/// Remove runs that ended long ago, whole: events, results, dead letters, submission key.
///
/// A run is kept while dead letters of it wait, unless --with-letters is given.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How long ago they must have ended, such as 30d or 12h
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    older_than: Nanos,

    /// Only archived runs
    #[arg(long)]
    archived_only: bool,

    /// Also runs whose dead letters wait for somebody
    #[arg(long)]
    with_letters: bool,

    #[command(flatten)]
    place: Place,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn length(text: &str) -> Result<Nanos, String> {
    parse_duration(text)
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, Trouble> {
    let retention = Retention {
        older_than: arguments.older_than,
        archived_only: arguments.archived_only,
        with_letters: arguments.with_letters,
    };
    desk::at(&arguments.place, async |desk: &Desk| {
        let gone = desk.engine().prune(retention).await.map_err(|e| desk::refused(&e))?;
        if arguments.json {
            let gone: Vec<_> = gone.iter().map(ToString::to_string).collect();
            return desk::print_json(&json!({ "pruned": gone }));
        }
        let runs = if gone.len() == 1 { "run" } else { "runs" };
        desk::print(&format!("Pruned {} {runs}.\n", gone.len()))
    })
}
