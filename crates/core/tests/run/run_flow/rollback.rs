//! Compensation and rollback (C18).

use insta::assert_snapshot;

use super::*;

/// `a`, then `b`, then `c`; `ua` and `ub` undo the first two.
pub(super) fn chain() -> Flow {
    let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]);
    let flow = flow.step("c", once()).after(&["b"]);
    flow.step("ua", once()).compensates("a").step("ub", once()).compensates("b")
}

pub(super) fn bad() -> Vec<Shot> {
    vec![status(500)]
}

#[test]
fn c18_a_failed_run_is_rolled_back_backwards_over_what_succeeded() {
    let world = plays(chain().rollback("on_failure").build(), [("c", 0, bad())]);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s succeeded a #1
    1s step succeeded a
    1s entered b x1
    1s started b #1 left=0
    2s succeeded b #1
    2s step succeeded b
    2s entered c x1
    2s started c #1 left=0
    3s failed c #1 500 will_retry=false
    3s gave up c after 1: NotRetryable 500
    3s step failed c 500
    3s rolling back, failed 500
    3s compensating ub
    3s started ub #1 left=0
    4s succeeded ub #1
    4s step succeeded ub
    4s compensating ua
    4s started ua #1 left=0
    5s succeeded ua #1
    5s step succeeded ua
    5s rolled back complete=true
    5s ended failed 500 of c
    ");
    let rollback = world.state.rollback().expect("it was rolled back");
    assert_eq!((rollback.compensated, rollback.failed, rollback.complete), (2, 0, Some(true)));
}

#[test]
fn c18_compensations_are_no_part_of_the_ordinary_flow() {
    // Neither where all goes well nor where nothing asks for a rollback.
    let world = plays(chain().rollback("always").build(), []);
    assert_eq!(world.state.outcome(), Some(&Outcome::Completed));
    assert_eq!(
        (phase(&world, "ua"), phase(&world, "ub")),
        (StepPhase::Waiting, StepPhase::Waiting)
    );
    for rollback in ["never", "on_cancel"] {
        let world = plays(chain().rollback(rollback).build(), [("c", 0, bad())]);
        assert!(world.state.rollback().is_none());
        assert_eq!(phase(&world, "ub"), StepPhase::Waiting);
    }
}

#[test]
fn c18_only_what_succeeded_is_compensated() {
    let world = plays(chain().rollback("on_failure").build(), [("b", 0, bad())]);
    assert_eq!(phase(&world, "ua"), StepPhase::Succeeded);
    assert_eq!(phase(&world, "ub"), StepPhase::Waiting, "b has nothing to undo");
}

/// Two fan-outs side by side whose successes alternate, and a failure after them.
fn alternating() -> World {
    let flow = Flow::new().step("f", once()).for_each(json!(["x", "y", "z"]));
    let flow = flow.step("g", once()).for_each(json!([1]));
    let flow = flow.step("c", once());
    let args = json!({"item": "${item}", "at": "${index}", "undoes": "${result.id}",
        "all": "${steps.f.result}", "why": "${_last_error.code}"});
    let flow = flow.step("uf", doubling(2)).compensates("f").args(args);
    let flow = flow.step("ug", once()).compensates("g").rollback("on_failure");
    let takes = |id: u32, seconds| gives(json!({"id": id})).taking(Nanos::from_secs(seconds));
    let scripts = [
        ("f", 0, vec![takes(10, 3)]),
        ("f", 1, vec![status(503)]),
        ("f", 2, vec![takes(12, 1)]),
        ("g", 0, vec![takes(20, 2)]),
        ("c", 0, vec![status(500).taking(Nanos::from_secs(4))]),
        ("uf", 2, vec![status(502), ok()]),
    ];
    // The failure of `f[1]` must not end the run before `c` does.
    let flow = flow.step("j", once()).after(&["f", "g"]).join(json!("any"));
    let flow = flow.step("uj", once()).compensates("j");
    let mut world = World::new(flow.build(), 7);
    for (id, item, shots) in scripts {
        world.script(id, item, shots);
    }
    world.script("j", 0, [hangs()]);
    world
}

#[test]
fn c18_a_fan_outs_successes_are_compensated_one_by_one_with_retries() {
    let mut world = alternating();
    assert!(world.run(100));
    assert_snapshot!(history(&world), @r#"
    0s created
    0s entered f x3
    0s entered g x1
    0s entered c x1
    0s started f[0] #1 left=0
    0s started f[1] #1 left=0
    0s started f[2] #1 left=0
    0s started g[0] #1 left=0
    0s started c #1 left=0
    1s failed f[1] #1 503 will_retry=false
    1s gave up f[1] after 1: NotRetryable 503
    1s succeeded f[2] #1
    2s succeeded g[0] #1
    2s step succeeded g
    3s succeeded f[0] #1
    3s step failed f 503
    3s entered j x1
    3s started j #1 left=0
    4s failed c #1 500 will_retry=false
    4s gave up c after 1: NotRetryable 500
    4s step failed c 500
    4s rolling back, failed 500
    4s compensating uf[0]
    4s started uf[0] #1 left=1
    5s succeeded uf[0] #1
    5s compensating ug[0]
    5s started ug[0] #1 left=0
    6s succeeded ug[0] #1
    6s step succeeded ug
    6s compensating uf[2]
    6s started uf[2] #1 left=1
    7s failed uf[2] #1 502 will_retry=true
    7s retrying uf[2] #2 in 1s backoff=1s failure 502
    8s started uf[2] #2 left=0 after 1s of "502: from the endpoint"
    9s succeeded uf[2] #2
    9s step succeeded uf
    9s rolled back complete=true
    9s ended failed 500 of c
    "#);
    world.check_queue();
}

#[test]
fn c18_a_compensation_knows_what_it_undoes_and_why() {
    let mut world = alternating();
    while world.state.task(task(3, 0)).is_none_or(|t| t.phase == TaskPhase::Idle) {
        assert!(world.step_next(), "the first item is never undone");
    }
    world.step_next();
    let seen = world.state.prepare(task(3, 0)).expect("the compensation is in progress").args;
    let all = json!([{"id": 10}, null, {"id": 12}]);
    let expected = json!({"item": "x", "at": 0, "undoes": 10, "all": all, "why": "500"});
    assert_eq!(seen, expected);
}

/// What the step saw when it was at work is no error of its compensation.
#[test]
fn c18_a_compensation_sees_no_errors_of_the_branch_it_undoes() {
    let flow = Flow::new().step("a", once()).step("b", once());
    let flow = flow.step("j", once()).after(&["a", "b"]).join(json!("any"));
    let flow = flow.args(json!("${_errors}")).step("c", once()).after(&["j"]);
    let flow = flow.step("uj", once()).compensates("j").args(json!("${_errors}"));
    let scripts = [("a", 0, bad()), ("c", 0, bad())];
    let mut world = set(flow.rollback("on_failure").build(), scripts);
    world.run_to(1);
    let of_join = world.state.prepare(task(2, 0)).expect("the join is in progress").args;
    assert_eq!(of_join[0]["code"], "500");
    while world.state.prepare(task(4, 0)).is_none() {
        assert!(world.step_next(), "nothing is undone");
    }
    let seen = world.state.prepare(task(4, 0)).expect("it is in progress").args;
    assert_eq!(seen, Value::Null);
}

#[test]
fn c18_a_compensation_that_fails_for_good_leaves_the_rollback_incomplete() {
    // The others still run, the failure is routed nowhere, and the run's error stays.
    let world = plays(
        chain().rollback("on_failure").build(),
        [("c", 0, bad()), ("ub", 0, vec![status(404)])],
    );
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s started a #1 left=0
    1s succeeded a #1
    1s step succeeded a
    1s entered b x1
    1s started b #1 left=0
    2s succeeded b #1
    2s step succeeded b
    2s entered c x1
    2s started c #1 left=0
    3s failed c #1 500 will_retry=false
    3s gave up c after 1: NotRetryable 500
    3s step failed c 500
    3s rolling back, failed 500
    3s compensating ub
    3s started ub #1 left=0
    4s failed ub #1 404 will_retry=false
    4s gave up ub after 1: NotRetryable 404
    4s step failed ub 404
    4s compensating ua
    4s started ua #1 left=0
    5s succeeded ua #1
    5s step succeeded ua
    5s rolled back complete=false
    5s ended failed 500 of c
    ");
}

#[test]
fn c18_what_is_at_work_is_called_off_before_the_rollback() {
    // Its effect was never recorded, so it is not undone; its late outcome changes nothing.
    let flow = Flow::new().step("s", once()).step("c", once());
    let flow = flow.step("us", once()).compensates("s").rollback("on_failure");
    let slow = vec![ok().taking(Nanos::from_secs(9))];
    let mut world = set(flow.build(), [("s", 0, slow), ("c", 0, bad())]);
    world.run_to(5);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered s x1
    0s entered c x1
    0s started s #1 left=0
    0s started c #1 left=0
    1s failed c #1 500 will_retry=false
    1s gave up c after 1: NotRetryable 500
    1s step failed c 500
    1s rolling back, failed 500
    1s rolled back complete=true
    1s ended failed 500 of c
    ");
    let (it, token) = (task(0, 0), token_of(task(0, 0), 1));
    let late = Input::Succeeded { task: it, token, result: std::sync::Arc::new(json!(1)) };
    assert!(world.handle(&late).is_empty());
}

#[test]
fn c18_a_failure_that_is_handled_rolls_nothing_back() {
    let flow = chain().step("h", once()).on_error(("c", "h"), 0, &[]).rollback("on_failure");
    let world = plays(flow.build(), [("c", 0, bad())]);
    assert_eq!((world.state.outcome(), world.state.rollback()), (Some(&Outcome::Completed), None));
}

#[test]
fn compensations_that_make_no_sense_are_refused() {
    let pair = || Flow::new().step("a", once()).step("b", once()).step("u", once());
    let refused = |flow: Flow| flow.try_build().expect_err("it makes no sense").to_string();
    let itself = pair().compensates("u");
    assert_snapshot!(refused(itself), @"step `u` compensates `u`, which is a compensation itself; name a step of the ordinary flow");
    let chained = pair().compensates("a").step("v", once()).compensates("u");
    assert_snapshot!(refused(chained), @"step `v` compensates `u`, which is a compensation itself; name a step of the ordinary flow");
    let twice = pair().compensates("a").step("v", once()).compensates("a");
    assert_snapshot!(refused(twice), @"step `v` compensates `a`, which another step already compensates; merge the two");
    for flow in [
        pair().compensates("a").after(&["b"]),
        pair().compensates("a").for_each(json!([1])),
        pair().compensates("a").goal(),
        pair().compensates("a").fail_fast(),
        pair().compensates("a").requires(json!({"type": "exists", "field": "state.input.x"})),
        pair().compensates("a").then(("b", "u")),
        pair().compensates("a").then(("u", "b")),
        pair().compensates("a").step("n", once()).after(&["u"]),
    ] {
        let wrong = flow.try_build();
        assert!(
            matches!(wrong, Err(WorkflowError::CompensationInFlow { step: 2, .. })),
            "{wrong:?}"
        );
    }
    // It reads what was there when its step had succeeded, and no more.
    let reads = |id: &str| {
        let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]).step("c", once());
        flow.step("u", once())
            .compensates("b")
            .args(json!(format!("${{steps.{id}.result}}")))
            .try_build()
    };
    assert!(reads("a").is_ok() && reads("b").is_ok());
    assert!(matches!(reads("c"), Err(WorkflowError::NotBefore { .. })));
}
