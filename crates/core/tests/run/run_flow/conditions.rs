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

/// What a fanned-out step left, whole and in parts; item 1 fails.
#[test]
fn c6_conditions_on_what_a_fan_out_left() {
    let check = |path: &str, value: Value, expected: bool| {
        let condition =
            json!({"type": "eq", "field": format!("state.steps.f{path}"), "value": value});
        let flow = Flow::new().step("f", once()).for_each(json!([1, 2])).success(json!("any"));
        let flow = flow.step("b", once()).when(("f", "b"), 0, condition.clone()).build();
        let world = plays(flow, [("f", 0, vec![gives(json!("one"))]), ("f", 1, vec![status(500)])]);
        assert_eq!(phase(&world, "b") == StepPhase::Succeeded, expected, "{condition}");
    };
    check(".result", json!(["one", null]), true);
    check(".result", json!(["one"]), false);
    check(".result", json!(["one", "two"]), false);
    check(".result", json!({"0": "one", "1": null}), false);
    check(".result.0", json!("one"), true);
    check(".result.2", Value::Null, false);
    check(".result.first", json!("one"), false);
    check(".succeeded", json!(1), true);
    check(".failed", json!(1), true);
    check(".errors.0.item", json!(1), true);
    check(".errors.0.error.code", json!("500"), true);
    check("", json!({"result": ["one", null], "succeeded": 1, "failed": 1, "errors": []}), false);
    check("", json!(["one", null]), false);

    // A step with one task has its result alone.
    let condition = |value: Value| json!({"type": "eq", "field": "state.steps.a", "value": value});
    let one = || gives(json!(7));
    assert!(taken(&condition(json!({"result": 7})), one()));
    assert!(!taken(&condition(json!({"result": 8})), one()));
    assert!(!taken(&condition(json!({"result": 7, "failed": 0})), one()));
    assert!(!taken(&condition(json!(7)), one()));
}
