//! Partial success of fan-outs and joins (C18, C10, A11).

use insta::assert_snapshot;

use super::*;

fn slow(seconds: u64) -> Vec<Shot> {
    vec![ok().taking(Nanos::from_secs(seconds))]
}

/// Three items under `success`, the second of which fails.
fn fan_out(success: Value) -> Flow {
    Flow::new().step("f", once()).for_each(json!([1, 2, 3])).success(success)
}

fn at_least(k: u32) -> Value {
    json!({"at_least": k})
}

#[test]
fn c18_a_fan_out_succeeds_once_all_tasks_have_ended_and_enough_succeeded() {
    let ends = |success: Value, bad: u32| {
        let mut world = World::new(fan_out(success).build(), 7);
        (0..bad).for_each(|item| world.script("f", item, [status(500)]));
        assert!(world.run(100));
        phase(&world, "f")
    };
    let table = [
        (json!("all"), [true, false, false, false]),
        (json!("any"), [true, true, true, false]),
        (at_least(1), [true, true, true, false]),
        (at_least(2), [true, true, false, false]),
        (at_least(3), [true, false, false, false]),
        (at_least(4), [false; 4]),
    ];
    for (success, expected) in table {
        for (bad, well) in (0..).zip(expected) {
            let expected = if well { StepPhase::Succeeded } else { StepPhase::Failed };
            assert_eq!(ends(success.clone(), bad), expected, "{success}, {bad} fail");
        }
    }
}

#[test]
fn c18_c10_the_next_step_sees_results_and_errors_of_a_partial_success() {
    let flow = fan_out(at_least(2)).step("n", once()).after(&["f"]).args(json!("${steps.f}"));
    let scripts = [
        ("f", 0, vec![gives("a").taking(Nanos::from_secs(3))]),
        ("f", 1, vec![status(503)]),
        ("f", 2, vec![gives("c")]),
    ];
    let mut world = set(flow.build(), scripts);
    world.run_to(3);
    let seen = world.state.prepare(task(1, 0)).expect("the next step is in progress").args;
    assert_eq!(seen["result"], json!(["a", null, "c"]));
    assert_eq!((&seen["succeeded"], &seen["failed"]), (&json!(2), &json!(1)));
    assert_eq!(seen["errors"][0]["item"], json!(1));
    assert_eq!(seen["errors"][0]["error"]["code"], json!("503"));
    world.run(10);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered f x3
    0s started f[0] #1 left=0
    0s started f[1] #1 left=0
    0s started f[2] #1 left=0
    1s failed f[1] #1 503 will_retry=false
    1s gave up f[1] after 1: NotRetryable 503
    1s succeeded f[2] #1
    3s succeeded f[0] #1
    3s step succeeded f
    3s entered n x1
    3s started n #1 left=0
    4s succeeded n #1
    4s step succeeded n
    4s ended completed
    ");
}

#[test]
fn c18_fail_fast_calls_off_the_rest_once_enough_succeeded() {
    let flow = fan_out(json!("any")).fail_fast();
    let scripts = [("f", 0, slow(9)), ("f", 1, vec![status(500)]), ("f", 2, slow(2))];
    assert_snapshot!(history(&plays(flow.build(), scripts)), @"
    0s created
    0s entered f x3
    0s started f[0] #1 left=0
    0s started f[1] #1 left=0
    0s started f[2] #1 left=0
    1s failed f[1] #1 500 will_retry=false
    1s gave up f[1] after 1: NotRetryable 500
    2s succeeded f[2] #1
    2s cancelled f[0]
    2s step succeeded f
    2s ended completed
    ");
}

#[test]
fn c18_fail_fast_calls_off_the_rest_once_enough_can_not_succeed() {
    let flow = fan_out(at_least(2)).fail_fast();
    let scripts = [("f", 0, vec![status(500)]), ("f", 1, slow(9)), ("f", 2, vec![status(501)])];
    assert_snapshot!(history(&plays(flow.build(), scripts)), @"
    0s created
    0s entered f x3
    0s started f[0] #1 left=0
    0s started f[1] #1 left=0
    0s started f[2] #1 left=0
    1s failed f[0] #1 500 will_retry=false
    1s gave up f[0] after 1: NotRetryable 500
    1s failed f[2] #1 501 will_retry=false
    1s gave up f[2] after 1: NotRetryable 501
    1s cancelled f[1]
    1s step failed f 500
    1s ended failed 500 of f
    ");
}

#[test]
fn c18_too_few_items_fail_with_a_code_of_their_own() {
    // No task failed, so no task's record says why.
    let flow = Flow::new().step("f", once()).for_each(json!([])).success(json!("any"));
    let flow = flow.step("h", once()).on_error(("f", "h"), 0, &["TOO_FEW_SUCCEEDED"]);
    assert_snapshot!(history(&plays(flow.build(), [])), @"
    0s created
    0s entered f x0
    0s step failed f TOO_FEW_SUCCEEDED
    0s routed f -> h on failure
    0s entered h x1
    0s started h #1 left=0
    1s succeeded h #1
    1s step succeeded h
    1s ended completed
    ");
}

/// `a`, `b`, `c` and a join `j` of them.
fn join(quorum: Value) -> Flow {
    let flow = Flow::new().step("a", once()).step("b", once()).step("c", once());
    flow.step("j", once()).after(&["a", "b", "c"]).join(quorum)
}

#[test]
fn c18_a_join_waits_for_all_and_needs_enough() {
    // The failures are the join's to judge, so they end no run by themselves.
    let scripts = [("a", 0, vec![status(500)]), ("b", 0, vec![status(501)]), ("c", 0, slow(5))];
    assert_snapshot!(history(&plays(join(json!("any")).build(), scripts)), @"
    0s created
    0s entered a x1
    0s entered b x1
    0s entered c x1
    0s started a #1 left=0
    0s started b #1 left=0
    0s started c #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s failed b #1 501 will_retry=false
    1s gave up b after 1: NotRetryable 501
    1s step failed b 501
    5s succeeded c #1
    5s step succeeded c
    5s entered j x1
    5s started j #1 left=0
    6s succeeded j #1
    6s step succeeded j
    6s ended completed
    ");
}

#[test]
fn c18_a_join_that_enough_can_not_reach_fails_the_run() {
    let scripts = [("a", 0, vec![status(500)]), ("b", 0, vec![status(501)]), ("c", 0, slow(5))];
    assert_snapshot!(history(&plays(join(at_least(2)).build(), scripts)), @"
    0s created
    0s entered a x1
    0s entered b x1
    0s entered c x1
    0s started a #1 left=0
    0s started b #1 left=0
    0s started c #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s failed b #1 501 will_retry=false
    1s gave up b after 1: NotRetryable 501
    1s step failed b 501
    1s step unreachable j
    1s ended failed 500 of a
    ");
}

#[test]
fn c18_a_failure_beside_the_join_still_fails_the_run() {
    // `x` leads to no join that could do without it.
    let flow = join(json!("any")).step("x", once());
    let scripts = [("a", 0, vec![status(500)]), ("x", 0, slow(3))];
    assert_eq!(phase(&plays(flow.build(), scripts), "j"), StepPhase::Succeeded);
    let flow = join(json!("any")).step("x", once());
    let world = plays(flow.build(), [("x", 0, vec![status(502)]), ("a", 0, slow(9))]);
    assert!(
        matches!(world.state.outcome(), Some(Outcome::Failed { error }) if error.node_id == "x")
    );
}

#[test]
fn c18_a_join_takes_in_what_a_failure_makes_unreachable() {
    // `b` follows `a`; `s` beside it is slow: the join reads nothing that has not ended.
    let flow = Flow::new().step("a", once()).step("s", once());
    let flow = flow.step("b", once()).after(&["a", "s"]).step("c", once());
    let flow = flow.step("j", once()).after(&["b", "c"]).join(json!("any"));
    let scripts = [("a", 0, vec![status(500)]), ("s", 0, slow(7))];
    assert_snapshot!(history(&plays(flow.build(), scripts)), @"
    0s created
    0s entered a x1
    0s entered s x1
    0s entered c x1
    0s started a #1 left=0
    0s started s #1 left=0
    0s started c #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s step unreachable b
    1s succeeded c #1
    1s step succeeded c
    7s succeeded s #1
    7s step succeeded s
    7s entered j x1
    7s started j #1 left=0
    8s succeeded j #1
    8s step succeeded j
    8s ended completed
    ");
}

#[test]
fn c18_a13_a_goal_behind_a_join_is_not_lost_with_one_branch() {
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.step("j", once()).after(&["a", "b"]).join(json!("any")).goal();
    let world = plays(flow.build(), [("a", 0, vec![status(500)])]);
    assert_eq!(world.state.outcome(), Some(&Outcome::Completed));
}

#[test]
fn c18_a_join_is_skipped_where_choices_alone_keep_it_from_enough() {
    let flow = Flow::new().step("a", once()).step("b", once()).step("c", once());
    let flow = flow.step("j", once()).after(&["b", "c"]).join(at_least(2));
    let flow = flow.then(("a", "b")).when(
        ("a", "c"),
        1,
        json!({"type": "exists", "field": "state.input.no"}),
    );
    let world = plays(flow.build(), []);
    assert_eq!((phase(&world, "c"), phase(&world, "j")), (StepPhase::Skipped, StepPhase::Skipped));
}

#[test]
fn quorums_that_make_no_sense_are_refused() {
    let lone = Flow::new().step("a", once()).success(json!("any")).try_build();
    assert!(matches!(lone, Err(WorkflowError::LoneSuccess { step: 0, .. })), "{lone:?}");
    for quorum in [json!("any"), at_least(1)] {
        let nothing = Flow::new().step("a", once()).join(quorum).try_build();
        let wrong = |e: &WorkflowError| matches!(e, WorkflowError::JoinTooLarge { count: 0, .. });
        assert!(nothing.is_err_and(|e| wrong(&e)));
    }
    let many = join(at_least(4)).try_build();
    assert!(
        matches!(many, Err(WorkflowError::JoinTooLarge { least: 4, count: 3, .. })),
        "{many:?}"
    );
}

#[test]
fn c18_a_dead_letter_of_a_joins_task_can_be_tried_again_alone() {
    // Its place in the graph does not go along, what its attempts must ensure does.
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.step("f", once()).after(&["a", "b"]).join(json!("any")).for_each(json!([1]));
    let flow = flow
        .success(json!("any"))
        .requires(json!({"type": "exists", "field": "state.steps.a.result"}));
    let flow = flow.ensures(json!({"type": "exists", "field": "state.result.id"})).build();
    let world = plays(flow.clone(), [("a", 0, vec![gives(1)]), ("f", 0, vec![gives(2)])]);
    let letter = |r: &retrial_core::run::Recorded| {
        retrial_core::run::Letter::left_by(&world.state, &r.event)
    };
    let (task, letter) = world.log.iter().find_map(letter).expect("a letter");
    let (alone, _) = letter.redrive(&flow, task).expect("it can run alone");
    assert_eq!(alone.steps().len(), 1);
    assert!(alone.steps()[0].ensures.is_some() && alone.steps()[0].requires.is_none());
}

/// A join that has too few successes is lost with what failed before it, and passed by where
/// nothing did.
#[test]
fn a13_a_join_short_of_successes_is_lost_or_passed_by() {
    for (outcome, expected) in [(status(500), StepPhase::Unreachable), (ok(), StepPhase::Succeeded)]
    {
        let no = json!({"type": "exists", "field": "state.input.no"});
        let flow = Flow::new().step("a", once()).step("s", once()).step("b", once());
        let flow = flow.when(("s", "b"), 0, no.clone()).step("c", once());
        let flow = flow.step("j", once()).after(&["a", "b", "c"]).join(json!({"at_least": 2}));
        // The run goes on without `a`.
        let flow = flow.step("k", once()).after(&["a", "c"]).join(json!("any"));
        let world = plays(flow.build(), [("a", 0, vec![outcome])]);
        assert_eq!(phase(&world, "b"), StepPhase::Skipped);
        assert_eq!(phase(&world, "j"), expected, "{}", history(&world));
    }
    let no = json!({"type": "exists", "field": "state.input.no"});
    let flow = Flow::new().step("s", once()).step("a", once()).step("b", once());
    let flow = flow.when(("s", "a"), 0, no.clone()).when(("s", "b"), 0, no).step("c", once());
    let flow = flow.step("j", once()).after(&["a", "b", "c"]).join(json!({"at_least": 2}));
    assert_eq!(phase(&plays(flow.build(), []), "j"), StepPhase::Skipped);
}
