//! `retrial dlq`: the tasks that failed for good (C18).

use std::path::PathBuf;
use std::process::ExitCode;

use retrial::engine::{CommandError, DeadLetter, SubmitError};
use retrial::observe::{letter_json, letter_lines};
use retrial::run::{LetterId, RunId};
use retrial::store::{LetterFilter, LetterHead, LetterStatus};
use serde_json::{Value, json};

use super::desk::{self, Desk, Place};
use super::report::Trouble;
use super::shown::clean;
use super::{Lookup, run};

/// List, show, redrive or discard dead letters: the tasks that failed for good.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the letters that wait, oldest first
    List {
        #[command(flatten)]
        which: Which,

        /// Also those that were redriven or discarded
        #[arg(long)]
        all: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one letter. Its payload is masked
    Show {
        /// The letter's name, or the beginning of it
        letter: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Try letters' tasks again, each once: a new run of that step alone
    Redrive {
        /// The letters' names, or the beginnings of them
        #[arg(required_unless_present = "all")]
        letters: Vec<String>,

        /// Every letter that waits and is meant by the filters
        #[arg(long, conflicts_with = "letters")]
        all: bool,

        #[command(flatten)]
        which: Which,

        /// Run them now, one after the other
        #[arg(long)]
        run: bool,
    },
    /// Put letters aside for good
    Discard {
        /// The letters' names, or the beginnings of them
        #[arg(required = true)]
        letters: Vec<String>,

        /// Why
        #[arg(long, value_name = "TEXT", default_value = "discarded by hand")]
        reason: String,
    },
}

/// Which letters are meant.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only letters of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,

    /// Only letters of this action
    #[arg(long, value_name = "NAME")]
    action: Option<String>,

    /// Only letters with this error code
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
}

impl Which {
    fn filter(&self, waiting: bool) -> LetterFilter {
        let (workflow, action) = (self.workflow.clone(), self.action.clone());
        LetterFilter { workflow, action, code: self.code.clone(), waiting }
    }
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, Trouble> {
    let place = &arguments.place;
    match &arguments.command {
        Command::List { which, all, json } => {
            let filter = which.filter(!all);
            desk::at(place, async |desk: &Desk| list(desk, &filter, *json).await)
        }
        Command::Show { letter, json } => {
            desk::at(place, async |desk: &Desk| show(desk, letter, *json).await)
        }
        Command::Redrive { letters, which, run: now, .. } => {
            let filter = which.filter(true);
            let (path, runs) =
                desk::at(place, async |desk: &Desk| redrive(desk, letters, &filter, *now).await)?;
            if *now { run_all(&path, &runs, lookup) } else { Ok(ExitCode::SUCCESS) }
        }
        Command::Discard { letters, reason } => {
            desk::at(place, async |desk: &Desk| discard(desk, letters, reason).await)
        }
    }
}

async fn list(desk: &Desk, filter: &LetterFilter, json: bool) -> Result<ExitCode, Trouble> {
    let (letters, damaged) = desk.letters(filter).await?;
    for id in &damaged {
        Trouble::store(format!("dead letter {id} in the store is damaged")).show();
    }
    if json {
        let letters: Vec<_> = letters.iter().map(head).collect();
        let damaged: Vec<_> = damaged.iter().map(ToString::to_string).collect();
        return desk::print_json(&json!({ "letters": letters, "damaged": damaged }));
    }
    if letters.is_empty() {
        return desk::print("No dead letters.\n");
    }
    let names = ["LETTER", "WORKFLOW", "ACTION", "CODE", "FAILED", "STATUS"];
    let names = names.map(str::to_owned).to_vec();
    let row = |head: &LetterHead| {
        vec![
            head.id.to_string(),
            clean(&head.workflow),
            clean(&head.action),
            clean(&head.code),
            head.at.to_string(),
            status(&head.status),
        ]
    };
    let rows: Vec<_> = std::iter::once(names).chain(letters.iter().map(row)).collect();
    desk::print(&desk::table(&rows))
}

fn status(status: &LetterStatus) -> String {
    match status {
        LetterStatus::Waiting => "waiting".to_owned(),
        LetterStatus::Redriven { run } => format!("redriven by {run}"),
        LetterStatus::Discarded { reason } => format!("discarded: {}", clean(reason)),
    }
}

fn head(head: &LetterHead) -> Value {
    let (status, run, why) = match &head.status {
        LetterStatus::Waiting => ("waiting", None, None),
        LetterStatus::Redriven { run } => ("redriven", Some(run.to_string()), None),
        LetterStatus::Discarded { reason } => ("discarded", None, Some(clean(reason))),
    };
    json!({
        "letter": head.id.to_string(),
        "workflow": clean(&head.workflow),
        "action": clean(&head.action),
        "code": clean(&head.code),
        "failed_at": head.at.to_string(),
        "status": status,
        "redriven_by": run,
        "discarded_because": why,
        "redrives": head.redrives.map(|id| id.to_string()),
    })
}

async fn show(desk: &Desk, text: &str, json: bool) -> Result<ExitCode, Trouble> {
    let id = desk.letter(text).await?;
    let DeadLetter { head: of, letter } =
        desk.engine().letter(id).await.map_err(|e| desk::refused(&e))?;
    if json {
        let mut shown = head(&of);
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, letter_json(&letter)) {
            shown.extend(more);
        }
        return desk::print_json(&shown);
    }
    let mut lines = vec![
        format!("Dead letter {id} of {}: {}", clean(&of.workflow), status(&of.status)),
        format!("Failed for good {}", of.at),
    ];
    lines.extend(of.redrives.map(|id| format!("Its run redrives letter {id}.")));
    lines.extend(letter_lines(&letter));
    desk::print(&(lines.join("\n") + "\n"))
}

/// Redrives every letter that can be, and gives the runs. A letter that can't be is said so, and
/// the others go on.
async fn redrive(
    desk: &Desk,
    named: &[String],
    filter: &LetterFilter,
    now: bool,
) -> Result<(PathBuf, Vec<RunId>), Trouble> {
    let mut letters = Vec::new();
    for text in named {
        letters.push(desk.letter(text).await?);
    }
    if named.is_empty() {
        let (waiting, _) = desk.letters(filter).await?;
        letters.extend(waiting.iter().map(|head| head.id));
    }
    let (mut runs, mut refused) = (Vec::new(), None);
    for letter in &letters {
        match desk.engine().redrive(*letter).await {
            Ok(redriven) => {
                desk::print(&said(desk, *letter, redriven.run, now))?;
                runs.push(redriven.run);
            }
            Err(error) => refused.replace(not_redriven(&error)).into_iter().for_each(|t| t.show()),
        }
    }
    match refused {
        Some(trouble) if runs.is_empty() => Err(trouble),
        Some(trouble) => {
            trouble.show();
            Ok((desk.path.clone(), runs))
        }
        None => {
            if letters.is_empty() {
                desk::print("No dead letters.\n")?;
            }
            Ok((desk.path.clone(), runs))
        }
    }
}

fn said(desk: &Desk, letter: LetterId, run: RunId, now: bool) -> String {
    let next = match now {
        true => String::new(),
        false => format!(" `retrial run --resume {run} {}` runs it.", desk.option()),
    };
    format!("Letter {letter} is redriven by run {run}.{next}\n")
}

fn not_redriven(error: &SubmitError) -> Trouble {
    match error {
        SubmitError::Broken(_) => Trouble::store(error.to_string()),
        SubmitError::AlreadyRedriven { run, .. } => Trouble::input(error.to_string())
            .help(format!("`retrial inspect {run}` shows what became of it")),
        _ => Trouble::input(error.to_string()),
    }
}

/// Runs one after the other, all of them even where one fails.
fn run_all(path: &std::path::Path, runs: &[RunId], lookup: Lookup) -> Result<ExitCode, Trouble> {
    let mut worst = ExitCode::SUCCESS;
    for id in runs {
        let code = run::resume(path, *id, lookup)?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    Ok(worst)
}

async fn discard(desk: &Desk, named: &[String], reason: &str) -> Result<ExitCode, Trouble> {
    for text in named {
        let id = desk.letter(text).await?;
        match desk.engine().discard(id, reason).await {
            Ok(()) => desk::print(&format!("Letter {id} is discarded.\n"))?,
            Err(error @ CommandError::AlreadyRedriven { .. }) => {
                return Err(Trouble::input(error.to_string()));
            }
            Err(error) => return Err(desk::refused(&error)),
        };
    }
    Ok(ExitCode::SUCCESS)
}
