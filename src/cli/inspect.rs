//! `retrial inspect`: one run of a store.

use std::process::ExitCode;

use retrial::observe::Inspection;
use retrial::store::LetterFilter;
use serde_json::json;

use super::desk::{self, Desk, Place};
use super::report::Trouble;

/// Show one run: its graph with phases, its last error, and each task's attempts with what failed
/// and why it was tried again.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The run's id, or the beginning of it
    run: String,

    #[command(flatten)]
    place: Place,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, Trouble> {
    desk::at(&arguments.place, async |desk: &Desk| {
        let head = desk.run(&arguments.run).await?;
        let (state, events) = desk.history(head.run).await?;
        let (letters, _) = desk.letters(&LetterFilter::default()).await?;
        let letters = letters.iter().filter(|letter| letter.id.run == head.run);
        let letters: Vec<_> = letters.map(|letter| letter.id.to_string()).collect();
        let inspection = Inspection::new(&state, &events);
        if arguments.json {
            let mut shown = inspection.to_json();
            shown["created"] = head.created.to_string().into();
            shown["ended"] = json!(head.ended.map(|at| at.to_string()));
            shown["archived"] = json!(head.archived.map(|at| at.to_string()));
            shown["redrives"] = json!(head.redrives.map(|id| id.to_string()));
            shown["letters"] = json!(letters);
            return desk::print_json(&shown);
        }
        let mut lines = inspection.lines();
        let mut said = vec![format!("Created {}", head.created)];
        said.extend(head.ended.map(|at| format!("ended {at}")));
        said.extend(head.archived.map(|at| format!("archived {at}")));
        lines.insert(1, said.join(", "));
        lines.extend(head.redrives.map(|id| format!("It redrives letter {id}.")));
        if !letters.is_empty() {
            lines.push(format!("Dead letters: {}", letters.join(", ")));
        }
        desk::print(&(lines.join("\n") + "\n"))
    })
}
