//! Rollback: what a run does between the decision that it ends and its end. One
//! compensation after another, strictly backwards over what succeeded; none is routed.

use super::{Event, Outcome, RollbackState, RunState, StepPhase, TaskId, TaskPhase, TaskState};
use crate::workflow::StepIx;

/// How the run goes on to end with `outcome`: at once, or through a rollback where the workflow asks
/// for one.
pub(super) fn conclude(state: &RunState, outcome: Outcome) -> Event {
    let rollback = state.workflow.rollback();
    let rolls_back = match outcome {
        Outcome::Completed => false,
        Outcome::Failed { .. } => rollback.on_failure(),
        Outcome::Cancelled { .. } => rollback.on_cancel(),
    };
    match rolls_back && state.rollback.is_none() {
        true => Event::RollbackStarted { outcome },
        false => Event::RunEnded { outcome },
    }
}

/// The next stage of a rollback: a compensating step ends, the compensation of what succeeded last
/// begins, or the run ends. Nothing while a compensation is at work.
pub(super) fn advance(state: &RunState, rollback: &RollbackState) -> Vec<Event> {
    if state.steps.iter().any(|step| step.counts.live > 0) {
        return Vec::new();
    }
    if let Some(at) = state.workflow.places().find(|at| is_done(state, *at)) {
        return vec![end_of_step(state, at)];
    }
    match state.undo.last().and_then(|task| compensation(state, *task)) {
        Some(task) => vec![Event::CompensationStarted { task }],
        None => stop(rollback, rollback.failed == 0),
    }
}

/// The rollback is over, and with it the run.
pub(super) fn stop(rollback: &RollbackState, complete: bool) -> Vec<Event> {
    let outcome = rollback.outcome.clone();
    vec![Event::RollbackEnded { complete }, Event::RunEnded { outcome }]
}

/// The task that undoes `task`.
pub(super) fn compensation(state: &RunState, task: TaskId) -> Option<TaskId> {
    let step = state.workflow.compensation_of(task.step)?;
    Some(TaskId { step, item: task.item })
}

/// Whether a compensating step has nothing left to undo.
fn is_done(state: &RunState, at: StepIx) -> bool {
    let Some(of) = state.definition(at).and_then(|s| s.compensates) else { return false };
    let active = state.steps.get(at.index()).is_some_and(|s| s.phase == StepPhase::Active);
    active && !state.undo.iter().any(|task| task.step == of)
}

fn end_of_step(state: &RunState, at: StepIx) -> Event {
    let failed = |t: &TaskState| match &t.phase {
        TaskPhase::Failed { error } => Some((**error).clone()),
        _ => None,
    };
    let step = state.steps.get(at.index());
    let first = step.and_then(|s| s.tasks.get(s.first_failed? as usize)).and_then(failed);
    match first {
        Some(error) => Event::StepFailed { step: at, error },
        None => Event::StepSucceeded { step: at },
    }
}
