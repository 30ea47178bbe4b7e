//! The results of a completed run, masked: endpoints may put secrets into them.

use retrial::observe::json::masked;
use retrial::run::{RunState, StepPhase};
use retrial::workflow::StepIx;

/// One line for each goal; without goals, one for each step that no other step followed.
pub(super) fn lines(state: &RunState) -> Vec<String> {
    let workflow = state.workflow();
    let shown = workflow.places().filter(|at| match workflow.step(*at) {
        Some(step) if step.compensates.is_some() => false,
        Some(step) if workflow.has_goals() => step.goal,
        _ => is_last(state, *at),
    });
    shown.filter_map(|at| line(state, at)).collect()
}

fn line(state: &RunState, at: StepIx) -> Option<String> {
    let left = state.left_by(at)?;
    let step = &state.workflow().step(at)?.id;
    Some(format!("Result of {step}: {}", masked(left.get("result")?)))
}

/// Whether the step succeeded and no step came after it.
fn is_last(state: &RunState, at: StepIx) -> bool {
    let workflow = state.workflow();
    let follows = |next: StepIx| {
        let after = workflow.step(next).is_some_and(|step| step.after.contains(&at));
        after || workflow.edges_into(next).any(|edge| edge.from == at)
    };
    let phase = |at: StepIx| state.steps().get(at.index()).map(|step| step.phase);
    let began = |at| {
        matches!(phase(at), Some(StepPhase::Active | StepPhase::Succeeded | StepPhase::Failed))
    };
    phase(at) == Some(StepPhase::Succeeded)
        && !workflow.places().any(|next| follows(next) && began(next))
}
