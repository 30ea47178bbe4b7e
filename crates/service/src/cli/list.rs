//! `retrial list`: the runs of a store or a service.

use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::Lookup;
use super::error::CliError;
use super::filters::RunFilters;
use super::output::{field, print, print_json, table, text};
use super::target::{self, Target, TargetArgs};

/// List runs, oldest first.
///
/// Reports runs with damaged records on stderr and lists the others.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: TargetArgs,

    /// Only runs in this phase
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,

    #[command(flatten)]
    which: RunFilters,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PhaseName {
    Running,
    Paused,
    Completed,
    Failed,
    Cancelled,
    Deactivated,
}

impl PhaseName {
    fn name(self) -> Option<String> {
        self.to_possible_value().map(|value| value.get_name().to_owned())
    }
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    target::at(&arguments.target, lookup, async |target: &Target| {
        let query = arguments.which.query(arguments.phase.and_then(PhaseName::name));
        let (runs, damaged) = target.runs(query).await?;
        for run in &damaged {
            CliError::store(format!("run {run} in the store is damaged")).show();
        }
        if arguments.json {
            return print_json(&json!({ "runs": runs, "damaged": damaged }));
        }
        if runs.is_empty() {
            return print(&format!("No runs.{}\n", arguments.which.hint()));
        }
        let names = ["RUN", "WORKFLOW", "PHASE", "CREATED", "LETTERS", "ERROR", "KEY"]
            .map(str::to_owned)
            .to_vec();
        let rows: Vec<_> = std::iter::once(names).chain(runs.iter().map(row)).collect();
        print(&table(&rows))
    })
}

fn row(run: &Value) -> Vec<String> {
    let archived = if run["archived"].is_null() { "" } else { " (archived)" };
    vec![
        field(run, "run"),
        field(run, "workflow"),
        format!("{}{archived}", field(run, "phase")),
        field(run, "created"),
        run["letters"].as_u64().filter(|n| *n > 0).map_or("-".to_owned(), |n| n.to_string()),
        text(run, "code").unwrap_or_else(|| "-".to_owned()),
        text(run, "key").unwrap_or_else(|| "-".to_owned()),
    ]
}
