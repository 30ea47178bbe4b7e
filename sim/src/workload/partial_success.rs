//! Shapes that may fail in part: fan-outs and joins that need only some successes, handlers of
//! several branches, and preconditions and postconditions of steps.

use serde_json::{Value, json};

use super::sketch::Sketch;

pub(super) fn quorum(sketch: &mut Sketch<'_>, most: u64) -> Value {
    match sketch.draw.below(3) {
        0 => json!("any"),
        1 => json!({"at_least": 1}),
        _ => json!({"at_least": sketch.draw.between(1, most)}),
    }
}

/// A fan-out that may succeed in part, and what follows it or handles it.
pub(super) fn fan(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.fan();
    let success = quorum(sketch, 4);
    sketch.word("success", success);
    if sketch.draw.chance(50) {
        sketch.step("b", &["a"]);
    } else {
        sketch.step("b", &[]);
        sketch.arg("errors", json!("${_errors}"));
        let errors = sketch.draw.pick([json!(true), json!(["TOO_FEW_SUCCEEDED", "503"])]);
        sketch.catch("a", "b", 1, errors);
    }
}

/// Branches, and a join that can do without some of them.
pub(super) fn join(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &[]);
    if sketch.draw.chance(30) {
        sketch.fan();
    }
    sketch.step("c", &["a"]);
    let before: &[&str] = if sketch.draw.chance(50) { &["b", "c"] } else { &["a", "b", "c"] };
    sketch.step("d", before);
    let join = quorum(sketch, before.len() as u64);
    sketch.word("join", join);
    sketch.arg("errors", json!("${_errors}"));
    match sketch.draw.below(4) {
        // The goal is reached without some of the branches.
        0 => sketch.word("goal", json!(true)),
        1 => {
            sketch.step("e", &["d"]);
            sketch.arg("errors", json!("${_errors}"));
        }
        2 => {
            sketch.step("e", &[]);
            sketch.arg("errors", json!("${_errors}"));
            sketch.catch("d", "e", 1, json!(true));
        }
        _ => {}
    }
}

/// One handler for several branches, and conditions over all of their errors.
pub(super) fn gather(sketch: &mut Sketch<'_>) {
    for id in ["a", "b", "c"] {
        sketch.step(id, &[]);
        if sketch.draw.chance(30) {
            sketch.fan();
        }
    }
    sketch.step("d", &[]);
    sketch.arg("errors", json!("${_errors}"));
    sketch.step("e", &[]);
    for id in ["a", "b", "c"] {
        let code = "state._errors.0.code";
        let first = json!({"type": "in", "field": code, "values": ["503", "500", "TIMEOUT"]});
        sketch.edge(id, "e", 1, Some(first));
        sketch.catch(id, "d", 2, json!(true));
    }
}

/// A precondition and a postcondition for the last step.
pub(super) fn conditions(sketch: &mut Sketch<'_>) {
    if sketch.draw.chance(50) {
        let n = sketch.draw.pick(["n", "n", "none"]);
        let field = format!("state.input.{n}");
        sketch.word("requires", json!({"type": "exists", "field": field}));
    } else {
        let value = json!({"type": "exists", "field": "state.result.value"});
        sketch.word("ensures", json!({"type": "not", "condition": value}));
    }
}
