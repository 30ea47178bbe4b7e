//! Whether a waiting step is entered, which failures an exception edge catches, and whose a failure
//! is that no edge catches.

use std::collections::BTreeSet;

use super::{RunState, StepPhase, StepState};
use crate::failure::{ErrorContext, is_named};
use crate::workflow::StepIx;

/// What becomes of a waiting step.
pub(super) enum Next {
    Wait,
    Enter,
    /// A failure before it keeps it from ever starting.
    Unreachable,
    /// A choice before it passed it by.
    Skip,
}

/// A step is entered when enough of `after` have succeeded and, where transitions lead to it, one
/// of them was taken; and when everything before it, however far, has ended. So what a step reads
/// has ended before it, and the answer depends on how the steps before it ended, never on which
/// ended first.
pub(super) fn next(state: &RunState, at: StepIx) -> Next {
    let (Some(step), Some(here)) = (state.definition(at), state.steps.get(at.index())) else {
        return Next::Wait;
    };
    let after: Vec<StepPhase> = step.after.iter().filter_map(|s| phase_of(state, *s)).collect();
    let sources: Vec<StepPhase> =
        state.workflow.edges_into(at).filter_map(|t| phase_of(state, t.from)).collect();
    let count = |is: fn(StepPhase) -> bool| after.iter().filter(|p| is(**p)).count();
    let (lost, needed) = (count(is_lost), step.join.of(after.len()));
    let enough = count(|p| p == StepPhase::Succeeded) >= needed;
    let undecided = sources.iter().any(|p| is_open(*p));
    let passed_by = !undecided && !sources.is_empty() && !here.routed;
    if after.len() < needed + lost || passed_by && sources.iter().any(|p| is_lost(*p)) {
        Next::Unreachable
    } else if undecided || count(is_open) > 0 {
        Next::Wait
    } else if !passed_by && !enough && lost > 0 {
        Next::Unreachable
    } else if passed_by || !enough {
        Next::Skip
    } else if is_behind_open(state, at) {
        Next::Wait
    } else {
        Next::Enter
    }
}

/// Whether anything before the step has not ended: behind a lost step something still may be.
fn is_behind_open(state: &RunState, at: StepIx) -> bool {
    let mut seen = BTreeSet::from([at]);
    let mut open = vec![at];
    while let Some(here) = open.pop() {
        let after = state.definition(here).map_or(&[][..], |s| &s.after).iter().copied();
        for from in after.chain(state.workflow.edges_into(here).map(|t| t.from)) {
            match phase_of(state, from) {
                Some(StepPhase::Waiting | StepPhase::Active) => return true,
                // What succeeded or failed by itself was entered when all before it had ended.
                Some(StepPhase::Unreachable | StepPhase::Skipped) if seen.insert(from) => {
                    open.push(from);
                }
                _ => {}
            }
        }
    }
    false
}

/// Whether a failure was routed to the step: its own is never routed again.
pub(super) fn is_handler(state: &RunState, at: StepIx) -> bool {
    let leads_here = |s: &StepState| s.phase == StepPhase::Failed && s.led_to == Some(at);
    state.workflow.edges_into(at).any(|t| state.steps.get(t.from.index()).is_some_and(leads_here))
}

/// Whether a join that can do without the step takes its failure in: one that it leads to through
/// lost steps alone, and that waits or was entered.
pub(super) fn is_taken_in(state: &RunState, at: StepIx) -> bool {
    let mut seen = BTreeSet::from([at]);
    let mut open = vec![at];
    while let Some(here) = open.pop() {
        for to in state.workflow.places() {
            let Some(step) = state.definition(to) else { continue };
            let (phase, follows) = (phase_of(state, to), step.after.contains(&here));
            let barred = matches!(phase, Some(StepPhase::Unreachable | StepPhase::Skipped) | None);
            if follows && !step.join.is_all() && !barred {
                return true;
            }
            let led = || state.workflow.edges_into(to).any(|t| t.from == here);
            let passes_on = matches!(phase, Some(StepPhase::Waiting | StepPhase::Unreachable));
            if passes_on && (follows || led()) && seen.insert(to) {
                open.push(to);
            }
        }
    }
    false
}

/// The failed steps, in text order, whose failure no edge was taken for, no join takes in and no
/// goal decides about.
pub(super) fn unrouted(state: &RunState) -> impl Iterator<Item = &StepState> {
    let goals = state.workflow.has_goals();
    state.workflow.places().zip(&state.steps).filter_map(move |(at, step)| {
        let unrouted = !goals && step.phase == StepPhase::Failed && step.led_to.is_none();
        (unrouted && !is_taken_in(state, at)).then_some(step)
    })
}

/// The failure that made a step fail or unreachable: its own, else that of the first lost step
/// before it. The graph has no cycles, so the walk ends.
pub(super) fn cause(state: &RunState, at: StepIx) -> Option<&ErrorContext> {
    let lost = |from: &StepIx| phase_of(state, *from).is_some_and(is_lost);
    let mut at = at;
    for _ in 0..state.steps.len() {
        let here = state.steps.get(at.index())?;
        if here.error.is_some() {
            return here.error.as_ref();
        }
        let edges = state.workflow.edges_into(at).map(|t| t.from);
        at = state.definition(at)?.after.iter().copied().chain(edges).find(lost)?;
    }
    None
}

fn phase_of(state: &RunState, at: StepIx) -> Option<StepPhase> {
    state.steps.get(at.index()).map(|s| s.phase)
}

pub(super) fn is_lost(phase: StepPhase) -> bool {
    matches!(phase, StepPhase::Failed | StepPhase::Unreachable)
}

fn is_open(phase: StepPhase) -> bool {
    matches!(phase, StepPhase::Waiting | StepPhase::Active)
}

/// Whether an exception edge for `names` catches the failure; no names catch all.
pub(super) fn catches(names: &BTreeSet<String>, error: &ErrorContext, types: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| is_named(&error.code, types, name))
}
