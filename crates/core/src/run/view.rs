//! What templates and conditions see of a run.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Outcome, RunState, StepPhase, StepState, TaskId, TaskPhase, errors};
use crate::failure::ErrorContext;
use crate::time::Nanos;
use crate::workflow::{Many, Root, Seen, Step, StepIx, TooLarge, Values};

/// A run's values, as one branch sees them.
pub(super) struct View<'s> {
    state: &'s RunState,
    last_error: Option<Value>,
    /// The step whose branches' errors are seen, and its own failure if it has just failed.
    errors: Option<(StepIx, Option<&'s ErrorContext>)>,
    /// The item's index and the item.
    item: Option<(Value, Value)>,
    result: Option<&'s Value>,
    made: Made<'s>,
}

/// What is put together from the run's state, once, when it is first looked at.
#[derive(Default)]
struct Made<'s> {
    errors: OnceCell<Option<Value>>,
    /// What each fanned-out step left, by its place.
    left: OnceCell<Box<[OnceCell<Many<'s>>]>>,
}

impl<'s> View<'s> {
    /// What the edges of a step that succeeded see: its branch has no error any more.
    pub(super) fn after_success(state: &'s RunState) -> Self {
        let made = Made::default();
        Self { state, last_error: None, errors: None, item: None, result: None, made }
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
    ///
    /// # Errors
    /// When its item is too large to be filled in.
    pub(super) fn of_task(state: &'s RunState, task: TaskId) -> Result<Self, TooLarge> {
        if let Some(of) = state.definition(task.step).and_then(|s| s.compensates) {
            let undone = TaskId { step: of, item: task.item };
            let last_error = match state.rollback.as_ref().map(|r| &r.outcome) {
                Some(Outcome::Failed { error }) => serde_json::to_value(error).ok(),
                _ => None,
            };
            let result = state.results.get(&undone).map(|r| &**r);
            return Ok(Self { last_error, errors: None, result, ..Self::of_task(state, undone)? });
        }
        let view = Self::of_step(state, task.step);
        let Some(list) = state.definition(task.step).and_then(|s| s.for_each.as_ref()) else {
            return Ok(view);
        };
        let item = list.render_item(&view, task.item as usize)?.unwrap_or(Value::Null);
        Ok(Self { item: Some((json!(task.item), item)), ..view })
    }

    pub(super) fn with_result(self, result: &'s Value) -> Self {
        Self { result: Some(result), ..self }
    }

    fn step(&self, id: &str) -> Option<Seen<'_>> {
        let at = self.state.workflow.place_of(id)?;
        let step = self.state.begun(at)?;
        if !self.state.workflow.fans_out(at) {
            return Some(Seen::One(self.state.result_or_null(at, 0)));
        }
        let steps = self.state.steps.len();
        let all = self.made.left.get_or_init(|| (0..steps).map(|_| OnceCell::new()).collect());
        let state = self.state;
        Some(Seen::Many(all.get(at.index())?.get_or_init(|| state.many(at, step))))
    }
}

impl Values for View<'_> {
    fn root(&self, root: &Root) -> Option<Seen<'_>> {
        match root {
            Root::Input => Some(Seen::Value(&self.state.input)),
            Root::Step(id) => self.step(id),
            Root::Item => self.item.as_ref().map(|(_, item)| Seen::Value(item)),
            Root::Index => self.item.as_ref().map(|(index, _)| Seen::Value(index)),
            Root::LastError => self.last_error.as_ref().map(Seen::Value),
            Root::Errors => {
                let (at, own) = self.errors?;
                let all = || errors::all(self.state, at, own);
                self.made.errors.get_or_init(all).as_ref().map(Seen::Value)
            }
            Root::Result => self.result.map(Seen::Value),
        }
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

    /// The arguments that `task` is invoked with: the same for every attempt. None where they are
    /// larger than [`MAX_VALUE`](crate::workflow::MAX_VALUE).
    #[must_use]
    pub fn arguments(&self, task: TaskId) -> Option<Value> {
        let view = View::of_task(self, task).ok()?;
        self.definition(task.step)?.args.render(&view).ok()
    }

    /// Whether `task` can't be invoked, because its arguments or its item are too large.
    pub(super) fn is_too_large(&self, task: TaskId) -> bool {
        let args = self.definition(task.step).map(|step| &step.args);
        args.is_some_and(|args| !View::of_task(self, task).is_ok_and(|view| args.fits(&view)))
    }

    /// The result of a step; for a fanned-out one the list of its tasks' results and the failed items.
    #[must_use]
    pub fn left_by(&self, at: StepIx) -> Option<Value> {
        let step = self.begun(at)?;
        Some(match self.workflow.fans_out(at) {
            false => Seen::One(self.result_or_null(at, 0)).to_value(),
            true => Seen::Many(&self.many(at, step)).to_value(),
        })
    }

    /// The step, if it was entered.
    fn begun(&self, at: StepIx) -> Option<&StepState> {
        let never = [StepPhase::Waiting, StepPhase::Unreachable, StepPhase::Skipped];
        self.steps.get(at.index()).filter(|step| !never.contains(&step.phase))
    }

    fn result_or_null(&self, step: StepIx, item: u32) -> &Value {
        self.results.get(&TaskId { step, item }).map_or(&Value::Null, |result| result)
    }

    fn many<'s>(&'s self, at: StepIx, step: &'s StepState) -> Many<'s> {
        let count = |is: fn(&TaskPhase) -> bool| {
            json!(step.tasks.iter().filter(|task| is(&task.phase)).count())
        };
        let error = |(item, phase): (u32, &TaskPhase)| match phase {
            TaskPhase::Failed { error } => Some(json!({ "item": item, "error": error })),
            _ => None,
        };
        Many {
            results: (0..)
                .zip(&step.tasks)
                .map(|(item, _)| self.result_or_null(at, item))
                .collect(),
            succeeded: count(|phase| matches!(phase, TaskPhase::Succeeded { .. })),
            failed: count(|phase| matches!(phase, TaskPhase::Failed { .. })),
            errors: OnceCell::new(),
            describe: Box::new(move || {
                (0..).zip(step.tasks.iter().map(|task| &task.phase)).filter_map(error).collect()
            }),
        }
    }
}
