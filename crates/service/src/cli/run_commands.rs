//! What people ask of one run: `retrial pause`, `resume`, `fail`, `cancel`, `deactivate`,
//! `activate`, `archive`. One file, as all say what they want of which run and nothing else.

use std::process::ExitCode;

use retrial::run::RunId;
use serde_json::{Value, json};

use super::Lookup;
use super::error::CliError;
use super::output::{clean, print};
use super::target::{self, Target, TargetArgs};

/// Pause a run's retries: none starts until `retrial resume`.
///
/// Attempts in progress may end and first attempts go on. Total timeouts go on counting.
#[derive(Debug, clap::Args)]
pub(super) struct Pause {
    #[command(flatten)]
    of: Of,

    /// Why, for whoever looks at the run
    #[arg(long, value_name = "TEXT", default_value = "paused by hand")]
    reason: String,
}

/// Let a paused run's retries go on: what was due starts now, what was not waits its rest.
#[derive(Debug, clap::Args)]
pub(super) struct Resume {
    #[command(flatten)]
    of: Of,
}

/// Fail the tasks of a step that wait, now. They are routed like any final failure.
#[derive(Debug, clap::Args)]
pub(super) struct Fail {
    #[command(flatten)]
    of: Of,

    /// The step
    #[arg(long, value_name = "ID")]
    step: String,

    /// The one item of a fanned-out step, from 0; all that wait unless given
    #[arg(long, value_name = "N")]
    item: Option<u32>,

    /// Why
    #[arg(long, value_name = "TEXT", default_value = "failed by hand")]
    reason: String,
}

/// Cancel a run.
#[derive(Debug, clap::Args)]
pub(super) struct Cancel {
    #[command(flatten)]
    of: Of,

    /// Why
    #[arg(long, value_name = "TEXT", default_value = "cancelled by hand")]
    reason: String,
}

/// Take a run out of recovery and claiming.
#[derive(Debug, clap::Args)]
pub(super) struct Deactivate {
    #[command(flatten)]
    of: Of,
}

/// Take a deactivated run back in, also out of the archive.
#[derive(Debug, clap::Args)]
pub(super) struct Activate {
    #[command(flatten)]
    of: Of,
}

/// Archive a run that has ended or is deactivated. It stays readable.
#[derive(Debug, clap::Args)]
pub(super) struct Archive {
    #[command(flatten)]
    of: Of,
}

/// Which run.
#[derive(Debug, clap::Args)]
struct Of {
    /// The run's id, or the beginning of it
    run: String,

    #[command(flatten)]
    target: TargetArgs,
}

impl Of {
    /// Asks `what` of the run, and says what was done.
    fn ask(
        &self,
        lookup: Lookup,
        what: &str,
        body: Option<Value>,
        say: impl FnOnce(&Target, RunId, &Value) -> String,
    ) -> Result<ExitCode, CliError> {
        target::at(&self.target, lookup, async |target: &Target| {
            let run = target.run(&self.run).await?;
            let stands = target.command(run, what, body).await?;
            print(&(say(target, run, &stands) + "\n"))
        })
    }
}

fn because(reason: &str) -> Option<Value> {
    Some(json!({ "reason": reason }))
}

/// How the run goes on. No process works on the runs of a file, or it would not have opened.
fn goes_on(target: &Target, run: RunId) -> String {
    match target.file {
        Some(_) => {
            let option = target.option();
            format!("Nothing works on it now: `retrial run --resume {run} {option}` does.")
        }
        None => "The nodes of its store work on it.".to_owned(),
    }
}

impl Pause {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.of.ask(lookup, "pause", because(&self.reason), |target, run, _| {
            let option = target.option();
            format!("Run {run}: retries are paused until `retrial resume {run} {option}`.")
        })
    }
}

impl Resume {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.of.ask(lookup, "resume", None, |target, run, _| {
            format!("Run {run}: retries go on. {}", goes_on(target, run))
        })
    }
}

impl Fail {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        let Self { step, item, reason, .. } = self;
        let body = json!({ "step": step, "item": item, "reason": reason });
        self.of.ask(lookup, "fail", Some(body), |target, run, stands| {
            let failed = format!("Run {run}: what waited of {} has failed", clean(step));
            match stands["phase"].as_str() {
                Some("completed" | "failed" | "cancelled") => {
                    format!("{failed}, and the run with it.")
                }
                _ => format!("{failed}. {}", goes_on(target, run)),
            }
        })
    }
}

impl Cancel {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        let say = |_: &Target, run, _: &Value| format!("Run {run} is cancelled.");
        self.of.ask(lookup, "cancel", because(&self.reason), say)
    }
}

impl Deactivate {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.of.ask(lookup, "deactivate", None, |target, run, _| {
            let option = target.option();
            format!("Run {run} is left alone until `retrial activate {run} {option}`.")
        })
    }
}

impl Activate {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.of.ask(lookup, "activate", None, |target, run, _| {
            format!("Run {run} is active. {}", goes_on(target, run))
        })
    }
}

impl Archive {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.of.ask(lookup, "archive", None, |_, run, _| format!("Run {run} is archived."))
    }
}
