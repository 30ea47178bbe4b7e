//! How a step ends, and which of its edges that takes.

use super::task::Counts;
use super::view::View;
use super::{
    Event, Outcome, RouteCause, RunState, StepPhase, StepState, TaskId, TaskPhase, rollback, route,
};
use crate::failure::{ErrorContext, Failure};
use crate::time::Timestamp;
use crate::workflow::{Quorum, StepIx, Transition};

/// Where the tasks of an active step stand.
struct Tally {
    live: usize,
    succeeded: usize,
    needed: usize,
}

impl Tally {
    fn of(step: &StepState, success: Quorum) -> Self {
        let Counts { live, succeeded, .. } = step.counts;
        Self { live, succeeded, needed: success.of(step.tasks.len()) }
    }

    fn is_reached(&self) -> bool {
        self.succeeded >= self.needed
    }

    /// Whether nothing that the live tasks still do changes how the step ends.
    fn is_decided(&self) -> bool {
        self.is_reached() || self.succeeded + self.live < self.needed
    }
}

/// A step all of whose tasks have ended ends, and its edges are looked at. Under `fail_fast` what
/// can't change the answer any more is called off first.
pub(super) fn end_of_step(state: &RunState, at: StepIx, now: Timestamp) -> Option<Vec<Event>> {
    let (step, definition) = (state.steps.get(at.index())?, state.definition(at)?);
    if step.phase != StepPhase::Active {
        return None;
    }
    let tally = Tally::of(step, definition.success);
    if tally.live > 0 {
        return (definition.fail_fast && tally.is_decided()).then(|| call_off(step, at));
    }
    if tally.is_reached() {
        return Some(step_succeeded(state, at));
    }
    let first = step.first_failed.and_then(|item| step.tasks.get(item as usize));
    Some(match first.map(|t| (&t.phase, t.failure.as_deref())) {
        Some((TaskPhase::Failed { error }, failure)) => {
            let types = failure.map_or(&[][..], Failure::lineage);
            step_failed(state, at, (**error).clone(), types)
        }
        _ => step_refused(state, at, &Failure::too_few(tally.succeeded, tally.needed), now),
    })
}

fn call_off(step: &StepState, at: StepIx) -> Vec<Event> {
    let items = (0..).zip(&step.tasks).filter(|(_, task)| task.is_live());
    items.map(|(item, _)| Event::TaskCancelled { task: TaskId { step: at, item } }).collect()
}

/// The first edge by priority whose condition holds is taken. The branch's last error is
/// cleared before the conditions look.
fn step_succeeded(state: &RunState, at: StepIx) -> Vec<Event> {
    let view = View::after_success(state);
    let holds = |t: &&Transition| {
        t.on_error.is_none() && t.condition.as_ref().is_none_or(|c| c.holds(&view))
    };
    let mut events = vec![Event::StepSucceeded { step: at }];
    if let Some(edge) = state.workflow.edges_from(at).into_iter().find(holds) {
        events.push(Event::Routed { from: at, to: edge.to, cause: RouteCause::Success });
    }
    events
}

/// The step fails by itself, through no attempt.
pub(super) fn step_refused(
    state: &RunState,
    at: StepIx,
    failure: &Failure,
    now: Timestamp,
) -> Vec<Event> {
    let Some(step) = state.definition(at) else { return Vec::new() };
    let error = ErrorContext::new(failure, false, &step.id, &step.action, 0, now);
    step_failed(state, at, error, failure.lineage())
}

/// The step fails and takes the edge for its failure. Without an edge, the run ends where the failure is
/// fatal: in a handler, at a goal, or in a workflow without goals unless a join does without the step.
/// `types` is the failure's lineage.
fn step_failed(state: &RunState, at: StepIx, error: ErrorContext, types: &[String]) -> Vec<Event> {
    let in_handler = route::is_handler(state, at);
    let edge = if in_handler { None } else { failure_edge(state, at, &error, types) };
    let is_goal = state.definition(at).is_some_and(|s| s.goal);
    let fatal =
        in_handler || is_goal || !state.workflow.has_goals() && !route::is_taken_in(state, at);
    let mut events = vec![Event::StepFailed { step: at, error: error.clone() }];
    if let Some(edge) = edge {
        events.push(Event::Routed { from: at, to: edge.to, cause: RouteCause::Failure });
    } else if fatal {
        events.push(rollback::conclude(state, Outcome::Failed { error }));
    }
    events
}

/// Exception edges first, then transitions whose condition looks at the errors; each by priority.
/// Other transitions are not about failures and never route one; nor does an edge to a step that
/// can't be entered any more, or the failure would vanish there.
fn failure_edge<'s>(
    state: &'s RunState,
    at: StepIx,
    error: &ErrorContext,
    types: &[String],
) -> Option<&'s Transition> {
    let view = View::after_failure(state, at, error);
    let mut edges = state.workflow.edges_from(at);
    let waits = |to: StepIx| state.steps.get(to.index()).map(|s| s.phase);
    edges.retain(|t| waits(t.to) == Some(StepPhase::Waiting));
    let holds = |t: &Transition| t.condition.as_ref().is_none_or(|c| c.holds(&view));
    let exception = edges.iter().find(|t| {
        t.on_error.as_ref().is_some_and(|names| route::catches(names, error, types)) && holds(t)
    });
    let transition = || {
        edges.iter().find(|t| {
            t.on_error.is_none()
                && t.condition.as_ref().is_some_and(|c| c.asks_for_error())
                && holds(t)
        })
    };
    exception.or_else(transition).copied()
}
