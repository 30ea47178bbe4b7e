//! Whether a waiting step is entered, and which failures an exception edge catches.

use std::collections::BTreeSet;

use super::{RunState, StepPhase, StepState, TaskPhase, TaskState};
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

/// A step is entered when all of `after` have succeeded and, where transitions lead to it, one of
/// them was taken.
pub(super) fn next(state: &RunState, at: StepIx) -> Next {
    let Some(step) = state.definition(at) else { return Next::Wait };
    let phase_of = |from: &StepIx| state.steps.get(from.index()).map(|s| s.phase);
    let after: Vec<StepPhase> = step.after.iter().filter_map(phase_of).collect();
    if after.iter().any(|p| is_lost(*p)) {
        return Next::Unreachable;
    }
    if after.contains(&StepPhase::Skipped) {
        return Next::Skip;
    }
    let mut sources = state.workflow.edges_into(at).filter_map(|t| phase_of(&t.from)).peekable();
    let here: Option<&StepState> = state.steps.get(at.index());
    if sources.peek().is_some() && !here.is_some_and(|s| s.routed) {
        let sources: Vec<StepPhase> = sources.collect();
        return match sources.as_slice() {
            open if open.iter().any(|p| is_open(*p)) => Next::Wait,
            ended if ended.iter().any(|p| is_lost(*p)) => Next::Unreachable,
            _ => Next::Skip,
        };
    }
    if after.iter().all(|p| *p == StepPhase::Succeeded) { Next::Enter } else { Next::Wait }
}

fn is_lost(phase: StepPhase) -> bool {
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

/// The lineage of the failure that failed the step.
pub(super) fn error_types(state: &RunState, at: StepIx) -> Vec<String> {
    let failed = |t: &&TaskState| matches!(t.phase, TaskPhase::Failed { .. });
    let first = state.steps.get(at.index()).and_then(|s| s.tasks.iter().find(failed));
    first.and_then(|t| t.failure.as_ref()).map(|f| f.lineage().to_vec()).unwrap_or_default()
}
