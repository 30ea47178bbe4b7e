//! C6: each condition over the run's state, on a step that succeeded and on one that failed.

use super::*;

/// Whether an edge out of `a` with this condition is taken when `a` gives `shot`.
fn taken(condition: &Value, shot: Shot) -> bool {
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.when(("a", "b"), 0, condition.clone()).build();
    phase(&plays(flow, [("a", 0, vec![shot])]), "b") == StepPhase::Succeeded
}

#[test]
fn c6_conditions_on_a_success() {
    let result = || gives(json!({"n": 5, "list": [1, {"x": null}], "off": false, "text": "5"}));
    let check = |condition: Value, expected: bool| {
        assert_eq!(taken(&condition, result()), expected, "{condition}");
    };
    let at = |path: &str| format!("state.steps.a.result{path}");
    let eq = |path: &str, value: Value| json!({"type": "eq", "field": at(path), "value": value});
    let exists = |path: &str| json!({"type": "exists", "field": at(path)});
    let holds = || eq(".n", json!(5));
    let fails = || eq(".n", json!(6));
    check(exists(".n"), true);
    check(exists(".off"), true);
    check(exists(".list.1"), true);
    check(exists(".list.1.x"), false);
    check(exists(".list.2"), false);
    check(exists(".m"), false);
    check(json!({"type": "exists", "field": {"type": "field", "path": at(".n")}}), true);
    check(holds(), true);
    check(fails(), false);
    check(eq(".n", json!("5")), false);
    check(eq(".text", json!("5")), true);
    check(eq(".m", Value::Null), false);
    check(json!({"type": "in", "field": at(".n"), "values": [4, 5]}), true);
    check(json!({"type": "in", "field": at(".n"), "values": [4, "5"]}), false);
    check(json!({"type": "in", "field": at(".n"), "values": []}), false);
    check(json!({"type": "not", "condition": holds()}), false);
    check(json!({"type": "not", "condition": fails()}), true);
    let all = |parts: &[Value]| json!({"type": "and", "conditions": parts});
    let any = |parts: &[Value]| json!({"type": "or", "conditions": parts});
    check(all(&[holds(), exists(".n")]), true);
    check(all(&[holds(), fails()]), false);
    check(all(&[]), true);
    check(any(&[fails(), holds()]), true);
    check(any(&[fails(), fails()]), false);
    check(any(&[]), false);
    check(all(&[any(&[fails(), holds()]), json!({"type": "not", "condition": fails()})]), true);
}

/// `_last_error.code` and the rest of the record can be matched.
#[test]
fn c6_conditions_on_a_failure() {
    let check = |condition: Value, expected: bool| {
        let shot = fails(Failure::http(429, "slow down"));
        let flow = Flow::new().step("a", once()).step("b", once());
        let flow = flow.when(("a", "b"), 0, condition.clone()).build();
        let world = plays(flow, [("a", 0, vec![shot])]);
        assert_eq!(phase(&world, "b") == StepPhase::Succeeded, expected, "{condition}");
    };
    let field = |name: &str| format!("state._last_error{name}");
    check(json!({"type": "exists", "field": field("")}), true);
    check(json!({"type": "eq", "field": field(".code"), "value": "429"}), true);
    check(json!({"type": "eq", "field": field(".code"), "value": "503"}), false);
    check(json!({"type": "in", "field": field(".code"), "values": ["503", "429"]}), true);
    check(json!({"type": "eq", "field": field(".retryable"), "value": true}), true);
    check(json!({"type": "eq", "field": field(".node_id"), "value": "a"}), true);
    check(json!({"type": "eq", "field": field(".attempt"), "value": 1}), true);
    check(json!({"type": "exists", "field": field(".stack_trace")}), false);
    let exists = json!({"type": "exists", "field": field("")});
    check(json!({"type": "not", "condition": exists}), false);
}
