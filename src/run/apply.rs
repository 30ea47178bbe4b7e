//! The fold: how each event changes the state. Decides nothing.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Event, Phase, Recorded, RunState, StepPhase, StepState, TaskId, TaskPhase, TaskState, Version,
};
use crate::failure::RetryKind;
use crate::run::RouteCause;
use crate::workflow::StepIx;

/// An event that can't follow the events before it: the history is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {} ({event}) can't follow the events before it: the history is damaged", number.0)]
pub struct Impossible {
    /// The event's number.
    pub number: Version,
    /// Its name, or what is wrong.
    pub event: &'static str,
}

impl RunState {
    /// Folds one event in.
    ///
    /// # Errors
    /// When it names a step or task that does not exist, or follows the end.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), Impossible> {
        let wrong = Impossible { number: self.version, event: recorded.event.name() };
        if matches!(self.phase, Phase::Ended(_)) {
            return Err(wrong);
        }
        self.apply_event(recorded).ok_or(wrong)?;
        self.version = self.version.after(1);
        self.last_at = recorded.at;
        Ok(())
    }

    fn apply_event(&mut self, recorded: &Recorded) -> Option<()> {
        match &recorded.event {
            Event::RunCreated { seed, workflow: _, input } => {
                self.seed = *seed;
                self.input = Arc::new(Value::Object(input.clone()));
            }
            Event::RunActivated => self.phase = Phase::Running,
            Event::RunDeactivated => self.phase = Phase::Deactivated,
            Event::StepEntered { step, tasks } => {
                let state = self.step_mut(*step)?;
                state.phase = StepPhase::Active;
                state.tasks = vec![TaskState::new(); *tasks as usize];
            }
            Event::AttemptStarted { task, attempt, token, timeout, .. } => {
                let state = self.task_mut(*task)?;
                state.phase = TaskPhase::Running { token: *token, timeout: *timeout };
                state.attempt = *attempt;
                state.first_started.get_or_insert(recorded.at);
            }
            Event::AttemptFailed { task, failure, .. } => {
                self.task_mut(*task)?.failure = Some(failure.clone());
            }
            Event::RetryScheduled { task, attempt, delay, backoff, kind, .. } => {
                let state = self.task_mut(*task)?;
                state.phase = TaskPhase::Queued;
                state.attempt = *attempt;
                state.delay = *delay;
                state.backoff = Some(*backoff);
                state.timeout_retries += u32::from(*kind == RetryKind::Timeout);
            }
            Event::TaskSucceeded { task, digest, .. } => {
                self.task_mut(*task)?.phase = TaskPhase::Succeeded { digest: *digest };
            }
            Event::TaskFailed { task, error, .. } => {
                self.task_mut(*task)?.phase = TaskPhase::Failed { error: error.clone() };
            }
            Event::TaskCancelled { task } => self.task_mut(*task)?.phase = TaskPhase::Cancelled,
            Event::StepSucceeded { step } => {
                let state = self.step_mut(*step)?;
                state.phase = StepPhase::Succeeded;
                state.last_error = None;
            }
            Event::StepFailed { step, error } => {
                let state = self.step_mut(*step)?;
                state.phase = StepPhase::Failed;
                state.error = Some(error.clone());
            }
            Event::StepUnreachable { step } => self.step_mut(*step)?.phase = StepPhase::Unreachable,
            Event::StepSkipped { step } => self.step_mut(*step)?.phase = StepPhase::Skipped,
            Event::Routed { from, to, cause } => self.apply_route(*from, *to, *cause)?,
            Event::CancelRequested { .. } => {}
            Event::RunEnded { outcome } => {
                self.steps.iter_mut().for_each(StepState::call_off);
                self.phase = Phase::Ended(outcome.clone());
            }
        }
        Some(())
    }

    /// A failure sets the branch's last error; of several the latest stays (spec decision 14).
    fn apply_route(&mut self, from: StepIx, to: StepIx, cause: RouteCause) -> Option<()> {
        let source = self.step_mut(from)?;
        let (error, handling) = (source.error.clone(), source.handling);
        let target = self.step_mut(to)?;
        target.routed = true;
        match cause {
            RouteCause::Success => target.handling |= handling,
            RouteCause::Failure => {
                target.last_error = error;
                target.handling = true;
            }
        }
        Some(())
    }

    fn step_mut(&mut self, at: StepIx) -> Option<&mut StepState> {
        self.steps.get_mut(at.index())
    }

    fn task_mut(&mut self, task: TaskId) -> Option<&mut TaskState> {
        self.step_mut(task.step)?.tasks.get_mut(task.item as usize)
    }
}

impl StepState {
    fn call_off(&mut self) {
        for task in self.tasks.iter_mut().filter(|t| t.is_live()) {
            task.phase = TaskPhase::Cancelled;
        }
    }
}
