//! What people ask of one run: `retrial pause`, `resume`, `fail`, `cancel`, `deactivate`,
//! `activate`, `archive`. One file, as all say what they want of which run and nothing else.

use std::process::ExitCode;

use retrial::run::RunId;
use retrial::store::RunHead;

use super::desk::{self, Desk, Place};
use super::report::Trouble;

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
    place: Place,
}

impl Of {
    /// Does `act` to the run, unless it has ended, and says what was done.
    fn unless_ended(
        &self,
        act: impl AsyncFnOnce(&Desk, RunId) -> Result<String, Trouble>,
    ) -> Result<ExitCode, Trouble> {
        self.any(async |desk: &Desk, head: RunHead| {
            if head.phase.is_terminal() {
                let (run, phase) = (head.run, desk::phase(head.phase));
                return Err(Trouble::input(format!("run {run} has ended ({phase})")));
            }
            act(desk, head.run).await
        })
    }

    fn any(
        &self,
        act: impl AsyncFnOnce(&Desk, RunHead) -> Result<String, Trouble>,
    ) -> Result<ExitCode, Trouble> {
        desk::at(&self.place, async |desk: &Desk| {
            let head = desk.run(&self.run).await?;
            let said = act(desk, head).await?;
            desk::print(&(said + "\n"))
        })
    }
}

/// How the run goes on: no process works on it, or the store would not have opened.
fn goes_on(desk: &Desk, run: RunId) -> String {
    format!("Nothing works on it now: `retrial run --resume {run} {}` does.", desk.option())
}

impl Pause {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.unless_ended(async |desk, run| {
            desk.engine().pause(run, &self.reason).await.map_err(|e| desk::refused(&e))?;
            let option = desk.option();
            Ok(format!("Run {run}: retries are paused until `retrial resume {run} {option}`."))
        })
    }
}

impl Resume {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.unless_ended(async |desk, run| {
            desk.engine().resume(run).await.map_err(|e| desk::refused(&e))?;
            Ok(format!("Run {run}: retries go on. {}", goes_on(desk, run)))
        })
    }
}

impl Fail {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.unless_ended(async |desk, run| {
            let done = desk.engine().fail(run, &self.step, self.item, &self.reason).await;
            done.map_err(|e| desk::refused(&e))?;
            let state = desk.engine().state(run).await.map_err(|e| desk::refused(&e))?;
            Ok(match state.outcome() {
                Some(_) => format!(
                    "Run {run}: what waited of {} has failed, and the run with it.",
                    self.step
                ),
                None => format!(
                    "Run {run}: what waited of {} has failed. {}",
                    self.step,
                    goes_on(desk, run)
                ),
            })
        })
    }
}

impl Cancel {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.unless_ended(async |desk, run| {
            desk.engine().cancel(run, &self.reason).await.map_err(|e| desk::refused(&e))?;
            Ok(format!("Run {run} is cancelled."))
        })
    }
}

impl Deactivate {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.unless_ended(async |desk, run| {
            desk.engine().deactivate(run).await.map_err(|e| desk::refused(&e))?;
            let option = desk.option();
            Ok(format!("Run {run} is left alone until `retrial activate {run} {option}`."))
        })
    }
}

impl Activate {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.unless_ended(async |desk, run| {
            desk.engine().activate(run).await.map_err(|e| desk::refused(&e))?;
            Ok(format!("Run {run} is active. {}", goes_on(desk, run)))
        })
    }
}

impl Archive {
    pub(super) fn main(&self) -> Result<ExitCode, Trouble> {
        self.of.any(async |desk, head| {
            desk.engine().archive(head.run).await.map_err(|e| desk::refused(&e))?;
            Ok(format!("Run {} is archived.", head.run))
        })
    }
}
