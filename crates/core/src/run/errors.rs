//! Which errors a branch sees: the last one, and all that no success has cleared.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{RunState, StepPhase, TaskPhase, route};
use crate::failure::ErrorContext;
use crate::workflow::StepIx;

/// The failed steps that `at`'s branches come from: those routed to it, those before it that a join
/// does without, and behind each of them those that it had not cleared either. A success clears
/// what came before it.
pub(super) fn uncleared(state: &RunState, at: StepIx) -> BTreeSet<StepIx> {
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::from([at]));
    let mut open = vec![at];
    while let Some(here) = open.pop() {
        for from in lost_before(state, here) {
            if phase_of(state, from) == Some(StepPhase::Failed) {
                found.insert(from);
            }
            if seen.insert(from) {
                open.push(from);
            }
        }
    }
    found
}

fn phase_of(state: &RunState, at: StepIx) -> Option<StepPhase> {
    state.steps.get(at.index()).map(|s| s.phase)
}

/// The lost steps one edge before `at`. An edge from a failed step that was not taken leads nowhere,
/// unless nothing led here at all.
fn lost_before(state: &RunState, at: StepIx) -> Vec<StepIx> {
    let unreachable = phase_of(state, at) == Some(StepPhase::Unreachable);
    let after = state.definition(at).map_or(&[][..], |s| &s.after).iter().copied();
    let taken = |from: StepIx| state.steps.get(from.index()).is_some_and(|s| s.led_to == Some(at));
    let edges = state.workflow.edges_into(at).map(|t| t.from).filter(|f| unreachable || taken(*f));
    let lost = |from: &StepIx| phase_of(state, *from).is_some_and(route::is_lost);
    after.chain(edges).filter(lost).collect()
}

/// `_last_error` of the step: the failure that was routed to it last, else at a join the latest of
/// the branches that it does without.
pub(super) fn last(state: &RunState, at: StepIx) -> Option<&ErrorContext> {
    let here = state.steps.get(at.index())?;
    if here.last_error.is_some() || state.definition(at)?.join.is_all() {
        return here.last_error.as_ref();
    }
    let failed = uncleared(state, at).into_iter().filter_map(|s| state.steps.get(s.index()));
    failed.max_by_key(|s| s.ended)?.error.as_ref()
}

/// `_errors` of the step, and of its own failure `own` where it has just failed: each failed task's
/// record, by step in text order and then by item, or the step's own where no task of it failed.
/// `None` where there is none.
pub(super) fn all(state: &RunState, at: StepIx, own: Option<&ErrorContext>) -> Option<Value> {
    let mut steps = uncleared(state, at);
    if own.is_some() {
        steps.insert(at);
    }
    let of_step =
        |step: StepIx| if step == at { of(state, step, own) } else { of(state, step, None) };
    let errors: Vec<Value> = steps.into_iter().flat_map(of_step).collect();
    (!errors.is_empty()).then_some(Value::Array(errors))
}

fn of(state: &RunState, at: StepIx, own: Option<&ErrorContext>) -> Vec<Value> {
    let Some(step) = state.steps.get(at.index()) else { return Vec::new() };
    let fans_out = state.workflow.fans_out(at);
    let failed = (0_u32..).zip(&step.tasks).filter_map(|(item, task)| match &task.phase {
        TaskPhase::Failed { error } => Some(described(error, fans_out.then_some(item))),
        _ => None,
    });
    let failed: Vec<Value> = failed.collect();
    match own.or(step.error.as_ref()) {
        Some(error) if failed.is_empty() => vec![described(error, None)],
        _ => failed,
    }
}

fn described(error: &ErrorContext, item: Option<u32>) -> Value {
    let mut value = serde_json::to_value(error).unwrap_or_default();
    if let (Some(fields), Some(item)) = (value.as_object_mut(), item) {
        fields.insert("item".to_owned(), json!(item));
    }
    value
}
