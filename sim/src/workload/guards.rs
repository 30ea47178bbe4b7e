//! Guards of actions. Drawn from a separate stream and rarely: most seeds have none.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Draw;
use super::sketch::Draft;

/// Guards some actions of some seeds. Workflows that use the same action guard it alike, so that
/// its state is theirs together.
pub(super) fn draw(seed: u64, drafts: &mut [Draft]) {
    let mut draw = Draw::new(seed, "guards");
    if !draw.chance(18) {
        return;
    }
    let mut drawn: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for step in drafts.iter_mut().flat_map(|draft| &mut draft.steps) {
        let guards = drawn.entry(step.id.clone()).or_insert_with(|| guards(&mut draw));
        step.action.extend(guards.clone());
    }
}

fn guards(draw: &mut Draw) -> Map<String, Value> {
    let mut guards = Map::new();
    let mut add = |name: &str, value: Value| {
        guards.insert(name.to_owned(), value);
    };
    if draw.chance(35) {
        add("breaker", breaker(draw));
    }
    if draw.chance(30) {
        add("concurrency", json!(draw.between(1, 3)));
    }
    if draw.chance(20) {
        let per = draw.pick(["300ms", "1s", "2s"]);
        add("rate", json!({"calls": draw.between(1, 4), "per": per}));
    }
    if draw.chance(40) {
        add("retry_budget", budget(draw));
    }
    guards
}

fn breaker(draw: &mut Draw) -> Value {
    let open = draw.pick(["200ms", "1s", "3s"]);
    let probes = draw.pick([1, 1, 2]);
    let mut breaker = json!({"open": open, "probes": probes});
    let (by_row, by_rate) = draw.pick([(true, false), (true, false), (false, true), (true, true)]);
    if by_row {
        breaker["failures"] = json!(draw.between(1, 3));
    }
    if by_rate {
        breaker["rate"] = draw.pick([json!(0.5), json!(0.25), json!(1)]);
        breaker["window"] = json!(draw.pick(["1s", "5s"]));
        breaker["min_calls"] = json!(draw.between(1, 4));
    }
    breaker
}

fn budget(draw: &mut Draw) -> Value {
    let ratio = draw.pick([0.1, 0.25, 0.5]);
    let initial = draw.pick([0, 0, 1, 2]);
    match draw.below(9) {
        0..=1 => json!({"ratio": ratio, "initial": initial}),
        2 => json!({"first_success": 1, "refund": true, "initial": initial, "capacity": 3}),
        3 => json!({"ratio": ratio, "initial": initial, "capacity": 4, "throttling_cost": 2}),
        4..=5 => json!({"ratio": ratio, "initial": initial, "on_denied": "wait"}),
        8 => {
            json!({"first_success": 1, "refund": true, "initial": initial, "capacity": 3, "scope": "group"})
        }
        _ => json!({"ratio": ratio, "initial": initial, "scope": "group"}),
    }
}
