//! Shapes that are rolled back: steps with compensations, and a failure behind them.

use serde_json::json;

use super::sketch::Sketch;

/// A chain that may fail at its end, steps beside it that may be cut off, and compensations for
/// most.
pub(super) fn saga(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    let fans = sketch.draw.chance(50);
    if fans {
        sketch.fan();
    }
    sketch.step("c", &["b"]);
    if sketch.draw.chance(55) {
        // It never holds, so the steps before it are undone.
        sketch.word("requires", json!({"type": "exists", "field": "state.input.none"}));
    }
    if sketch.draw.chance(70) {
        let beside_the_last = sketch.draw.chance(75);
        sketch.step("d", if beside_the_last { &["b"] } else { &[] });
        // At work when the last one fails, and when all is rolled back.
        if let Some(step) = sketch.draft.steps.last_mut() {
            step.is_slow = true;
        }
    }
    if sketch.draw.chance(30) {
        sketch.step("h", &[]);
        sketch.catch("c", "h", 1, json!(["503", "TIMEOUT", "PRECONDITION_FAILED"]));
    }
    let drawn: Vec<String> = sketch.ids();
    for id in drawn {
        if sketch.draw.chance(75) {
            sketch.step(&format!("undo_{id}"), &[]);
            sketch.word("compensates", json!(id));
            sketch.arg("undone", json!("${result}"));
            if fans && id == "b" {
                sketch.arg("index", json!("${index}"));
            }
        }
    }
    let when = ["on_failure", "on_failure", "on_failure", "always", "always", "on_cancel", "never"];
    let when = sketch.draw.pick(when);
    sketch.rolls_back(when);
}
