//! One run as JSON: the state of its steps and tasks, its last error, and when and why each retry
//! happened. Inputs, arguments and results are masked, and every text passes the sanitiser.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::format::{kind_name, task_name};
use super::json::{error_json, failure_json, in_seconds, masked, present};
use crate::failure::sanitise::clean;
use crate::failure::{Class, ErrorContext, Failure, RetryKind};
use crate::policy::GiveUp;
use crate::run::{
    Cost, Event, Letter, Outcome, Phase, Recorded, RunState, StepPhase, StepState, TaskId,
    TaskPhase, TaskState,
};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Step, StepIx};

/// A run's state and the kept part of its history.
pub struct Inspection<'r> {
    state: &'r RunState,
    tasks: BTreeMap<TaskId, Vec<Attempt<'r>>>,
    given_up: BTreeMap<TaskId, GiveUp>,
}

/// One attempt, from its events.
struct Attempt<'r> {
    number: u32,
    started: Timestamp,
    ended: Option<Timestamp>,
    failure: Option<&'r Failure>,
    retry: Option<Retry>,
}

/// The retry that followed an attempt.
struct Retry {
    delay: Nanos,
    kind: RetryKind,
}

impl<'r> Inspection<'r> {
    /// An inspection of `state` and the kept events that led to it.
    #[must_use]
    pub fn new(state: &'r RunState, events: &'r [Recorded]) -> Self {
        let mut inspection = Self { state, tasks: BTreeMap::new(), given_up: BTreeMap::new() };
        events.iter().for_each(|recorded| inspection.take(recorded));
        inspection
    }

    fn take(&mut self, recorded: &'r Recorded) {
        let Some(task) = recorded.event.task() else { return };
        let attempts = self.tasks.entry(task).or_default();
        let at = recorded.at;
        match &recorded.event {
            Event::AttemptStarted { attempt, .. } => attempts.push(Attempt {
                number: *attempt,
                started: at,
                ended: None,
                failure: None,
                retry: None,
            }),
            Event::TaskFailed { reason, .. } => {
                self.given_up.insert(task, *reason);
            }
            event => {
                let Some(last) = attempts.last_mut() else { return };
                match event {
                    Event::AttemptFailed { failure, .. } => {
                        (last.ended, last.failure) = (Some(at), Some(failure));
                    }
                    Event::TaskSucceeded { .. } => last.ended = Some(at),
                    Event::RetryScheduled { delay, kind, .. } => {
                        last.retry = Some(Retry { delay: *delay, kind: *kind });
                    }
                    _ => {}
                }
            }
        }
    }

    /// The run's `_last_error`: the failure that ended it, or else the latest failure of a branch.
    #[must_use]
    pub fn last_error(&self) -> Option<&ErrorContext> {
        match self.state.outcome() {
            Some(Outcome::Failed { error }) => Some(error),
            Some(_) => None,
            None => {
                let of_branch = self.state.steps().iter().filter_map(|s| s.last_error.as_ref());
                of_branch.max_by(|a, b| a.timestamp.cmp(&b.timestamp))
            }
        }
    }

    /// The inspection as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let state = self.state;
        let steps: Vec<Value> = self.steps().map(|(at, step)| self.step(at, step)).collect();
        present(json!({
            "run": state.id().to_string(),
            "workflow": clean(state.workflow().name()),
            "phase": self.phase(),
            "paused": state.paused().map(clean),
            "version": state.version().0,
            "last_event_at": state.last_at().to_string(),
            "cost_millionths": cost(state.cost()),
            "_last_error": self.last_error().map(error_json),
            "steps": steps,
        }))
    }

    fn steps(&self) -> impl Iterator<Item = (StepIx, &'r StepState)> {
        self.state.workflow().places().zip(self.state.steps())
    }

    fn phase(&self) -> &'static str {
        match self.state.phase() {
            Phase::Running if self.state.paused().is_some() => "paused",
            Phase::Running => "running",
            Phase::Deactivated => "deactivated",
            Phase::Ended(Outcome::Completed) => "completed",
            Phase::Ended(Outcome::Failed { .. }) => "failed",
            Phase::Ended(Outcome::Cancelled { .. }) => "cancelled",
        }
    }

    fn tasks_of(&self, step: StepIx) -> impl Iterator<Item = (TaskId, &'r TaskState)> {
        self.state.tasks().filter(move |(task, _)| task.step == step)
    }

    fn attempts(&self, task: TaskId) -> &[Attempt<'r>] {
        self.tasks.get(&task).map_or(&[], Vec::as_slice)
    }

    fn step(&self, at: StepIx, found: &StepState) -> Value {
        let workflow = self.state.workflow();
        let Some(step) = workflow.step(at) else { return Value::Null };
        let name = |at: StepIx| workflow.step(at).map(|s| clean(&s.id));
        let after: Vec<_> = step.after.iter().filter_map(|at| name(*at)).collect();
        let to: Vec<_> = workflow.edges_from(at).iter().filter_map(|t| name(t.to)).collect();
        let tasks: Vec<Value> = self.tasks_of(at).map(|(id, task)| self.task(id, task)).collect();
        present(json!({
            "step": clean(&step.id),
            "action": clean(&step.action),
            "phase": self.step_phase(step, found),
            "compensates": step.compensates.and_then(name),
            "after": (!after.is_empty()).then_some(after),
            "transitions_to": (!to.is_empty()).then_some(to),
            "error": found.error.as_ref().map(error_json),
            "_last_error": found.last_error.as_ref().map(error_json),
            "args": masked(step.args.raw()),
            "tasks": tasks,
        }))
    }

    /// A compensation waits for nothing before the rollback that it is for.
    fn step_phase(&self, step: &Step, found: &StepState) -> Value {
        let is_compensation = step.compensates.is_some() && found.phase == StepPhase::Waiting;
        match self.state.outcome() {
            Some(_) if is_compensation => "not_needed".into(),
            None if is_compensation && self.state.rollback().is_none() => "standby".into(),
            _ => json!(found.phase),
        }
    }

    fn task(&self, id: TaskId, task: &TaskState) -> Value {
        let kept = self.attempts(id);
        let is_queued = task.phase == TaskPhase::Queued && !task.quarantined;
        let compacted = kept.first().map_or(attempts_started(task), |first| first.number - 1);
        present(json!({
            "task": task_name(self.state.workflow(), id),
            "item": id.item,
            "phase": phase_name(task),
            "attempts": attempts_started(task),
            "cost_millionths": cost(task.cost),
            "compacted": (compacted > 0).then_some(compacted),
            "first_error": task.first_failure.as_deref().map(failure_json),
            "last_error": task.failure.as_deref().map(failure_json),
            "due": is_queued.then(|| task.due.to_string()),
            "lost_attempts": (task.lost > 0).then_some(task.lost),
            "gave_up": self.given_up.get(&id).map(ToString::to_string),
            "history": kept.iter().map(Attempt::to_json).collect::<Vec<_>>(),
        }))
    }
}

impl Attempt<'_> {
    fn to_json(&self) -> Value {
        let retry = self.retry.as_ref();
        let mut error = self.failure.map(failure_json);
        if let (Some(Value::Object(fields)), Some(failure)) = (&mut error, self.failure) {
            fields.insert("class".to_owned(), class(failure).into());
        }
        present(json!({
            "attempt": self.number,
            "started": self.started.to_string(),
            "ended": self.ended.map(|at| at.to_string()),
            "took": self.ended.map(|at| in_seconds(at.since(self.started))),
            "error": error,
            "retry": retry.map(|r| json!({ "delay": in_seconds(r.delay), "kind": kind_name(r.kind) })),
        }))
    }
}

/// The cost in millionths, if any was reported.
fn cost(cost: Cost) -> Option<u64> {
    (!cost.is_zero()).then(|| cost.millionths())
}

/// The number of attempts started.
fn attempts_started(task: &TaskState) -> u32 {
    match task.phase {
        TaskPhase::Running { .. } | TaskPhase::Succeeded { .. } => task.attempt,
        // The task failed in its last attempt, or while it waited for the next.
        TaskPhase::Failed { ref error } => error.attempt,
        TaskPhase::Queued | TaskPhase::Cancelled => task.attempt.saturating_sub(1),
        TaskPhase::Idle => 0,
    }
}

fn phase_name(task: &TaskState) -> &'static str {
    match task.phase {
        TaskPhase::Queued if task.quarantined => "quarantined",
        TaskPhase::Queued => "waiting",
        TaskPhase::Running { .. } => "running",
        TaskPhase::Succeeded { .. } => "succeeded",
        TaskPhase::Failed { .. } => "failed",
        TaskPhase::Cancelled => "cancelled",
        TaskPhase::Idle => "nothing to undo",
    }
}

fn class(failure: &Failure) -> &'static str {
    match failure.class() {
        Class::Retryable => "retryable",
        Class::Permanent => "permanent",
    }
}

/// A dead letter as one JSON object, its payload masked.
#[must_use]
pub fn letter_json(letter: &Letter) -> Value {
    present(json!({
        "step": clean(&letter.step),
        "attempts": letter.attempts,
        "gave_up": letter.reason.to_string(),
        "error": error_json(&letter.error),
        "first_error": letter.first.as_ref().map(failure_json),
        "last_error": letter.last.as_ref().map(failure_json),
        "payload": letter.payload.as_ref().map(masked),
        "payload_kept": letter.payload.is_some(),
    }))
}
