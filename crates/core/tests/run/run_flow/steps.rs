//! Steps: dependencies, fan-out, transitions, `_last_error`, joins.

use insta::assert_snapshot;

use super::*;

#[test]
fn a11_a_step_waits_for_all_it_is_after() {
    // A11, A13.
    let flow = Flow::new().step("a", once()).step("b", once()).step("c", once());
    let slow = ok().taking(Nanos::from_secs(3));
    let world = plays(flow.after(&["a", "b"]).build(), [("b", 0, vec![slow])]);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s entered b x1
    0s started a #1 left=0
    0s started b #1 left=0
    1s succeeded a #1
    1s step succeeded a
    3s succeeded b #1
    3s step succeeded b
    3s entered c x1
    3s started c #1 left=0
    4s succeeded c #1
    4s step succeeded c
    4s ended completed
    ");
}

#[test]
fn results_reach_the_next_step() {
    // W12: what succeeded is read, not run again.
    let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]);
    let args = json!({"all": "${steps.a.result}", "text": "x=${steps.a.result.x}", "no": "${steps.a.result.y}"});
    let mut world = set(flow.args(args).build(), [("a", 0, vec![gives(json!({"x": 1.5}))])]);
    world.run_to(1);
    let args = world.state.prepare(task(1, 0)).expect("in progress").args;
    assert_eq!(args, json!({"all": {"x": 1.5}, "text": "x=1.5", "no": null}));
}

fn fan_out() -> Flow {
    Flow::new().step("f", doubling(2)).for_each(json!(["x", "y", "z"]))
}

#[test]
fn a1_c10_fan_out_retries_each_item_on_its_own() {
    // A1, C10, W9: one entry, a task an item.
    assert_snapshot!(history(&plays(fan_out().build(), [("f", 1, vec![status(500)])])), @r#"
    0s created
    0s entered f x3
    0s started f[0] #1 left=1
    0s started f[1] #1 left=1
    0s started f[2] #1 left=1
    1s succeeded f[0] #1
    1s failed f[1] #1 500 will_retry=true
    1s retrying f[1] #2 in 1s backoff=1s failure 500
    1s succeeded f[2] #1
    2s started f[1] #2 left=0 after 1s of "500: from the endpoint"
    3s succeeded f[1] #2
    3s step succeeded f
    3s ended completed
    "#);
}

#[test]
fn fan_out_arguments_see_item_and_index() {
    let mut world = set(fan_out().args(json!({"i": "${index}", "of": "${item}"})).build(), []);
    world.run_until(world.now);
    let args = |item| world.state.prepare(task(0, item)).expect("in progress").args;
    assert_eq!(args(0), json!({"i": 0, "of": "x"}));
    assert_eq!(args(2), json!({"i": 2, "of": "z"}));
}

#[test]
fn a11_c10_partial_success_of_a_fan_out_is_visible_to_its_handler() {
    // C10, A11: siblings run to their own end first; the handler sees what succeeded and what not.
    let flow = fan_out().step("h", once()).on_error(("f", "h"), 0, &[]).args(json!("${steps.f}"));
    let bad = || vec![status(500), status(500)];
    let mut world = set(
        flow.build(),
        [
            ("f", 0, vec![gives("good")]),
            ("f", 1, bad()),
            ("f", 2, vec![ok().taking(Nanos::from_secs(9))]),
        ],
    );
    world.run_to(9);
    let seen = world.state.prepare(task(1, 0)).expect("the handler is in progress").args;
    assert_eq!(seen["result"], json!(["good", null, null]));
    assert_eq!((&seen["succeeded"], &seen["failed"]), (&json!(2), &json!(1)));
    assert_eq!(seen["errors"][0]["item"], json!(1));
    assert_eq!(seen["errors"][0]["error"]["code"], json!("500"));
    world.run(10);
    assert_snapshot!(history(&world), @r#"
     0s created
     0s entered f x3
     0s started f[0] #1 left=1
     0s started f[1] #1 left=1
     0s started f[2] #1 left=1
     1s succeeded f[0] #1
     1s failed f[1] #1 500 will_retry=true
     1s retrying f[1] #2 in 1s backoff=1s failure 500
     2s started f[1] #2 left=0 after 1s of "500: from the endpoint"
     3s failed f[1] #2 500 will_retry=false
     3s gave up f[1] after 2: Exhausted 500
     9s succeeded f[2] #1
     9s step failed f 500
     9s routed f -> h on failure
     9s entered h x1
     9s started h #1 left=0
    10s succeeded h #1
    10s step succeeded h
    10s ended completed
    "#);
}

#[test]
fn a11_fail_fast_cancels_the_siblings() {
    // A11: those in progress and those that wait; late outcomes change nothing.
    let flow = Flow::new().step("f", once()).for_each(json!([1, 2, 3])).fail_fast();
    let slow = || vec![ok().taking(Nanos::from_secs(9))];
    let mut world =
        set(flow.build(), [("f", 0, slow()), ("f", 1, vec![status(500)]), ("f", 2, slow())]);
    world.run(10);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered f x3
    0s started f[0] #1 left=0
    0s started f[1] #1 left=0
    0s started f[2] #1 left=0
    1s failed f[1] #1 500 will_retry=false
    1s gave up f[1] after 1: NotRetryable 500
    1s cancelled f[0]
    1s cancelled f[2]
    1s step failed f 500
    1s ended failed 500 of f
    ");
    let (task, token) = (task(0, 0), token_of(task(0, 0), 1));
    let late = Input::Succeeded { task, token, result: std::sync::Arc::new(json!(1)) };
    assert!(world.handle(&late).is_empty());
}

#[test]
fn an_empty_fan_out_succeeds_at_once() {
    let flow = Flow::new().step("f", once()).for_each(json!([])).step("b", once()).after(&["f"]);
    assert_snapshot!(history(&plays(flow.build(), [])), @"
    0s created
    0s entered f x0
    0s step succeeded f
    0s entered b x1
    0s started b #1 left=0
    1s succeeded b #1
    1s step succeeded b
    1s ended completed
    ");
}

#[test]
fn a_bad_fan_out_fails_the_step_and_is_routed() {
    // W10, H4: by its code and by its type.
    for name in ["BAD_FAN_OUT", "ValueError"] {
        let flow = Flow::new().step("f", once()).for_each(json!("${input.none}"));
        let flow = flow.step("h", once()).on_error(("f", "h"), 0, &[name]).build();
        let text = history(&plays(flow, []));
        insta::allow_duplicates! { assert_snapshot!(text, @"
        0s created
        0s step failed f BAD_FAN_OUT
        0s routed f -> h on failure
        0s entered h x1
        0s started h #1 left=0
        1s succeeded h #1
        1s step succeeded h
        1s ended completed
        "); }
    }
    // More items than one step may have.
    let many: Vec<u32> = (0..10_001).collect();
    let flow = Flow::new().step("f", once()).for_each(json!(many)).build();
    assert_snapshot!(history(&plays(flow, [])), @"
    0s created
    0s step failed f BAD_FAN_OUT
    0s ended failed BAD_FAN_OUT of f
    ");
}

#[test]
fn c6_the_first_transition_that_holds_is_taken() {
    // C6: by ascending priority, ties in text order; the targets passed by are skipped.
    let flow = Flow::new().step("a", once()).step("b", once()).step("c", once()).step("d", once());
    let is = |n: i32| json!({"type": "eq", "field": "state.steps.a.result", "value": n});
    let flow = flow
        .when(("a", "b"), 2, json!({"type": "or", "conditions": [is(1), is(2)]}))
        .when(("a", "c"), 1, is(2))
        .then(("a", "d"));
    // `d` has priority 0 and no condition: it always wins.
    assert_snapshot!(history(&plays(flow.build(), [("a", 0, vec![gives(1)])])), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s succeeded a #1
    1s step succeeded a
    1s routed a -> d
    1s step skipped b
    1s step skipped c
    1s entered d x1
    1s started d #1 left=0
    2s succeeded d #1
    2s step succeeded d
    2s ended completed
    ");
    let flow = Flow::new().step("a", once()).step("b", once()).step("c", once());
    let flow = flow.when(("a", "b"), 2, is(2)).when(("a", "c"), 2, is(2)).build();
    assert_snapshot!(history(&plays(flow.clone(), [("a", 0, vec![gives(2)])])), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s succeeded a #1
    1s step succeeded a
    1s routed a -> b
    1s entered b x1
    1s step skipped c
    1s started b #1 left=0
    2s succeeded b #1
    2s step succeeded b
    2s ended completed
    ");
    // None holds: both are skipped and the run is over.
    assert_snapshot!(history(&plays(flow, [("a", 0, vec![gives(3)])])), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s succeeded a #1
    1s step succeeded a
    1s step skipped b
    1s step skipped c
    1s ended completed
    ");
}

/// Capability 5's third scenario: success path, error path.
fn routed() -> Flow {
    let exists = json!({"type": "exists", "field": {"type": "field", "path": "state._last_error"}});
    Flow::new()
        .step("a", doubling(2))
        .step("b", once())
        .step("c", once())
        .args(json!({"error": "${_last_error}"}))
        .when(("a", "b"), 1, json!({"type": "not", "condition": exists}))
        .when(("a", "c"), 2, exists)
}

#[test]
fn c5_c6_c7_a_failure_is_routed_by_last_error() {
    // C5, C6, C7, C9 (scenario 3): set for the handler, cleared by its success.
    let mut world = set(routed().build(), [("a", 0, vec![status(503), status(503)])]);
    world.run_to(3);
    assert_eq!(last_error(&world, "c").as_deref(), Some("503"));
    let args = world.state.prepare(task(2, 0)).expect("the handler is in progress").args;
    assert_eq!(args["error"]["code"], "503");
    assert_eq!(args["error"]["attempt"], 2);
    world.run(10);
    assert_eq!(last_error(&world, "c"), None);
    assert_snapshot!(history(&world), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=1
    1s failed a #1 503 will_retry=true
    1s retrying a #2 in 1s backoff=1s failure 503
    2s started a #2 left=0 after 1s of "503: from the endpoint"
    3s failed a #2 503 will_retry=false
    3s gave up a after 2: Exhausted 503
    3s step failed a 503
    3s routed a -> c on failure
    3s step unreachable b
    3s entered c x1
    3s started c #1 left=0
    4s succeeded c #1
    4s step succeeded c
    4s ended completed
    "#);
}

#[test]
fn c6_success_takes_the_other_edge() {
    // C6, C9 (scenario 1): no error in context after a recovery.
    let world = plays(routed().build(), [("a", 0, vec![status(503)])]);
    assert_snapshot!(history(&world), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=1
    1s failed a #1 503 will_retry=true
    1s retrying a #2 in 1s backoff=1s failure 503
    2s started a #2 left=0 after 1s of "503: from the endpoint"
    3s succeeded a #2
    3s step succeeded a
    3s routed a -> b
    3s entered b x1
    3s step skipped c
    3s started b #1 left=0
    4s succeeded b #1
    4s step succeeded b
    4s ended completed
    "#);
}

#[test]
fn w10_decision_18_exception_edges_come_before_transitions() {
    // Decision 18, W10, R3: exception edges by priority, whatever the transitions' priority is.
    let exists = json!({"type": "exists", "field": "state._last_error"});
    let flow = || {
        let flow = Flow::new().step("a", once());
        flow.step("t", once()).step("any", once()).step("client", once()).step("value", once())
    };
    let flow = flow()
        .when(("a", "t"), -9, exists)
        .on_error(("a", "any"), 5, &[])
        .on_error(("a", "client"), 1, &["ClientError"])
        .on_error(("a", "value"), 0, &["ValueError", "KeyError"])
        .build();
    let handler = |failure| {
        let world = plays(flow.clone(), [("a", 0, vec![fails(failure)])]);
        let to = world.log.iter().find_map(|r| match r.event {
            Event::Routed { to, .. } => Some(to),
            _ => None,
        });
        to.and_then(|to| flow.step(to)).map(|s| s.id.clone()).unwrap_or_default()
    };
    // By an ancestor of the type, by the type, by no name.
    assert_eq!(handler(Failure::http(404, "")), "client");
    assert_eq!(handler(Failure::exception("KeyError", "", &[])), "value");
    assert_eq!(handler(Failure::http(500, "")), "any");
}

#[test]
fn decision_18_a_transition_that_does_not_ask_for_the_error_routes_none() {
    // Decision 18: neither an unconditional edge nor one about something else is a failure edge.
    let flow = Flow::new().step("a", once()).step("b", once()).then(("a", "b"));
    let flow = flow.when(
        ("a", "b"),
        1,
        json!({"type": "not", "condition": {"type": "exists", "field": "state.input.x"}}),
    );
    assert_snapshot!(history(&plays(flow.build(), [("a", 0, vec![status(500)])])), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s ended failed 500 of a
    ");
}

#[test]
fn c11_an_error_in_a_handler_ends_the_run() {
    // C11: not even an exception edge of the handler's own is looked at.
    let flow = Flow::new().step("a", once()).step("h", once()).step("i", once());
    let flow = flow.on_error(("a", "h"), 0, &[]).on_error(("h", "i"), 0, &[]).build();
    let world = plays(flow, [("a", 0, vec![status(500)]), ("h", 0, vec![status(501)])]);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s routed a -> h on failure
    1s entered h x1
    1s started h #1 left=0
    2s failed h #1 501 will_retry=false
    2s gave up h after 1: NotRetryable 501
    2s step failed h 501
    2s ended failed 501 of h
    ");
}

#[test]
fn c7_decision_14_after_the_handler_the_branch_may_fail_and_be_routed_again() {
    // C7, Decision 14: the handler's success has cleared the error, so this is a new failure.
    let flow = Flow::new().step("a", once()).step("h", once()).step("b", once()).step("i", once());
    let flow =
        flow.on_error(("a", "h"), 0, &[]).then(("h", "b")).on_error(("b", "i"), 0, &[]).build();
    let world = plays(flow, [("a", 0, vec![status(500)]), ("b", 0, vec![status(501)])]);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s routed a -> h on failure
    1s entered h x1
    1s started h #1 left=0
    2s succeeded h #1
    2s step succeeded h
    2s routed h -> b
    2s entered b x1
    2s started b #1 left=0
    3s failed b #1 501 will_retry=false
    3s gave up b after 1: NotRetryable 501
    3s step failed b 501
    3s routed b -> i on failure
    3s entered i x1
    3s started i #1 left=0
    4s succeeded i #1
    4s step succeeded i
    4s ended completed
    ");
}

/// Two roots that both lead to `j`.
fn join() -> Flow {
    let flow = Flow::new().step("a", once()).step("b", once()).step("j", once());
    flow.args(json!("${_last_error.code}"))
        .then(("a", "j"))
        .then(("b", "j"))
        .on_error(("a", "j"), 0, &[])
        .on_error(("b", "j"), 0, &[])
}

#[test]
fn decision_14_a_join_waits_for_its_sources_and_sees_the_latest_error() {
    // Decision 14: one branch's success does not clear the other's error; the later error stays.
    let late = |shot: Shot| vec![shot.taking(Nanos::from_secs(5))];
    let seen = |a: Vec<Shot>, b: Vec<Shot>| {
        let mut world = set(join().build(), [("a", 0, a), ("b", 0, b)]);
        world.run_to(4);
        assert_eq!(phase(&world, "j"), StepPhase::Waiting);
        world.run_to(5);
        world.state.prepare(task(2, 0)).expect("the join is in progress").args
    };
    assert_eq!(seen(vec![ok()], late(ok())), Value::Null);
    assert_eq!(seen(vec![status(501)], late(ok())), json!("501"));
    assert_eq!(seen(vec![ok()], late(status(502))), json!("502"));
    assert_eq!(seen(vec![status(501)], late(status(502))), json!("502"));
    assert_eq!(seen(late(status(501)), vec![status(502)]), json!("501"));
}

#[test]
fn decision_14_every_failure_keeps_its_own_record() {
    // Decision 14: the join's success erases neither.
    let world = plays(join().build(), [("a", 0, vec![status(501)]), ("b", 0, vec![status(502)])]);
    let codes = world.state.steps().iter().map(|s| s.error.as_ref().map(|e| e.code.to_string()));
    assert_eq!(codes.collect::<Vec<_>>(), [Some("501".into()), Some("502".into()), None]);
    assert_eq!(world.state.outcome(), Some(&Outcome::Completed));
    let failed = |t: &retrial_core::run::TaskState| matches!(t.phase, TaskPhase::Failed { .. });
    assert_eq!(world.state.tasks().filter(|(_, t)| failed(t)).count(), 2);
}

#[test]
fn decision_18_a_failure_is_not_routed_to_a_step_that_can_not_be_entered() {
    // Decision 18: the handler depends on what has failed before, so the failure is unrouted.
    let flow = Flow::new().step("x", once()).step("a", once()).step("h", once()).after(&["x"]);
    let flow = flow.step("g", once()).goal();
    let flow = flow.on_error(("a", "h"), 0, &[]).build();
    let shots = [
        ("x", 0, vec![status(500)]),
        ("a", 0, vec![status(501).taking(Nanos::from_secs(2))]),
        ("g", 0, vec![ok().taking(Nanos::from_secs(3))]),
    ];
    assert_snapshot!(history(&plays(flow, shots)), @"
    0s created
    0s entered x x1
    0s entered a x1
    0s entered g x1
    0s started x #1 left=0
    0s started a #1 left=0
    0s started g #1 left=0
    1s failed x #1 500 will_retry=false
    1s gave up x after 1: NotRetryable 500
    1s step failed x 500
    1s step unreachable h
    2s failed a #1 501 will_retry=false
    2s gave up a after 1: NotRetryable 501
    2s step failed a 501
    3s succeeded g #1
    3s step succeeded g
    3s ended completed
    ");
}

#[test]
fn how_a_step_is_passed_by_does_not_depend_on_timing() {
    // A13: `n` needs a step that a choice skips and one that fails, in either order.
    let outcome = |failing: u64, choosing: u64| {
        let flow = Flow::new().step("c", once()).step("s", once()).step("o", once());
        let flow = flow.step("f", once()).step("n", once()).after(&["s", "f"]).goal();
        let flow = flow.then(("c", "o")).then(("c", "s")).build();
        let world = plays(
            flow,
            [
                ("c", 0, vec![ok().taking(Nanos::from_secs(choosing))]),
                ("f", 0, vec![status(500).taking(Nanos::from_secs(failing))]),
            ],
        );
        (
            phase(&world, "n"),
            world.state.outcome().cloned().map(|o| matches!(o, Outcome::Failed { .. })),
        )
    };
    assert_eq!(outcome(1, 9).0, StepPhase::Unreachable);
    assert_eq!(outcome(5, 1), (StepPhase::Unreachable, Some(true)));
}

#[test]
fn a_reference_reads_only_what_has_ended() {
    // A condition is judged when its source has ended; what may still run is refused.
    let reads = |path: &str| {
        let flow = Flow::new().step("a", once()).step("b", once()).step("c", once());
        flow.when(("a", "b"), 0, json!({"type": "exists", "field": path})).try_build().map(|_| ())
    };
    assert_eq!(reads("state.steps.a.result.x"), Ok(()));
    assert_eq!(reads("state.input.x"), Ok(()));
    assert!(matches!(reads("state.steps.c.result"), Err(WorkflowError::NotBefore { step: 0, .. })));
    assert!(matches!(
        reads("state.steps.z.result"),
        Err(WorkflowError::UnknownReference { step: 0, .. })
    ));
}

#[test]
fn a_fan_out_over_a_result_gives_each_task_its_item() {
    // C10: the list may be written out, be an input, a whole result or a part of one.
    let lists =
        [json!("${steps.a.result.list}"), json!("${input.list}"), json!(["x", "${input.y}"])];
    for list in lists {
        let flow = Flow::new().step("a", once()).step("f", once()).after(&["a"]);
        let flow = flow.for_each(list).args(json!({"of": "${item}"})).build();
        let input = json!({"list": ["x", "y"], "y": "y"});
        let input = input.as_object().cloned().expect("an object");
        let mut world = World::with_input(flow, 7, input);
        world.script("a", 0, [gives(json!({"list": ["x", "y"]}))]);
        world.run_to(1);
        for (item, value) in [(0, "x"), (1, "y")] {
            let args = world.state.prepare(task(1, item)).expect("in progress").args;
            assert_eq!(args["of"], json!(value));
        }
    }
}
