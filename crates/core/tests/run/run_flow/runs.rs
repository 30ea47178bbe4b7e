//! Runs: goals, cancelling, deactivating, the end.

use insta::assert_snapshot;

use super::*;

#[test]
fn a13_a_failed_goal_fails_the_run() {
    // A13: unrouted; what else is at work is called off.
    let flow = Flow::new().step("g", once()).goal().step("b", once()).build();
    let world = plays(
        flow,
        [("g", 0, vec![status(500)]), ("b", 0, vec![ok().taking(Nanos::from_secs(9))])],
    );
    assert_snapshot!(history(&world), @"
    0s created
    0s entered g x1
    0s entered b x1
    0s started g #1 left=0
    0s started b #1 left=0
    1s failed g #1 500 will_retry=false
    1s gave up g after 1: NotRetryable 500
    1s step failed g 500
    1s ended failed 500 of g
    ");
    assert!(world.state.tasks().all(|(_, t)| !t.is_live()));
}

#[test]
fn decision_18_a_failed_goal_that_is_routed_ends_failed_after_its_handlers_branch() {
    // Decision 18: the branch is the handler, what it leads to and what comes after those; other
    // work does not hold the end up.
    let flow = Flow::new()
        .step("g", once())
        .goal()
        .step("h", once())
        .step("i", once())
        .step("j", once())
        .after(&["i"])
        .step("b", once())
        .on_error(("g", "h"), 0, &[])
        .then(("h", "i"));
    let shots = [("g", 0, vec![status(500)]), ("b", 0, vec![ok().taking(Nanos::from_secs(99))])];
    assert_snapshot!(history(&plays(flow.build(), shots)), @"
    0s created
    0s entered g x1
    0s entered b x1
    0s started g #1 left=0
    0s started b #1 left=0
    1s failed g #1 500 will_retry=false
    1s gave up g after 1: NotRetryable 500
    1s step failed g 500
    1s routed g -> h on failure
    1s entered h x1
    1s started h #1 left=0
    2s succeeded h #1
    2s step succeeded h
    2s routed h -> i
    2s entered i x1
    2s started i #1 left=0
    3s succeeded i #1
    3s step succeeded i
    3s entered j x1
    3s started j #1 left=0
    4s succeeded j #1
    4s step succeeded j
    4s ended failed 500 of g
    ");
}

#[test]
fn decision_18_a_step_that_a_handler_leads_to_stays_its_branch() {
    // Decision 18: `x`, which has nothing to do with the failure, leads to `j` too, and after `h` does.
    let flow = Flow::new().step("g", once()).goal().step("x", once()).step("h", once());
    let flow = flow.step("j", once()).on_error(("g", "h"), 0, &[]).then(("h", "j"));
    let long = |seconds| vec![ok().taking(Nanos::from_secs(seconds))];
    let shots =
        [("g", 0, vec![status(500)]), ("x", 0, long(5)), ("j", 0, long(20)), ("h", 0, long(2))];
    let told = history(&plays(flow.then(("x", "j")).build(), shots));
    let place = |what: &str| told.find(what).expect(what);
    assert!(place("routed h -> j") < place("routed x -> j"), "{told}");
    assert!(place("routed x -> j") < place("succeeded j"), "{told}");
    assert!(place("succeeded j") < place("ended failed"), "{told}");
}

#[test]
fn decision_18_a_handler_that_waits_holds_the_end_of_a_failed_goal_up() {
    // Decision 18: the handler also needs `x`, which is still at work when the goal fails.
    let flow = Flow::new().step("g", once()).goal().step("x", once()).step("h", once());
    let flow = flow.after(&["x"]).on_error(("g", "h"), 0, &[]).build();
    let shots = [("g", 0, vec![status(500)]), ("x", 0, vec![ok().taking(Nanos::from_secs(5))])];
    assert_snapshot!(history(&plays(flow, shots)), @"
    0s created
    0s entered g x1
    0s entered x x1
    0s started g #1 left=0
    0s started x #1 left=0
    1s failed g #1 500 will_retry=false
    1s gave up g after 1: NotRetryable 500
    1s step failed g 500
    1s routed g -> h on failure
    5s succeeded x #1
    5s step succeeded x
    5s entered h x1
    5s started h #1 left=0
    6s succeeded h #1
    6s step succeeded h
    6s ended failed 500 of g
    ");
}

#[test]
fn a13_a_failed_step_that_is_no_goal_lets_the_goal_be_reached() {
    // A13: its dependents are unreachable, the run is not.
    let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]).step("g", once());
    let world = plays(flow.goal().build(), [("a", 0, vec![status(500)])]);
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s entered g x1
    0s started a #1 left=0
    0s started g #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s step unreachable b
    1s succeeded g #1
    1s step succeeded g
    1s ended completed
    ");
}

#[test]
fn a13_an_unreachable_goal_fails_the_run_with_what_made_it_so() {
    // A13: `y` is the cause; `x` failed before it and has nothing to do with the goal.
    let flow = Flow::new().step("x", once()).step("y", once());
    let flow = flow.step("m", once()).after(&["y"]).step("g", once()).after(&["m"]).goal();
    let shots =
        [("x", 0, vec![status(501)]), ("y", 0, vec![status(502).taking(Nanos::from_secs(2))])];
    assert_snapshot!(history(&plays(flow.build(), shots)), @"
    0s created
    0s entered x x1
    0s entered y x1
    0s started x #1 left=0
    0s started y #1 left=0
    1s failed x #1 501 will_retry=false
    1s gave up x after 1: NotRetryable 501
    1s step failed x 501
    2s failed y #1 502 will_retry=false
    2s gave up y after 1: NotRetryable 502
    2s step failed y 502
    2s step unreachable m
    2s step unreachable g
    2s ended failed 502 of y
    ");
}

#[test]
fn decision_18_without_goals_an_unrouted_failure_fails_the_run() {
    // Decision 18.
    let flow = Flow::new().step("a", once()).step("b", once()).build();
    let world = plays(
        flow,
        [("a", 0, vec![status(500)]), ("b", 0, vec![ok().taking(Nanos::from_secs(9))])],
    );
    assert_snapshot!(history(&world), @"
    0s created
    0s entered a x1
    0s entered b x1
    0s started a #1 left=0
    0s started b #1 left=0
    1s failed a #1 500 will_retry=false
    1s gave up a after 1: NotRetryable 500
    1s step failed a 500
    1s ended failed 500 of a
    ");
}

/// One step that waits long before its second attempt.
fn retrying() -> World {
    let policy = change(3, |p| {
        p.rules[0].backoff = retrial_core::policy::Backoff::exponential(Nanos::from_secs(60));
    });
    set(Flow::new().step("a", policy).build(), [("a", 0, vec![status(500), ok()])])
}

fn cancel() -> Input {
    Input::Cancel { reason: "enough".into() }
}

#[test]
fn h12_cancelling_works_at_once_at_any_time() {
    // H12: before the first attempt, during one, during the delay, and during the retry.
    for at in [None, Some(0), Some(30), Some(61)] {
        let mut world = retrying();
        if let Some(seconds) = at {
            world.run_to(seconds);
        }
        let before = world.now;
        let events = world.handle(&cancel());
        let text = show(&events, world.state.workflow());
        let text: Vec<&str> =
            text.lines().map(|l| l.trim_start().split_once(' ').unwrap().1).collect();
        assert_eq!(text, ["cancel requested: enough", "ended cancelled: enough"]);
        assert!(events.iter().all(|e| e.at == before));
        assert_eq!(world.next(), None);
        world.check_queue();
        assert!(world.state.tasks().all(|(_, t)| t.phase == TaskPhase::Cancelled));
    }
}

#[test]
fn cancelling_an_ended_run_changes_nothing() {
    // H12, promise 3: nothing after the end.
    let mut world = retrying();
    world.run(10);
    let before = world.state.clone();
    let (task, token) = (task(0, 0), token_of(task(0, 0), 2));
    for input in [
        cancel(),
        Input::Deactivate,
        Input::Activate,
        Input::Claimed { task, attempt: 2, token, default_timeout: None },
        Input::Succeeded { task, token, result: std::sync::Arc::new(Value::Null) },
        Input::Failed { task, token, failure: Failure::http(500, "late"), denied: false },
        Input::Expired { task, token, lapse: Lapse::Lease, denied: false, quarantine_after: None },
    ] {
        assert!(world.handle(&input).is_empty());
    }
    assert_eq!(before, world.state);
    // Nor does the fold take anything in.
    let event = retrial_core::run::Recorded { at: world.now, event: Event::RunActivated };
    assert!(world.state.apply(&event).is_err());
    assert_eq!(before, world.state);
}

#[test]
fn a12_a_deactivated_run_is_left_alone_until_it_is_activated() {
    // A12: no attempt starts; one in progress may end, and its failure is still scheduled.
    let mut world = retrying();
    world.run_until(world.now);
    assert_eq!(world.handle(&Input::Deactivate).len(), 1);
    assert!(world.handle(&Input::Deactivate).is_empty());
    world.run_to(1);
    let (at, attempt) = (task(0, 0), 2);
    world.now = world.now.after(Nanos::from_secs(60));
    let claim =
        Input::Claimed { task: at, attempt, token: token_of(at, attempt), default_timeout: None };
    assert!(world.handle(&claim).is_empty());
    assert_eq!(world.handle(&Input::Activate).len(), 1);
    world.run(10);
    assert_snapshot!(history(&world), @r#"
      0s created
      0s entered a x1
      0s started a #1 left=2
      0s deactivated
      1s failed a #1 500 will_retry=true
      1s retrying a #2 in 1m backoff=1m failure 500
    1m1s activated
    1m1s started a #2 left=1 after 1m of "500: from the endpoint"
    1m2s succeeded a #2
    1m2s step succeeded a
    1m2s ended completed
    "#);
}

#[test]
fn h12_a_deactivated_run_can_be_cancelled() {
    // H12, A12.
    let mut world = retrying();
    world.handle(&Input::Deactivate);
    world.handle(&cancel());
    assert!(matches!(world.state.outcome(), Some(Outcome::Cancelled { .. })));
}

#[test]
fn decision_19_a_history_that_can_not_be_is_refused() {
    // Decision 19, promise 3: the fold takes no event that can't follow, and changes nothing then.
    let world = one(doubling(2), [status(500), ok()]);
    let log = &world.log;
    let fold = |events: &[retrial_core::run::Recorded]| {
        retrial_core::run::RunState::replay(world.state.id(), events)
    };
    assert_eq!(fold(log).expect("the true history").version(), world.state.version());
    for gone in 0..log.len() - 1 {
        let mut damaged = log.clone();
        let lost = damaged.remove(gone).event;
        let folded = fold(&damaged);
        // The attempt's failure is an event beside the retry: only the error's text is lost without
        // it.
        let harmless = matches!(lost, Event::AttemptFailed { .. });
        assert_eq!(folded.is_ok(), harmless, "without {}: {folded:?}", lost.name());
    }
    for twice in 0..log.len() {
        let mut damaged = log.clone();
        damaged.insert(twice, log[twice].clone());
        let harmless = matches!(log[twice].event, Event::AttemptFailed { .. });
        assert_eq!(fold(&damaged).is_ok(), harmless, "twice {}", log[twice].event.name());
    }
}

/// The workflow file: `[input]` has defaults.
#[test]
fn what_is_submitted_comes_before_the_definitions_defaults() {
    let object = |value: Value| value.as_object().cloned().unwrap_or_default();
    let flow = Flow::new().step("a", once());
    let flow = flow.input(object(json!({ "kept": 1, "other": { "x": 1 } }))).build();
    let submitted = object(json!({ "other": { "y": 2 }, "more": 3 }));
    let world = World::with_input(flow, 7, submitted);
    let Event::RunCreated { input, .. } = &world.log[0].event else { panic!("{:?}", world.log) };
    assert_eq!(*input, object(json!({ "kept": 1, "other": { "y": 2 }, "more": 3 })));
}
