//! What steps require and ensure (H10).

use insta::assert_snapshot;

use super::*;

fn eq(field: &str, value: Value) -> Value {
    json!({"type": "eq", "field": field, "value": value})
}

#[test]
fn h10_a_precondition_is_judged_once_and_never_retried() {
    let flow = Flow::new().step("a", once()).step("b", doubling(5)).after(&["a"]);
    let flow = flow.requires(eq("state.steps.a.result.open", json!(true)));
    let flow = flow.step("h", once()).on_error(("b", "h"), 0, &["PRECONDITION_FAILED"]);
    let flow = flow.args(
        json!({"attempt": "${_last_error.attempt}", "retryable": "${_last_error.retryable}"}),
    );
    let mut world = set(flow.build(), [("a", 0, vec![gives(json!({"open": false}))])]);
    world.run_to(1);
    let seen = world.state.prepare(task(2, 0)).expect("the handler is in progress").args;
    assert_eq!(seen, json!({"attempt": 0, "retryable": false}));
    world.run(100);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s succeeded a #1
    1s step succeeded a
    1s step failed b PRECONDITION_FAILED
    1s routed b -> h on failure
    1s entered h x1
    1s started h #1 left=0
    2s succeeded h #1
    2s step succeeded h
    2s ended completed
    ");
}

#[test]
fn h10_a_precondition_that_holds_is_not_looked_at_again() {
    // The retries of an attempt, long after, do not ask for it.
    let flow = Flow::new().step("b", doubling(2)).requires(eq("state.input.yes", json!(true)));
    let mut world =
        World::with_input(flow.build(), 7, [("yes".to_owned(), json!(true))].into_iter().collect());
    world.script("b", 0, [status(500)]);
    assert!(world.run(100));
    assert_eq!(world.state.outcome(), Some(&Outcome::Completed));
}

#[test]
fn h10_h17_a_broken_postcondition_fails_the_attempt_and_is_retried_with_it() {
    let flow = Flow::new().step("a", doubling(3)).ensures(eq("state.result.ready", json!(true)));
    let flow = flow.step("n", once()).after(&["a"]).args(json!("${steps.a.result}")).build();
    let not_yet = || gives(json!({"ready": false}));
    let mut world =
        set(flow, [("a", 0, vec![not_yet(), not_yet(), gives(json!({"ready": true}))])]);
    world.run_to(2);
    assert_eq!(world.state.result(task(0, 0)), None, "the result is not kept");
    assert!(world.run(100));
    assert_snapshot!(history(&world), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=2
    1s failed a #1 POSTCONDITION_FAILED will_retry=true
    1s retrying a #2 in 1s backoff=1s failure POSTCONDITION_FAILED
    2s started a #2 left=1 after 1s of "POSTCONDITION_FAILED: the result is not what the step ensures"
    3s failed a #2 POSTCONDITION_FAILED will_retry=true
    3s retrying a #3 in 2s backoff=2s failure POSTCONDITION_FAILED
    5s started a #3 left=0 after 2s of "POSTCONDITION_FAILED: the result is not what the step ensures"
    6s succeeded a #3
    6s step succeeded a
    6s entered n x1
    6s started n #1 left=0
    7s succeeded n #1
    7s step succeeded n
    7s ended completed
    "#);
}

#[test]
fn h10_a_postcondition_obeys_the_policy() {
    // By its class, by its code, and not at all where no rule matches.
    let ends = |policy: Policy| {
        let flow = Flow::new().step("a", policy).ensures(eq("state.result", json!(1)));
        let world = plays(flow.build(), [("a", 0, vec![gives(0), gives(1)])]);
        world.state.outcome() == Some(&Outcome::Completed)
    };
    let named = |name: &str| {
        let scope = retrial_core::policy::Scope::Names([name.to_owned()].into());
        change(3, |p| p.rules[0].matcher.scope = scope)
    };
    assert!(ends(transient(3)));
    assert!(ends(named("POSTCONDITION_FAILED")));
    assert!(ends(named("PostconditionError")));
    assert!(!ends(named("503")));
    assert!(!ends(once()));
}

#[test]
fn h10_a_postcondition_is_each_items_own() {
    let flow = Flow::new().step("f", once()).for_each(json!([5, 6])).success(json!("any"));
    let either = json!({"type": "or", "conditions": [eq("state.item", json!(6)), eq("state.result", json!("fine"))]});
    let world = plays(
        flow.ensures(either).build(),
        [("f", 0, vec![gives("bad")]), ("f", 1, vec![gives("bad")])],
    );
    let left = world.state.left_by(StepIx(0)).expect("it has ended");
    assert_eq!(left["errors"][0]["error"]["code"], json!("POSTCONDITION_FAILED"));
    assert_eq!((&left["result"], &left["failed"]), (&json!([null, "bad"]), &json!(1)));
}
