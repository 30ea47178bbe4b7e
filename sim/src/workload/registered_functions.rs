//! Actions that are registered functions. Drawn from a separate stream and rarely: most actions are
//! endpoints.

use serde_json::json;

use std::collections::BTreeSet;

use super::sketch::Draft;
use super::{Draw, workflow_text};
use crate::scenario::{MissingFunction, Topology};

/// The functions that every simulated program has: one for each step that is ever drawn.
pub fn names() -> impl Iterator<Item = String> {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    ids.into_iter().flat_map(|id| [format!("do_{id}"), format!("do_undo_{id}")])
}

/// Sometimes one of several nodes has not all functions: the others run what needs them.
pub(super) fn missing_functions(
    seed: u64,
    topology: Topology,
    drafts: &[Draft],
) -> Vec<MissingFunction> {
    let mut draw = Draw::new(seed, "lacking");
    let Topology::Shared { nodes } = topology else { return Vec::new() };
    let nodes = nodes.get();
    if !draw.chance(50) {
        return Vec::new();
    }
    let node = draw.small(0, nodes - 1);
    let functions = drafts.iter().flat_map(|d| &d.steps).filter(|step| step.is_function);
    let names: BTreeSet<String> = functions.map(workflow_text::action_name).collect();
    let missing_functions = names.into_iter().filter(|_| draw.chance(50));
    missing_functions.map(|function| MissingFunction { node, function }).collect()
}

/// Makes some steps of some seeds call functions. Not steps with a postcondition, which is about
/// the endpoint's answer, and not programs, which can't name a function's endpoint.
pub(super) fn draw(seed: u64, drafts: &mut [Draft]) {
    let mut draw = Draw::new(seed, "registered");
    if !draw.chance(15) {
        return;
    }
    for draft in drafts.iter_mut().filter(|draft| !draft.is_program) {
        for step in draft.steps.iter_mut().filter(|s| !s.words.contains_key("ensures")) {
            if !draw.chance(60) {
                continue;
            }
            step.is_function = true;
            step.more.insert("to".to_owned(), json!(step.path));
            step.action.remove("headers");
            if draw.chance(60) {
                let limit = draw.pick(["600ms", "1500ms", "5s"]);
                let own = draw.chance(30) && step.shares.is_none();
                let table = if own { &mut step.words } else { &mut step.action };
                table.insert("heartbeat_timeout".to_owned(), json!(limit));
            }
        }
    }
}
