//! Shapes of workflows: each is valid and covers another part of the routing rules.

use serde_json::{Map, json};

use super::sketch::{Draft, Sketch, failed, fine};
use super::{Draw, Swarm, partial_success, sagas, webs};

/// The `n`-th workflow of a scenario.
pub(super) fn draw(draw: &mut Draw, swarm: &Swarm, n: u64) -> Draft {
    let shapes: [fn(&mut Sketch<'_>); 19] = [
        single,
        chain,
        fan,
        fan,
        diamond,
        handler,
        by_code,
        exceptions,
        goals,
        parallel,
        long,
        program,
        partial_success::fan,
        partial_success::join,
        partial_success::gather,
        sagas::saga,
        sagas::saga,
        webs::web,
        webs::web,
    ];
    let shape = draw.pick(shapes);
    let word = draw.pick(["plain", "über \"and\" out", "two\nlines"]);
    let mut input = Map::from_iter([("n".to_owned(), json!(n)), ("word".to_owned(), json!(word))]);
    if let (Some(secret), true) = (swarm.secrets.get(1), draw.chance(40)) {
        // What is in a list is shown no more than what has a name.
        let key = draw.pick(["password", "api_key", "token", "notes"]);
        let is_list = key == "notes";
        input.insert(key.to_owned(), if is_list { json!([secret, 1]) } else { json!(secret) });
    }
    let draft = Draft { name: format!("w{n}"), input, ..Draft::default() };
    let mut sketch = Sketch { draw, swarm, draft };
    shape(&mut sketch);
    let plain = !sketch.draft.is_program && sketch.draft.rollback.is_none();
    if plain && sketch.draw.chance(12) {
        partial_success::conditions(&mut sketch);
    }
    sketch.draft
}

fn single(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
}

fn chain(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    if sketch.draw.chance(50) {
        sketch.step("c", &["b"]);
    }
}

/// A fan-out, before or after another step.
fn fan(sketch: &mut Sketch<'_>) {
    if sketch.draw.chance(50) {
        sketch.step("a", &[]);
        sketch.step("b", &["a"]);
    } else {
        sketch.step("b", &[]);
    }
    sketch.fan();
    if sketch.draw.chance(50) {
        sketch.step("c", &["b"]);
    }
}

/// Two branches and a join.
fn diamond(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    sketch.step("c", &["a"]);
    if sketch.draw.chance(40) {
        sketch.fan();
    }
    sketch.step("d", &["b", "c"]);
}

/// Test 3 of Capability 5: a success path and an error handler.
fn handler(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &[]);
    sketch.step("c", &[]);
    sketch.edge("a", "b", 1, Some(fine()));
    sketch.edge("a", "c", 2, Some(failed()));
    if sketch.draw.chance(50) {
        sketch.step("d", &[]);
        sketch.edge("c", "d", 1, None);
    } else if sketch.draw.chance(70) {
        // A handler's success clears the error, and its failure ends the run: no outcome leads to
        // `f`.
        sketch.step("d", &[]);
        sketch.step("f", &[]);
        sketch.edge("c", "f", 1, Some(failed()));
        sketch.edge("c", "d", 2, Some(fine()));
    }
    if sketch.draw.chance(30) {
        // A step after a handler has no error to handle, and may fail itself.
        sketch.step("e", &["c"]);
    }
}

/// Handlers by code, the first by priority.
fn by_code(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &[]);
    sketch.step("c", &[]);
    sketch.step("d", &[]);
    let codes =
        sketch.draw.pick([json!(["503", "500"]), json!(["TIMEOUT"]), json!(["WORK_FAILED"])]);
    let code = "state._last_error.code";
    sketch.edge("a", "b", 5, Some(failed()));
    sketch.edge("a", "c", 1, Some(json!({"type": "in", "field": code, "values": codes})));
    let network = json!({"type": "eq", "field": code, "value": "NETWORK_ERROR"});
    let either = json!({"type": "or", "conditions": [network, {"type": "eq", "field": code, "value": "400"}]});
    sketch.edge("a", "d", 3, Some(json!({"type": "and", "conditions": [failed(), either]})));
}

/// Exception edges by type and code, and one for every failure; they go before a transition that
/// asks for the error.
fn exceptions(sketch: &mut Sketch<'_>) {
    for id in ["a", "b", "c", "d", "e"] {
        sketch.step(id, &[]);
    }
    let errors = [
        json!(["TimeoutError", "503"]),
        json!("HTTPError"),
        json!(["ConnectionError", "BAD_RESPONSE"]),
        json!(["ValueError", "WORK_FAILED"]),
    ];
    let errors = sketch.draw.pick(errors);
    sketch.catch("a", "b", 2, errors);
    if sketch.draw.chance(50) {
        sketch.catch("a", "c", 5, json!(true));
    }
    sketch.edge("a", "d", 7, Some(failed()));
    sketch.edge("a", "e", 1, None);
}

/// A goal behind one path, and side steps that it does not need.
fn goals(sketch: &mut Sketch<'_>) {
    sketch.step("a", &[]);
    sketch.step("b", &["a"]);
    sketch.goal();
    sketch.step("c", &["a"]);
    if sketch.draw.chance(40) {
        sketch.step("d", &[]);
        sketch.edge("c", "d", 1, Some(failed()));
    }
}

/// Branches that have nothing to do with each other.
fn parallel(sketch: &mut Sketch<'_>) {
    let ids = ["a", "b", "c", "d"];
    let count = sketch.draw.index(3) + 2;
    for id in ids.iter().take(count) {
        sketch.step(id, &[]);
        if sketch.draw.chance(30) {
            sketch.fan();
        }
    }
}

/// Rarely something larger.
fn long(sketch: &mut Sketch<'_>) {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let count = sketch.draw.index(5) + 4;
    for (at, id) in ids.iter().enumerate().take(count) {
        let mut before = ids[..at].to_vec();
        while before.len() > 2 {
            let gone = sketch.draw.index(before.len());
            before.remove(gone);
        }
        sketch.step(id, &before);
        if sketch.draw.chance(25) {
            sketch.fan();
        }
    }
}

/// Shapes that an IR program can express.
fn program(sketch: &mut Sketch<'_>) {
    sketch.draft.is_program = true;
    let shapes: [fn(&mut Sketch<'_>); 5] = [single, chain, diamond, parallel, long];
    let shape = sketch.draw.pick(shapes);
    shape(sketch);
}
