//! What follows from where the tasks stand: steps end, edges are taken, steps begin, the run ends.

use super::ends::{end_of_step, step_refused};
use super::route::{self, Next};
use super::view::View;
use super::{Event, Outcome, Phase, RunState, StepPhase, StepState, rollback};
use crate::failure::{ErrorContext, Failure};
use crate::time::Timestamp;
use crate::workflow::StepIx;

/// The most items that one step fans out over.
pub(super) const MAX_ITEMS: usize = 10_000;

/// The events that follow from the state alone, one stage of them; none when it is at rest. To be
/// applied and asked again.
#[must_use]
pub fn advance(state: &RunState, now: Timestamp) -> Vec<Event> {
    if matches!(state.phase, Phase::Ended(_)) {
        return Vec::new();
    }
    if let Some(rollback) = &state.rollback {
        return rollback::advance(state, rollback);
    }
    let places = || state.workflow.places();
    if let Some(events) = places().find_map(|at| end_of_step(state, at, now)) {
        return events;
    }
    if let Some(events) = places().find_map(|at| begin_of_step(state, at, now)) {
        return events;
    }
    end_of_run(state).into_iter().collect()
}

/// A waiting step is entered, or turns out never to be.
fn begin_of_step(state: &RunState, at: StepIx, now: Timestamp) -> Option<Vec<Event>> {
    let waits = state.steps.get(at.index())?.phase == StepPhase::Waiting;
    if !waits || state.definition(at)?.compensates.is_some() {
        return None;
    }
    match route::next(state, at) {
        Next::Wait => None,
        Next::Unreachable => Some(vec![Event::StepUnreachable { step: at }]),
        Next::Skip => Some(vec![Event::StepSkipped { step: at }]),
        Next::Enter => Some(enter(state, at, now)),
    }
}

/// The step begins, unless what it requires does not hold or its list is none.
fn enter(state: &RunState, at: StepIx, now: Timestamp) -> Vec<Event> {
    let Some(step) = state.definition(at) else { return Vec::new() };
    let view = View::of_step(state, at);
    if step.requires.as_ref().is_some_and(|c| !c.holds(&view)) {
        let failure = Failure::precondition("what the step requires does not hold");
        return step_refused(state, at, &failure, now);
    }
    let items = match &step.for_each {
        None => Ok(1),
        Some(list) => match list.items(&view) {
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
            step_refused(state, at, &failure, now)
        }
    }
}

/// The run ends when nothing is at work or can begin; sooner when a failure turns out to be
/// nobody's, or when a goal is lost and no handler's branch is still at work.
fn end_of_run(state: &RunState) -> Option<Event> {
    let lost = lost_goal(state);
    let nobodys = route::unrouted(state).find_map(|s| s.error.as_ref());
    let goes_on = match (nobodys, lost) {
        (Some(_), _) => false,
        (None, Some(_)) => handler_at_work(state),
        (None, None) => state.steps.iter().any(|s| s.phase == StepPhase::Active),
    };
    if goes_on {
        return None;
    }
    let outcome = match nobodys.or(lost) {
        Some(error) => Outcome::Failed { error: error.clone() },
        None => Outcome::Completed,
    };
    Some(rollback::conclude(state, outcome))
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
