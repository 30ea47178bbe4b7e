//! `retrial list`: the runs of a store.

use std::process::ExitCode;

use clap::ValueEnum;
use retrial::store::{RunHead, RunPhase};
use serde_json::json;

use super::desk::{self, Desk, Place};
use super::report::Trouble;
use super::shown::clean;

/// List the runs of a store, oldest first.
///
/// A run whose record is damaged is named on stderr, and the others are listed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,

    /// Only runs in this phase
    #[arg(long, value_enum)]
    phase: Option<PhaseName>,

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

impl From<PhaseName> for RunPhase {
    fn from(name: PhaseName) -> Self {
        match name {
            PhaseName::Running => Self::Running,
            PhaseName::Paused => Self::Paused,
            PhaseName::Completed => Self::Completed,
            PhaseName::Failed => Self::Failed,
            PhaseName::Cancelled => Self::Cancelled,
            PhaseName::Deactivated => Self::Deactivated,
        }
    }
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, Trouble> {
    desk::at(&arguments.place, async |desk: &Desk| {
        let (mut runs, damaged) = desk.runs().await?;
        let wanted = arguments.phase.map(RunPhase::from);
        runs.retain(|head| wanted.is_none_or(|phase| head.phase == phase));
        for run in &damaged {
            Trouble::store(format!("run {run} in the store is damaged")).show();
        }
        if arguments.json {
            let damaged: Vec<_> = damaged.iter().map(ToString::to_string).collect();
            let runs: Vec<_> = runs.iter().map(object).collect();
            return desk::print_json(&json!({ "runs": runs, "damaged": damaged }));
        }
        if runs.is_empty() {
            return desk::print("No runs.\n");
        }
        let names = ["RUN", "WORKFLOW", "PHASE", "CREATED", "LETTERS"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(names).chain(runs.iter().map(row)).collect();
        desk::print(&desk::table(&rows))
    })
}

fn row(head: &RunHead) -> Vec<String> {
    let archived = if head.archived.is_some() { " (archived)" } else { "" };
    vec![
        head.run.to_string(),
        clean(&head.workflow),
        format!("{}{archived}", desk::phase(head.phase)),
        head.created.to_string(),
        if head.letters == 0 { "-".to_owned() } else { head.letters.to_string() },
    ]
}

fn object(head: &RunHead) -> serde_json::Value {
    json!({
        "run": head.run.to_string(),
        "workflow": clean(&head.workflow),
        "phase": desk::phase(head.phase),
        "version": head.version.0,
        "created": head.created.to_string(),
        "ended": head.ended.map(|at| at.to_string()),
        "archived": head.archived.map(|at| at.to_string()),
        "redrives": head.redrives.map(|id| id.to_string()),
        "letters": head.letters,
    })
}
