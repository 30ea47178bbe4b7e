//! What templates and conditions see of a run.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Outcome, RunState, StepPhase, TaskId, TaskPhase, errors};
use crate::failure::ErrorContext;
use crate::time::Nanos;
use crate::workflow::{Root, Step, StepIx, Values};

/// A run's values, as one branch sees them.
pub(super) struct View<'s> {
    state: &'s RunState,
    last_error: Option<Value>,
    /// The step whose branches' errors are seen, and its own failure if it has just failed.
    errors: Option<(StepIx, Option<&'s ErrorContext>)>,
    item: Option<(u32, Value)>,
    result: Option<&'s Value>,
}

impl<'s> View<'s> {
    /// What the edges of a step that succeeded see: its branch has no error any more.
    pub(super) fn after_success(state: &'s RunState) -> Self {
        Self { state, last_error: None, errors: None, item: None, result: None }
    }

    /// What the edges of a step that fails with `error` see.
    pub(super) fn after_failure(state: &'s RunState, at: StepIx, error: &'s ErrorContext) -> Self {
        let last_error = serde_json::to_value(error).ok();
        Self { last_error, errors: Some((at, Some(error))), ..Self::after_success(state) }
    }

    /// What a step sees when it is entered and while it is at work.
    pub(super) fn of_step(state: &'s RunState, at: StepIx) -> Self {
        let last_error = errors::last(state, at).and_then(|e| serde_json::to_value(e).ok());
        Self { last_error, errors: Some((at, None)), ..Self::after_success(state) }
    }

    /// What a task sees: its step's view and its item; where it undoes another, that one's, its
    /// result, and what the run ends with.
    pub(super) fn of_task(state: &'s RunState, task: TaskId) -> Self {
        if let Some(of) = state.definition(task.step).and_then(|s| s.compensates) {
            let undone = TaskId { step: of, item: task.item };
            let last_error = match state.rollback.as_ref().map(|r| &r.outcome) {
                Some(Outcome::Failed { error }) => serde_json::to_value(error).ok(),
                _ => None,
            };
            let result = state.results.get(&undone).map(|r| &**r);
            return Self { last_error, errors: None, result, ..Self::of_task(state, undone) };
        }
        let view = Self::of_step(state, task.step);
        let Some(list) = state.definition(task.step).and_then(|s| s.for_each.as_ref()) else {
            return view;
        };
        let item = list.render_item(&view, task.item as usize).unwrap_or(Value::Null);
        Self { item: Some((task.item, item)), ..view }
    }

    pub(super) fn with_result(self, result: &'s Value) -> Self {
        Self { result: Some(result), ..self }
    }
}

impl Values for View<'_> {
    fn root(&self, root: &Root) -> Option<Cow<'_, Value>> {
        match root {
            Root::Input => Some(Cow::Borrowed(&*self.state.input)),
            Root::Step(id) => self.state.left_by(self.state.workflow.place_of(id)?).map(Cow::Owned),
            Root::Item => self.item.as_ref().map(|(_, item)| Cow::Borrowed(item)),
            Root::Index => self.item.as_ref().map(|(index, _)| Cow::Owned(json!(index))),
            Root::LastError => self.last_error.as_ref().map(Cow::Borrowed),
            Root::Errors => {
                let (at, own) = self.errors?;
                errors::all(self.state, at, own).map(Cow::Owned)
            }
            Root::Result => self.result.map(Cow::Borrowed),
        }
    }

    fn result(&self, id: &str) -> Option<&Value> {
        let step = self.state.workflow.place_of(id)?;
        let fans_out = self.state.definition(step)?.for_each.is_some();
        let found = self.state.results.get(&TaskId { step, item: 0 })?;
        (!fans_out).then_some(found)
    }
}

/// What an attempt needs besides its token.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The arguments, templates filled in.
    pub args: Value,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The time it may take.
    pub timeout: Option<Nanos>,
    /// Retries left after it; `None` when unlimited.
    pub retries_left: Option<u32>,
}

impl RunState {
    /// Restores a result that was read from the results table.
    pub fn restore_result(&mut self, task: TaskId, result: Arc<Value>) {
        invariant!(self.is_sound(), "a run has the steps of its workflow");
        self.results.insert(task, result);
    }

    /// A task's result, if it has one and it is at hand.
    #[must_use]
    pub fn result(&self, task: TaskId) -> Option<&Arc<Value>> {
        self.results.get(&task)
    }

    pub(super) fn definition(&self, at: StepIx) -> Option<&Step> {
        self.workflow.step(at)
    }

    /// What the attempt in progress of `task` needs; `None` when none is in progress.
    #[must_use]
    pub fn prepare(&self, task: TaskId) -> Option<Prepared> {
        let found = self.task(task)?;
        let TaskPhase::Running { timeout, .. } = found.phase else { return None };
        let step = self.definition(task.step)?;
        Some(Prepared {
            args: self.arguments(task)?,
            attempt: found.attempt,
            timeout,
            retries_left: step.policy.limit().count().map(|n| n.saturating_sub(found.attempt)),
        })
    }

    /// The arguments that `task` is invoked with: the same for every attempt.
    #[must_use]
    pub fn arguments(&self, task: TaskId) -> Option<Value> {
        Some(self.definition(task.step)?.args.render(&View::of_task(self, task)))
    }

    /// The result of a step; for a fanned-out one the list of its tasks' results and the failed items.
    #[must_use]
    pub fn left_by(&self, at: StepIx) -> Option<Value> {
        let state = self.steps.get(at.index())?;
        if matches!(state.phase, StepPhase::Waiting | StepPhase::Unreachable | StepPhase::Skipped) {
            return None;
        }
        let result = |item: u32| {
            let found = self.results.get(&TaskId { step: at, item });
            found.map_or(Value::Null, |r| r.as_ref().clone())
        };
        if !self.workflow.fans_out(at) {
            return Some(json!({ "result": result(0) }));
        }
        let count = u32::try_from(state.tasks.len()).unwrap_or(u32::MAX);
        let errors: Vec<Value> = (0..count)
            .zip(&state.tasks)
            .filter_map(|(item, task)| match &task.phase {
                TaskPhase::Failed { error } => Some(json!({ "item": item, "error": error })),
                _ => None,
            })
            .collect();
        let succeeded =
            state.tasks.iter().filter(|t| matches!(t.phase, TaskPhase::Succeeded { .. }));
        Some(json!({
            "result": (0..count).map(result).collect::<Vec<_>>(),
            "succeeded": succeeded.count(),
            "failed": errors.len(),
            "errors": errors,
        }))
    }
}
