//! What follows from where the tasks stand: steps end, edges are taken, steps begin, the run ends.

use super::route::{self, Next};
use super::view::View;
use super::{Event, Outcome, Phase, RouteCause, RunState, StepPhase, StepState, TaskId, TaskPhase};
use crate::failure::{ErrorContext, Failure};
use crate::time::Timestamp;
use crate::workflow::{StepIx, Transition};

/// The most items that one step fans out over.
pub(super) const MAX_ITEMS: usize = 10_000;

/// The events that follow from the state alone, one stage of them; none when it is at rest. To be
/// applied and asked again.
#[must_use]
pub fn advance(state: &RunState, now: Timestamp) -> Vec<Event> {
    if matches!(state.phase, Phase::Ended(_)) {
        return Vec::new();
    }
    let places = || state.workflow.places();
    if let Some(events) = places().find_map(|at| end_of_step(state, at)) {
        return events;
    }
    if let Some(events) = places().find_map(|at| begin_of_step(state, at, now)) {
        return events;
    }
    end_of_run(state).into_iter().collect()
}

/// A step all of whose tasks have ended ends, and its edges are looked at.
fn end_of_step(state: &RunState, at: StepIx) -> Option<Vec<Event>> {
    let step = state.steps.get(at.index())?;
    if step.phase != StepPhase::Active {
        return None;
    }
    let first = step.first_failed.and_then(|item| step.tasks.get(item as usize));
    let first_failed = first.and_then(|t| match &t.phase {
        TaskPhase::Failed { error } => Some((&**error, t.failure.as_deref())),
        _ => None,
    });
    if step.tasks.iter().any(super::TaskState::is_live) {
        let called_off = first_failed.is_some() && state.definition(at)?.fail_fast;
        return called_off.then(|| call_off(step, at));
    }
    Some(match first_failed {
        Some((error, failure)) => {
            step_failed(state, at, error.clone(), failure.map_or(&[], Failure::lineage))
        }
        None => step_succeeded(state, at),
    })
}

/// `fail_fast`: the first failure cancels the siblings (A11).
fn call_off(step: &StepState, at: StepIx) -> Vec<Event> {
    let items = (0..).zip(&step.tasks).filter(|(_, task)| task.is_live());
    items.map(|(item, _)| Event::TaskCancelled { task: TaskId { step: at, item } }).collect()
}

/// The first edge by priority whose condition holds is taken (C6). The branch's last error is
/// cleared before the conditions look (C7).
fn step_succeeded(state: &RunState, at: StepIx) -> Vec<Event> {
    let view = View::new(state, None);
    let holds = |t: &&Transition| {
        t.on_error.is_none() && t.condition.as_ref().is_none_or(|c| c.holds(&view))
    };
    let mut events = vec![Event::StepSucceeded { step: at }];
    if let Some(edge) = state.workflow.edges_from(at).into_iter().find(holds) {
        events.push(Event::Routed { from: at, to: edge.to, cause: RouteCause::Success });
    }
    events
}

/// Spec decision 18: routed, or unrouted with or without goals. An error in a handler ends the run
/// (C11). `types` is the failure's lineage.
fn step_failed(state: &RunState, at: StepIx, error: ErrorContext, types: &[String]) -> Vec<Event> {
    let in_handler = state.steps.get(at.index()).is_some_and(|s| s.last_error.is_some());
    let edge = if in_handler { None } else { failure_edge(state, at, &error, types) };
    let is_goal = state.definition(at).is_some_and(|s| s.goal);
    let mut events = vec![Event::StepFailed { step: at, error: error.clone() }];
    if let Some(edge) = edge {
        events.push(Event::Routed { from: at, to: edge.to, cause: RouteCause::Failure });
    } else if in_handler || is_goal || !state.workflow.has_goals() {
        events.push(Event::RunEnded { outcome: Outcome::Failed { error } });
    }
    events
}

/// Exception edges first, then transitions whose condition looks at `_last_error`; each by
/// priority. Other transitions are not about failures and never route one; nor does an edge to a
/// step that can't be entered any more, or the failure would vanish there.
fn failure_edge<'s>(
    state: &'s RunState,
    at: StepIx,
    error: &ErrorContext,
    types: &[String],
) -> Option<&'s Transition> {
    let view = View::new(state, Some(error));
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

/// A waiting step is entered, or turns out never to be.
fn begin_of_step(state: &RunState, at: StepIx, now: Timestamp) -> Option<Vec<Event>> {
    if state.steps.get(at.index())?.phase != StepPhase::Waiting {
        return None;
    }
    match route::next(state, at) {
        Next::Wait => None,
        Next::Unreachable => Some(vec![Event::StepUnreachable { step: at }]),
        Next::Skip => Some(vec![Event::StepSkipped { step: at }]),
        Next::Enter => Some(enter(state, at, now)),
    }
}

fn enter(state: &RunState, at: StepIx, now: Timestamp) -> Vec<Event> {
    let (Some(step), Some(here)) = (state.definition(at), state.steps.get(at.index())) else {
        return Vec::new();
    };
    let view = View::new(state, here.last_error.as_ref());
    let items = match &step.for_each {
        None => Ok(1),
        Some(list) => match list.render(&view).as_array().map(Vec::len) {
            Some(n) if n <= MAX_ITEMS => Ok(n),
            Some(n) => {
                Err(format!("{n} items are more than the {MAX_ITEMS} one step may fan out over"))
            }
            None => Err("`for_each` did not give a list".to_owned()),
        },
    };
    match items {
        Ok(n) => vec![Event::StepEntered { step: at, tasks: u32::try_from(n).unwrap_or(u32::MAX) }],
        Err(text) => {
            let failure = Failure::new("BAD_FAN_OUT", &text).with_lineage(["ValueError"]);
            let error = ErrorContext::new(&failure, false, &step.id, &step.action, 0, now);
            step_failed(state, at, error, failure.lineage())
        }
    }
}

/// The run ends when nothing is at work or can begin; sooner when a goal is lost and no handler's
/// branch is still at work (spec decision 18, A13).
fn end_of_run(state: &RunState) -> Option<Event> {
    let goes_on = match lost_goal(state) {
        Some(_) => handler_at_work(state),
        None => state.steps.iter().any(|s| s.phase == StepPhase::Active),
    };
    if goes_on {
        return None;
    }
    let outcome = match lost_goal(state) {
        Some(error) => Outcome::Failed { error: error.clone() },
        None => Outcome::Completed,
    };
    Some(Event::RunEnded { outcome })
}

/// The failure that cost the run its first lost goal.
fn lost_goal(state: &RunState) -> Option<&ErrorContext> {
    let mut goals =
        state.workflow.places().filter(|at| state.definition(*at).is_some_and(|s| s.goal));
    let lost = |at: &StepIx| state.steps.get(at.index()).is_some_and(|s| route::is_lost(s.phase));
    route::cause(state, goals.find(lost)?)
}

/// Whether a handler, or a step that its edges or `after` lead to, has not ended.
fn handler_at_work(state: &RunState) -> bool {
    let mut branch: Vec<bool> = state.steps.iter().map(|s| s.handling).collect();
    let on_branch = |branch: &[bool], at: StepIx| branch.get(at.index()) == Some(&true);
    loop {
        let joins = |at: &StepIx| {
            let after = state.definition(*at).map_or(&[][..], |s| &s.after);
            !on_branch(&branch, *at) && after.iter().any(|from| on_branch(&branch, *from))
        };
        let Some(next) = state.workflow.places().find(joins) else { break };
        branch[next.index()] = true;
    }
    let open = |s: &StepState| matches!(s.phase, StepPhase::Waiting | StepPhase::Active);
    branch.iter().zip(&state.steps).any(|(on, s)| *on && open(s))
}
