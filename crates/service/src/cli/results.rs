//! The results of a completed run. Endpoints may put secrets into them: what looks like one is masked.

use std::process::ExitCode;

use retrial::failure::sanitise;
use retrial::observe::json::masked;
use retrial::run::{RunState, StepPhase};
use retrial::store::{RunHead, RunPhase};
use retrial::workflow::StepIx;
use serde_json::Value;

use super::error::CliError;
use super::output::{json_line, print};
use super::resume::{self, UnfinishedRun};

/// How much of a result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// All but what looks like a secret.
    Values,
    /// Only its shape.
    Shape,
}

impl Shown {
    fn of(self, result: &Value) -> Value {
        match self {
            Self::Values => sanitise::value(result),
            Self::Shape => masked(result),
        }
    }
}

/// One line for each goal; without goals, one for each step that no other step followed.
pub(super) fn lines(state: &RunState, how: Shown) -> Vec<String> {
    let workflow = state.workflow();
    let shown = workflow.places().filter(|at| match workflow.step(*at) {
        Some(step) if step.compensates.is_some() => false,
        Some(step) if workflow.has_goals() => step.goal,
        _ => is_last(state, *at),
    });
    shown.filter_map(|at| line(state, at, how)).collect()
}

fn line(state: &RunState, at: StepIx, how: Shown) -> Option<String> {
    let left = state.left_by(at)?;
    let step = &state.workflow().step(at)?.id;
    Some(format!("Result of {step}: {}", json_line(&how.of(left.get("result")?))))
}

/// Prints the outcome of a run that has ended, under whose key it was submitted again.
pub(super) fn of_ended(
    left: &UnfinishedRun,
    head: &RunHead,
    how: Shown,
) -> Result<ExitCode, CliError> {
    let (run, name, phase) = (left.run(), left.workflow(), resume::phase(head.phase));
    print(&format!("Run {run} of {name} was submitted under this key before: {phase}.\n"))?;
    if head.phase != RunPhase::Completed {
        return Ok(ExitCode::FAILURE);
    }
    lines(left.state(), how).iter().try_for_each(|line| print(&format!("{line}\n")).map(drop))?;
    Ok(ExitCode::SUCCESS)
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
