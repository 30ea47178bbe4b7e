//! Whether a waiting step is entered, and which failures an exception edge catches.

use std::collections::BTreeSet;

use super::{RunState, StepPhase};
use crate::failure::ErrorContext;
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

/// A step is entered when all of `after` have succeeded and, where transitions lead to it, all
/// their sources have ended and one of them was taken. So what a step reads has ended before it,
/// and the answer depends on how the steps before it ended, never on which ended first.
pub(super) fn next(state: &RunState, at: StepIx) -> Next {
    let (Some(step), Some(here)) = (state.definition(at), state.steps.get(at.index())) else {
        return Next::Wait;
    };
    let phase_of = |from: StepIx| state.steps.get(from.index()).map(|s| s.phase);
    let after: Vec<StepPhase> = step.after.iter().filter_map(|s| phase_of(*s)).collect();
    let sources: Vec<StepPhase> =
        state.workflow.edges_into(at).filter_map(|t| phase_of(t.from)).collect();
    let undecided = sources.iter().any(|p| is_open(*p));
    let passed_by = !undecided && !sources.is_empty() && !here.routed;
    if after.iter().any(|p| is_lost(*p)) || passed_by && sources.iter().any(|p| is_lost(*p)) {
        Next::Unreachable
    } else if undecided || after.iter().any(|p| is_open(*p)) {
        Next::Wait
    } else if passed_by || after.contains(&StepPhase::Skipped) {
        Next::Skip
    } else {
        Next::Enter
    }
}

/// The failure that made a step fail or unreachable: its own, else that of the first lost step
/// before it. The graph has no cycles, so the walk ends.
pub(super) fn cause(state: &RunState, at: StepIx) -> Option<&ErrorContext> {
    let lost = |from: &StepIx| state.steps.get(from.index()).is_some_and(|s| is_lost(s.phase));
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

pub(super) fn is_lost(phase: StepPhase) -> bool {
    matches!(phase, StepPhase::Failed | StepPhase::Unreachable)
}

fn is_open(phase: StepPhase) -> bool {
    matches!(phase, StepPhase::Waiting | StepPhase::Active)
}

/// Whether an exception edge for `names` catches the failure; no names catch all (R3).
pub(super) fn catches(names: &BTreeSet<String>, error: &ErrorContext, types: &[String]) -> bool {
    names.is_empty()
        || names.contains(error.code.as_str())
        || types.iter().any(|t| names.contains(t))
}
