//! Which compensations are valid: each undoes one step of the ordinary flow and is no part of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Step, StepIx, WorkflowError, WorkflowParts};

/// When a run rolls back by itself: it runs the compensations of what succeeded before it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rollback {
    /// Only on request.
    #[default]
    Never,
    /// When it would end failed.
    OnFailure,
    /// When it is cancelled.
    OnCancel,
    /// Whenever it would end otherwise than completed.
    Always,
}

impl Rollback {
    /// Whether a failed run rolls back.
    #[must_use]
    pub fn on_failure(self) -> bool {
        matches!(self, Self::OnFailure | Self::Always)
    }

    /// Whether a cancelled run rolls back.
    #[must_use]
    pub fn on_cancel(self) -> bool {
        matches!(self, Self::OnCancel | Self::Always)
    }

    pub(super) fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// Each compensation names a step of the ordinary flow that no other compensates, and has no place
/// in that flow itself.
pub(super) fn check(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    let mut undone = BTreeSet::new();
    let edges = parts.transitions.iter().flat_map(|t| [t.from, t.to]).collect();
    let waited = parts.steps.iter().flat_map(|s| s.after.iter().copied()).collect();
    for (step, s) in parts.steps.iter().enumerate() {
        let Some(of) = s.compensates else { continue };
        let id = || s.id.clone();
        let Some(target) = parts.steps.get(of.index()) else {
            return Err(WorkflowError::UnknownStep {
                what: format!("`compensates` of step `{}`", s.id),
            });
        };
        if target.compensates.is_some() {
            let of = target.id.clone();
            return Err(WorkflowError::CompensatesCompensation { step, id: id(), of });
        }
        if !undone.insert(of) {
            let of = target.id.clone();
            return Err(WorkflowError::CompensatedTwice { step, id: id(), of });
        }
        if let Some(what) = out_of_place(s, step, &edges, &waited) {
            return Err(WorkflowError::CompensationInFlow { step, id: id(), what });
        }
    }
    Ok(())
}

/// What would give a compensation a place in the ordinary flow.
fn out_of_place(
    s: &Step,
    step: usize,
    edges: &BTreeSet<StepIx>,
    waited: &BTreeSet<StepIx>,
) -> Option<&'static str> {
    let has = |set: &BTreeSet<StepIx>| u16::try_from(step).is_ok_and(|n| set.contains(&StepIx(n)));
    let said = [
        (!s.after.is_empty(), "`after`"),
        (!s.join.is_all(), "`join`"),
        (s.for_each.is_some(), "`for_each`"),
        (s.fail_fast, "`fail_fast`"),
        (s.goal, "`goal`"),
        (s.requires.is_some(), "`requires`"),
        (has(edges), "a transition"),
        (has(waited), "steps after it"),
    ];
    said.into_iter().find_map(|(is_said, what)| is_said.then_some(what))
}
