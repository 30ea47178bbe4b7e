//! The commands on one run: `retrial pause`, `resume`, `fail`, `release`, `cancel`, `deactivate`,
//! `activate`, `archive`. They share one file because each sends one command and prints its answer.

use std::process::ExitCode;

use retrial::run::RunId;
use serde_json::{Value, json};

use super::Lookup;
use super::error::CliError;
use super::filters::{RunFilters, so_many};
use super::output::{clean, print};
use super::target::{self, Target, TargetArgs};

/// Pause a run: no retry starts until `retrial resume`.
///
/// Attempts in progress finish, and first attempts still start. Total timeouts keep counting.
#[derive(Debug, clap::Args)]
pub(super) struct Pause {
    #[command(flatten)]
    run: RunArgs,

    /// The reason, stored with the run
    #[arg(long, value_name = "TEXT", default_value = "paused by hand")]
    reason: String,
}

/// Resume a paused run: retries that are due start now, the others wait for the rest of their delay.
#[derive(Debug, clap::Args)]
pub(super) struct Resume {
    /// The run's id, or a unique prefix of it
    #[arg(required_unless_present = "all")]
    run: Option<String>,

    /// Resume every paused run that matches the filters
    #[arg(long, conflicts_with = "run")]
    all: bool,

    /// With --all, only say how many there are
    #[arg(long, requires = "all")]
    count: bool,

    #[command(flatten)]
    which: RunFilters,

    #[command(flatten)]
    target: TargetArgs,
}

/// Fail the waiting tasks of a step now. The failures are routed like any final failure.
#[derive(Debug, clap::Args)]
pub(super) struct Fail {
    #[command(flatten)]
    run: RunArgs,

    /// The step
    #[arg(long, value_name = "ID")]
    step: String,

    /// Only this item of a fanned-out step, from 0 [default: every waiting item]
    #[arg(long, value_name = "N")]
    item: Option<u32>,

    /// The reason, stored with the run
    #[arg(long, value_name = "TEXT", default_value = "failed by hand")]
    reason: String,
}

/// Release tasks from quarantine: their next attempts start.
///
/// A task is held in quarantine when several of its attempts in a row lost their node: what it does
/// may be what ends the nodes.
#[derive(Debug, clap::Args)]
pub(super) struct Release {
    #[command(flatten)]
    run: RunArgs,

    /// Only this step [default: every step]
    #[arg(long, value_name = "ID")]
    step: Option<String>,

    /// Only this item of a fanned-out step, from 0 [default: every held item]
    #[arg(long, value_name = "N", requires = "step")]
    item: Option<u32>,

    /// The reason, stored with the run
    #[arg(long, value_name = "TEXT", default_value = "released by hand")]
    reason: String,
}

/// Cancel a run.
#[derive(Debug, clap::Args)]
pub(super) struct Cancel {
    #[command(flatten)]
    run: RunArgs,

    /// The reason, stored with the run
    #[arg(long, value_name = "TEXT", default_value = "cancelled by hand")]
    reason: String,
}

/// Deactivate a run: no node recovers or claims it until `retrial activate`.
#[derive(Debug, clap::Args)]
pub(super) struct Deactivate {
    #[command(flatten)]
    run: RunArgs,
}

/// Activate a deactivated run, even an archived one.
#[derive(Debug, clap::Args)]
pub(super) struct Activate {
    #[command(flatten)]
    run: RunArgs,
}

/// Archive a run that has ended or is deactivated. It stays readable.
#[derive(Debug, clap::Args)]
pub(super) struct Archive {
    #[command(flatten)]
    run: RunArgs,
}

/// Which run.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The run's id, or a unique prefix of it
    run: String,

    #[command(flatten)]
    target: TargetArgs,
}

impl RunArgs {
    /// Sends the command `what` for the run and prints its answer.
    fn command(
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

/// Who executes the run from now on. No process executes the runs of a file that this one opened.
fn who_executes(target: &Target, run: RunId) -> String {
    match target.file {
        Some(_) => {
            let option = target.option();
            format!("No process executes it now; `retrial run --resume {run} {option}` does.")
        }
        None => "The nodes of its store execute it.".to_owned(),
    }
}

impl Pause {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.run.command(lookup, "pause", because(&self.reason), |target, run, _| {
            let option = target.option();
            format!("Run {run}: retries are paused until `retrial resume {run} {option}`.")
        })
    }
}

impl Resume {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        target::at(&self.target, lookup, async |target: &Target| {
            let runs = match &self.run {
                Some(named) => vec![target.run(named).await?],
                None => self.all(target).await?,
            };
            for run in runs {
                target.command(run, "resume", None).await?;
                let executes = who_executes(target, run);
                print(&format!("Run {run}: retries resume. {executes}\n"))?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    /// The paused runs that match; says how many there are.
    async fn all(&self, target: &Target) -> Result<Vec<RunId>, CliError> {
        let (runs, _) = target.runs(self.which.query(Some("paused".to_owned()))).await?;
        print(&so_many(runs.len(), "paused run", "paused runs"))?;
        let ids = runs.iter().filter_map(|run| run["run"].as_str()?.parse().ok());
        Ok(ids.filter(|_| !self.count).collect())
    }
}

impl Fail {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        let Self { step, item, reason, .. } = self;
        let body = json!({ "step": step, "item": item, "reason": reason });
        self.run.command(lookup, "fail", Some(body), |target, run, stands| {
            let failed = format!("Run {run}: the waiting tasks of {} failed", clean(step));
            match stands["phase"].as_str() {
                Some("completed" | "failed" | "cancelled") => {
                    format!("{failed}, and so did the run.")
                }
                _ => format!("{failed}. {}", who_executes(target, run)),
            }
        })
    }
}

impl Release {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        let Self { step, item, reason, .. } = self;
        let body = json!({ "step": step, "item": item, "reason": reason });
        self.run.command(lookup, "release", Some(body), |target, run, _| {
            format!("Run {run}: released from quarantine. {}", who_executes(target, run))
        })
    }
}

impl Cancel {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        let say = |_: &Target, run, _: &Value| format!("Run {run} is cancelled.");
        self.run.command(lookup, "cancel", because(&self.reason), say)
    }
}

impl Deactivate {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.run.command(lookup, "deactivate", None, |target, run, _| {
            let option = target.option();
            format!("Run {run} is deactivated until `retrial activate {run} {option}`.")
        })
    }
}

impl Activate {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.run.command(lookup, "activate", None, |target, run, _| {
            format!("Run {run} is active. {}", who_executes(target, run))
        })
    }
}

impl Archive {
    pub(super) fn main(&self, lookup: Lookup) -> Result<ExitCode, CliError> {
        self.run.command(lookup, "archive", None, |_, run, _| format!("Run {run} is archived."))
    }
}
