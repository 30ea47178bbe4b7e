//! Pausing and resuming a run's retries, failing waiting tasks by hand, and releasing tasks from
//! quarantine.

use super::lanes::Command;
use super::{CommandError, Engine, World};
use crate::run::{RunId, RunState};
use crate::workflow::StepIx;

impl<W: World> Engine<W> {
    /// Pauses a run's retries: none starts until [`Engine::resume`], also after a restart. Attempts in
    /// progress and first attempts go on; tasks that fail meanwhile wait. Total timeouts keep running,
    /// and the run can be cancelled. Does nothing to a run that
    /// is paused or has ended.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn pause(&self, run: RunId, reason: &str) -> Result<(), CommandError> {
        self.command(run, Command::Pause(reason.to_owned())).await
    }

    /// Resumes a paused run's retries: due ones start now, others wait the rest of their delay.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn resume(&self, run: RunId) -> Result<(), CommandError> {
        self.command(run, Command::Resume).await
    }

    /// Fails the tasks of `step` that wait for an attempt, or only that of `item`, now. Each leaves
    /// a dead letter, and its failure is routed like any other's; its error is its last failure,
    /// or `FAILED_BY_HAND` where no attempt was made. An attempt in progress goes on.
    ///
    /// # Errors
    /// [`CommandError::UnknownStep`], and [`CommandError::NothingWaits`] where no task was failed.
    pub async fn fail(
        &self,
        run: RunId,
        step: &str,
        item: Option<u32>,
        reason: &str,
    ) -> Result<(), CommandError> {
        let state = self.state(run).await?;
        let at = place_of(&state, step)?;
        if state.outcome().is_some() {
            return Err(CommandError::NothingWaits { run, step: step.to_owned() });
        }
        self.ask(run, Command::Fail { step: at, item, reason: reason.to_owned() }).await
    }

    /// Releases tasks from quarantine: all of the run, only those of `step`, or only that of its
    /// `item`. The next attempt of each starts when its delay is over. Their attempts are counted on,
    /// while the count of those that lost their node begins anew.
    ///
    /// # Errors
    /// [`CommandError::UnknownStep`], and [`CommandError::NothingHeld`] where no task was released.
    pub async fn release(
        &self,
        run: RunId,
        step: Option<&str>,
        item: Option<u32>,
        reason: &str,
    ) -> Result<(), CommandError> {
        let state = self.state(run).await?;
        let step = step.map(|name| place_of(&state, name)).transpose()?;
        if state.outcome().is_some() {
            return Err(CommandError::NothingHeld(run));
        }
        self.ask(run, Command::Release { step, item, reason: reason.to_owned() }).await
    }
}

fn place_of(state: &RunState, step: &str) -> Result<StepIx, CommandError> {
    let unknown = || CommandError::UnknownStep { run: state.id(), step: step.to_owned() };
    state.workflow().place_of(step).ok_or_else(unknown)
}
