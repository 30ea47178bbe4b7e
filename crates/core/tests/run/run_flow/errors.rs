//! Errors aggregated over branches, and handlers by code (C18, C6, spec decisions 14 and 18).

use insta::assert_snapshot;

use super::*;

/// The codes of `_errors` as the arguments of the attempt in progress have them, with items.
fn errors(world: &World, step: u16) -> Value {
    world.state.prepare(task(step, 0)).expect("in progress").args
}

fn codes(errors: &Value) -> Vec<String> {
    let of = |e: &Value| {
        let item = e.get("item").map_or_else(String::new, |i| format!("[{i}]"));
        format!(
            "{}{item} {}",
            e["node_id"].as_str().unwrap_or("?"),
            e["code"].as_str().unwrap_or("?")
        )
    };
    errors.as_array().map(|all| all.iter().map(of).collect()).unwrap_or_default()
}

fn seen() -> Value {
    json!({"all": "${_errors}", "last": "${_last_error.code}"})
}

#[test]
fn c18_a_handler_sees_the_errors_of_every_branch_routed_to_it() {
    // The later failure is `_last_error`; the order of `_errors` is the text's, not time's.
    let flow = Flow::new().step("a", once()).step("b", once()).step("h", once()).args(seen());
    let flow = flow.on_error(("a", "h"), 0, &[]).on_error(("b", "h"), 0, &[]).build();
    for (first, last) in [("a", "501"), ("b", "500")] {
        let second = if first == "a" { "b" } else { "a" };
        let code = |id| if id == "a" { 500 } else { 501 };
        let late = || vec![status(code(second)).taking(Nanos::from_secs(4))];
        let scripts = [(first, 0, vec![status(code(first))]), (second, 0, late())];
        let mut world = set(flow.clone(), scripts);
        world.run_to(4);
        let args = errors(&world, 2);
        assert_eq!(codes(&args["all"]), ["a 500", "b 501"]);
        assert_eq!(args["last"], json!(last), "the latest");
    }
}

#[test]
fn c18_a_join_sees_the_errors_of_the_branches_it_does_without() {
    // Through steps that were never reached, and a fan-out's errors item by item.
    let flow = Flow::new().step("a", once()).step("n", once()).after(&["a"]);
    let flow = flow.step("f", once()).for_each(json!([1, 2, 3])).step("c", once());
    let flow = flow.step("j", once()).after(&["n", "f", "c"]).join(json!("any")).args(seen());
    let flow = flow.step("k", once()).after(&["j"]).args(seen()).build();
    let scripts = [
        ("a", 0, vec![status(500).taking(Nanos::from_secs(5))]),
        ("f", 0, vec![status(502).taking(Nanos::from_secs(2))]),
        ("f", 2, vec![status(503)]),
    ];
    let mut world = set(flow, scripts);
    world.run_to(5);
    let args = errors(&world, 4);
    assert_eq!(codes(&args["all"]), ["a 500", "f[0] 502", "f[2] 503"]);
    assert_eq!(args["last"], json!("500"), "the step that failed last");
    // C7: the join's success clears them.
    world.run_to(6);
    assert_eq!(errors(&world, 5), json!({"all": null, "last": null}));
}

/// What is behind a step that was never reached counts, also where edges would have led there.
#[test]
fn c18_a_join_sees_through_edges_that_were_never_taken() {
    let flow = Flow::new().step("a", once()).step("n", once()).then(("a", "n"));
    let flow = flow.step("c", once()).step("j", once()).after(&["n", "c"]).join(json!("any"));
    let slow = ok().taking(Nanos::from_secs(5));
    let scripts = [("a", 0, vec![status(500)]), ("c", 0, vec![slow])];
    let mut world = set(flow.args(seen()).build(), scripts);
    world.run_to(5);
    let args = errors(&world, 3);
    assert_eq!((codes(&args["all"]), &args["last"]), (vec!["a 500".to_owned()], &json!("500")));
}

/// What was routed to a step is its `_last_error`, whatever it does without fails later.
#[test]
fn decision_14_what_was_routed_comes_before_what_a_join_does_without() {
    let flow = Flow::new().step("a", once()).step("b", once()).step("c", once());
    let flow = flow.step("h", once()).after(&["a", "b"]).join(json!("any")).args(seen());
    let flow = flow.on_error(("c", "h"), 0, &[]).build();
    let takes = |shot: Shot, seconds| vec![shot.taking(Nanos::from_secs(seconds))];
    let scripts = [
        ("a", 0, takes(status(501), 2)),
        ("b", 0, takes(ok(), 3)),
        ("c", 0, takes(status(502), 1)),
    ];
    let mut world = set(flow, scripts);
    world.run_to(3);
    let args = errors(&world, 3);
    assert_eq!(codes(&args["all"]), ["a 501", "c 502"]);
    assert_eq!(args["last"], json!("502"));
}

/// A failure that went to another handler is not the error of a step that it might have gone to.
#[test]
fn c18_an_error_that_was_routed_elsewhere_is_not_seen() {
    let flow = Flow::new().step("a", once()).step("b", once()).step("h", once());
    let flow = flow.step("k", once()).args(seen()).then(("b", "k"));
    let flow = flow.on_error(("a", "h"), 0, &[]).on_error(("a", "k"), 1, &[]).build();
    let slow = ok().taking(Nanos::from_secs(3));
    let mut world = set(flow, [("a", 0, vec![status(500)]), ("b", 0, vec![slow])]);
    world.run_to(3);
    assert_eq!(errors(&world, 3), json!({"all": null, "last": null}));
}

/// H10: a step that was not tried for what it requires has a failure and no task that failed.
#[test]
fn c18_a_failure_without_a_task_is_an_error_like_others() {
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.step("j", once()).after(&["a", "b"]).join(json!("any"));
    let flow = flow.requires(json!({"type": "exists", "field": "state.input.no"}));
    let flow = flow.step("x", once()).step("y", once());
    let is = |at: usize, code: &str| {
        let field = format!("state._errors.{at}.code");
        json!({"type": "eq", "field": field, "value": code})
    };
    let both = json!({"type": "and", "conditions": [is(0, "500"), is(1, "PRECONDITION_FAILED")]});
    let flow = flow.when(("j", "x"), 0, both).when(("j", "y"), 1, is(0, "500")).build();
    let world = plays(flow, [("a", 0, vec![status(500)])]);
    assert_eq!(phase(&world, "x"), StepPhase::Succeeded, "{}", history(&world));
}

#[test]
fn c18_a_failed_join_hands_on_what_it_had_not_cleared() {
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.step("j", once()).after(&["a", "b"]).join(json!("any"));
    let flow = flow.step("h", once()).args(seen()).on_error(("j", "h"), 0, &[]).build();
    let mut world = set(flow, [("a", 0, vec![status(500)]), ("j", 0, vec![status(501)])]);
    world.run_to(2);
    assert_eq!(codes(&errors(&world, 3)["all"]), ["a 500", "j 501"]);
}

#[test]
fn c18_conditions_look_at_all_errors() {
    // The first by item order is asked for; `_last_error` is the first that failed in time.
    let flow = Flow::new().step("f", once()).for_each(json!([1, 2]));
    let flow = flow.step("x", once()).step("y", once());
    let is = |code: &str| json!({"type": "eq", "field": "state._errors.0.code", "value": code});
    let flow = flow.when(("f", "x"), 0, is("501")).when(("f", "y"), 1, is("500")).build();
    let slow = status(500).taking(Nanos::from_secs(3));
    let world = plays(flow, [("f", 0, vec![slow]), ("f", 1, vec![status(501)])]);
    assert_eq!(
        (phase(&world, "x"), phase(&world, "y")),
        (StepPhase::Unreachable, StepPhase::Succeeded)
    );
}

#[test]
fn c18_a_success_routes_past_edges_that_ask_for_errors() {
    let flow = Flow::new().step("a", once()).step("h", once());
    let exists = json!({"type": "exists", "field": "state._errors"});
    let world = plays(flow.when(("a", "h"), 0, exists).build(), []);
    assert_eq!(phase(&world, "h"), StepPhase::Skipped);
}

#[test]
fn c18_c11_a_join_is_no_handler_so_its_own_failure_is_routed() {
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.step("j", once()).after(&["a", "b"]).join(json!("any"));
    let flow = flow.step("h", once()).on_error(("j", "h"), 0, &["501"]).build();
    let world = plays(flow, [("a", 0, vec![status(500)]), ("j", 0, vec![status(501)])]);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s entered b x1
    0s started a #1 left=0
    0s started b #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s succeeded b #1
    1s step succeeded b
    1s entered j x1
    1s started j #1 left=0
    2s failed j #1 501 will_retry=false
    2s gave up j after 1: NotRetryable 501
    2s step failed j 501
    2s routed j -> h on failure
    2s entered h x1
    2s started h #1 left=0
    3s succeeded h #1
    3s step succeeded h
    3s ended completed
    ");
}

/// One step with four handlers, listed out of order, that fails with `failure`; the handler taken.
fn handled(failure: Failure) -> String {
    let flow = Flow::new().step("a", once());
    let flow = ["any", "kind", "code", "type", "status"]
        .into_iter()
        .fold(flow, |f, id| f.step(id, once()));
    let flow = flow
        .on_error(("a", "any"), 9, &[])
        .on_error(("a", "type"), 3, &["ConnectionError", "LookupError"])
        .on_error(("a", "kind"), 2, &["HTTPError"])
        .on_error(("a", "code"), 1, &["503", "E42"])
        .on_error(("a", "status"), 0, &["504-509", "4xx"]);
    let world = plays(flow.build(), [("a", 0, vec![fails(failure)])]);
    let taken = world.log.iter().find_map(|r| match r.event {
        Event::Routed { to, .. } => world.state.workflow().step(to).map(|s| s.id.clone()),
        _ => None,
    });
    taken.unwrap_or_default()
}

#[test]
fn c18_each_error_code_has_its_handler() {
    // By ascending priority: codes, then a type that is more general, then everything.
    assert_eq!(handled(Failure::http(507, "full")), "status");
    assert_eq!(handled(Failure::http(404, "gone")), "status");
    assert_eq!(handled(Failure::http(503, "busy")), "code");
    assert_eq!(handled(Failure::new("E42", "ours")), "code");
    assert_eq!(handled(Failure::http(500, "broken")), "kind");
    assert_eq!(handled(Failure::network(NetworkFault::Reset, "reset")), "type");
    let types = ["KeyError".to_owned(), "LookupError".to_owned()];
    assert_eq!(handled(Failure::exception("KeyError", "none", &types)), "type");
    assert_eq!(handled(Failure::work_failed("no")), "any");
    assert_eq!(handled(Failure::timed_out("late")), "any");
}
