//! `retrial dlq`: the tasks that failed for good.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use retrial::failure::sanitise;
use retrial::run::{LetterId, RunId};
use serde_json::{Value, json};

use super::error::CliError;
use super::filters::{When, so_many, when};
use super::output::{field, json_line, print, print_json, table, text};
use super::query::Query;
use super::run_text::{counted, failure, last_error};
use super::target::{self, Refusal, Target, TargetArgs};
use super::{Lookup, run};

/// The most characters of a message in a table.
const SHOWN: usize = 60;

/// List, show, redrive or discard dead letters: the tasks that failed for good.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List waiting letters, oldest first
    List {
        #[command(flatten)]
        which: LetterFilters,

        /// Include redriven and discarded letters
        #[arg(long)]
        all: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one letter, with its payload masked
    Show {
        /// The letter's id, or a unique prefix of it
        letter: String,

        /// Print the payload as it is stored. A service notes it in its audit trail
        #[arg(long)]
        reveal: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Redrive letters: run each task again, once, in a new run of that step alone
    Redrive {
        #[command(flatten)]
        letters: Chosen,

        /// Run them now, one after the other
        #[arg(long)]
        run: bool,
    },
    /// Discard letters: they can't be redriven any more
    Discard {
        #[command(flatten)]
        letters: Chosen,

        /// The reason, stored with the letter
        #[arg(long, value_name = "TEXT", default_value = "discarded by hand")]
        reason: String,
    },
}

/// Letters by name, or all that a filter selects.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// The letters' ids, or unique prefixes of them
    #[arg(required_unless_present = "all")]
    letters: Vec<String>,

    /// Every waiting letter that matches the filters
    #[arg(long, conflicts_with = "letters")]
    all: bool,

    #[command(flatten)]
    which: LetterFilters,

    /// With --all, only say how many there are
    #[arg(long, requires = "all")]
    count: bool,
}

/// Selects letters.
#[derive(Debug, clap::Args)]
struct LetterFilters {
    /// Only letters of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,

    /// Only letters of this action
    #[arg(long, value_name = "NAME")]
    action: Option<String>,

    /// Only letters with this error code
    #[arg(long, value_name = "CODE")]
    code: Option<String>,

    /// Only letters of tasks that failed at this time or later: a length of time ago, such as 2h, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    since: Option<When>,

    /// Only letters of tasks that failed before this time, written as for --since
    #[arg(long, value_name = "TIME", value_parser = when)]
    until: Option<When>,
}

impl LetterFilters {
    fn query(&self, waiting: bool) -> Query {
        Query::new()
            .text("workflow", self.workflow.clone())
            .text("action", self.action.clone())
            .text("code", self.code.clone())
            .text("since", self.since.map(When::text))
            .text("until", self.until.map(When::text))
            .flag("waiting", waiting)
    }
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let at = &arguments.target;
    match &arguments.command {
        Command::List { which, all, json } => target::at(at, lookup, async |target: &Target| {
            list(target, which.query(!all), *json).await
        }),
        Command::Show { letter, reveal, json } => {
            target::at(at, lookup, async |target: &Target| {
                show(target, letter, *reveal, *json).await
            })
        }
        Command::Redrive { letters, run: now } => {
            let (file, runs) = target::at(at, lookup, async |target: &Target| {
                if *now && target.file.is_none() {
                    return Err(CliError::input(
                        "--run needs a store in a file; here the store's nodes run the redriven tasks",
                    )
                    .help("leave --run out"));
                }
                let letters = letters.ids(target).await?;
                redrive(target, &letters, *now).await
            })?;
            match file.filter(|_| *now) {
                Some(path) => run_all(&path, &runs, lookup),
                None => Ok(ExitCode::SUCCESS),
            }
        }
        Command::Discard { letters, reason } => target::at(at, lookup, async |target: &Target| {
            let letters = letters.ids(target).await?;
            discard(target, &letters, reason).await
        }),
    }
}

async fn list(target: &Target, query: Query, json: bool) -> Result<ExitCode, CliError> {
    let (letters, damaged) = target.letters(query).await?;
    for id in &damaged {
        CliError::store(format!("dead letter {id} in the store is damaged")).show();
    }
    if json {
        return print_json(&json!({ "letters": letters, "damaged": damaged }));
    }
    if letters.is_empty() {
        return print("No dead letters.\n");
    }
    let names = ["LETTER", "WORKFLOW", "ACTION", "CODE", "FAILED", "STATUS", "MESSAGE"];
    let names = names.map(str::to_owned).to_vec();
    let row = |letter: &Value| {
        let shown = ["letter", "workflow", "action", "code", "failed_at"];
        let mut cells = shown.map(|name| field(letter, name)).to_vec();
        cells.push(status(letter));
        cells.push(sanitise::message(&field(letter, "message"), SHOWN));
        cells
    };
    let rows: Vec<_> = std::iter::once(names).chain(letters.iter().map(row)).collect();
    print(&table(&rows))
}

fn status(letter: &Value) -> String {
    let status = field(letter, "status");
    let by = text(letter, "redriven_by").map(|run| format!("{status} by {run}"));
    let because = text(letter, "discarded_because").map(|why| format!("{status}: {why}"));
    by.or(because).unwrap_or(status)
}

async fn show(
    target: &Target,
    named: &str,
    reveal: bool,
    json: bool,
) -> Result<ExitCode, CliError> {
    let id = target.letter(named).await?;
    let path = format!("/v1/letters/{id}");
    let mut letter = target.get(&path).await?;
    if reveal && letter.get("payload").is_some() {
        letter["payload"] = target.get(&format!("{path}/payload")).await?["payload"].take();
    }
    match json {
        true => print_json(&letter),
        false => print(&(lines(&letter, reveal).join("\n") + "\n")),
    }
}

/// A dead letter as lines of text.
fn lines(letter: &Value, revealed: bool) -> Vec<String> {
    let name = |name: &str| field(letter, name);
    let (id, of, status) = (name("letter"), name("workflow"), status(letter));
    let mut lines = vec![
        format!("Dead letter {id} of {of}: {status}"),
        format!("Failed for good {}", name("failed_at")),
    ];
    lines.extend(text(letter, "redrives").map(|id| format!("Its run redrives letter {id}.")));
    let made = counted(&letter["attempts"], "attempt", "attempts");
    let (step, action, gave_up) = (name("step"), name("action"), name("gave_up"));
    lines.push(format!("Step {step}, action {action}: {made}; given up: {gave_up}"));
    lines.push(format!("Error: {}", last_error(&letter["error"])));
    for (what, error) in [("First", "first_error"), ("Last", "last_error")] {
        if letter[error].is_object() {
            lines.push(format!("{what} failure: {}", failure(&letter[error])));
        }
    }
    lines.push(match letter.get("payload") {
        Some(payload) if revealed => format!("Arguments: {}", json_line(payload)),
        Some(payload) => format!("Arguments (masked): {payload}"),
        None => "Its arguments were too large or too deeply nested to keep.".to_owned(),
    });
    lines
}

impl Chosen {
    /// The letters that are named, or else those that wait and match, which it counts. None of them
    /// where only their number is asked for.
    async fn ids(&self, target: &Target) -> Result<Vec<LetterId>, CliError> {
        let mut letters = Vec::new();
        for text in &self.letters {
            letters.push(target.letter(text).await?);
        }
        if self.all {
            let (waiting, _) = target.letters(self.which.query(true)).await?;
            print(&so_many(waiting.len(), "waiting letter", "waiting letters"))?;
            let ids = waiting.iter().filter_map(|l| l["letter"].as_str()?.parse::<LetterId>().ok());
            letters.extend(ids.filter(|_| !self.count));
        }
        Ok(letters)
    }
}

/// Redrives every letter that can be redriven and returns the runs with their store's file. Reports
/// the others on stderr.
async fn redrive(
    target: &Target,
    letters: &[LetterId],
    now: bool,
) -> Result<(Option<PathBuf>, Vec<RunId>), CliError> {
    let (mut runs, mut refused) = (Vec::new(), None);
    for letter in letters {
        match target.post(&format!("/v1/letters/{letter}/redrive"), &json!({})).await? {
            Ok(redriven) => {
                let run = field(&redriven, "run");
                print(&said(target, *letter, &run, now))?;
                runs.extend(run.parse::<RunId>());
            }
            Err(refusal) => {
                refused.replace(not_redriven(refusal)).into_iter().for_each(|t: CliError| t.show());
            }
        }
    }
    match refused {
        Some(trouble) if runs.is_empty() => return Err(trouble),
        Some(trouble) => trouble.show(),
        None => {}
    }
    Ok((target.file.clone(), runs))
}

fn said(target: &Target, letter: LetterId, run: &str, now: bool) -> String {
    let next = match target.file.is_none() || now {
        true => String::new(),
        false => format!(" `retrial run --resume {run} {}` runs it.", target.option()),
    };
    format!("Letter {letter} is redriven by run {run}.{next}\n")
}

fn not_redriven(refusal: Refusal) -> CliError {
    let first = refusal.run.clone();
    let trouble = CliError::from(refusal);
    match first {
        Some(run) => trouble.help(format!("`retrial inspect {run}` shows its state")),
        None => trouble,
    }
}

/// Executes the runs one after the other, even if one fails.
fn run_all(path: &Path, runs: &[RunId], lookup: Lookup) -> Result<ExitCode, CliError> {
    let mut worst = ExitCode::SUCCESS;
    for id in runs {
        let code = run::resume(path, *id, lookup)?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    Ok(worst)
}

async fn discard(
    target: &Target,
    letters: &[LetterId],
    reason: &str,
) -> Result<ExitCode, CliError> {
    for id in letters {
        let asked = json!({ "reason": reason });
        target.post(&format!("/v1/letters/{id}/discard"), &asked).await??;
        print(&format!("Letter {id} is discarded.\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
