//! What people do to a run that is, or is to be, rolled back (C18).

use insta::assert_snapshot;

use super::rollback::{bad, chain};
use super::*;

/// The chain, failed and rolling back, at the wait before the second attempt of `ub`.
fn waiting() -> World {
    let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]);
    let flow = flow.step("c", once()).after(&["b"]).rollback("on_failure");
    let flow = flow.step("ua", once()).compensates("a").step("ub", doubling(2)).compensates("b");
    let mut world = set(flow.build(), [("c", 0, bad()), ("ub", 0, vec![status(502), ok()])]);
    while world.state.task(task(4, 0)).is_none_or(|t| t.attempt < 2) {
        assert!(world.step_next(), "`ub` is never tried again");
    }
    world
}

#[test]
fn c18_h17_a_paused_rollback_waits_before_its_retry() {
    let mut world = waiting();
    world.handle(&Input::Pause { reason: "let me look".into() });
    let claim = Input::Claimed {
        task: task(4, 0),
        attempt: 2,
        token: token_of(task(4, 0), 2),
        default_timeout: None,
    };
    assert!(world.handle(&claim).is_empty(), "the retry is held back");
    world.run_to(600);
    assert_eq!((phase(&world, "ua"), world.state.outcome()), (StepPhase::Waiting, None));
    world.handle(&Input::Resume);
    assert!(world.run(100));
    let rollback = world.state.rollback().expect("it is rolled back");
    assert_eq!((rollback.compensated, rollback.complete), (2, Some(true)));
}

#[test]
fn c18_h17_a_compensation_failed_by_hand_leaves_the_rollback_incomplete() {
    let mut world = waiting();
    let fail = Input::Fail { step: StepIx(4), item: None, reason: "undone by phone".into() };
    assert!(!world.handle(&fail).is_empty());
    assert!(world.run(100));
    assert_eq!(
        (phase(&world, "ub"), phase(&world, "ua")),
        (StepPhase::Failed, StepPhase::Succeeded)
    );
    let rollback = world.state.rollback().expect("it is rolled back");
    assert_eq!((rollback.compensated, rollback.failed, rollback.complete), (1, 1, Some(false)));
    let failed_step = match world.state.outcome() {
        Some(Outcome::Failed { error }) => error.node_id.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(failed_step, "c", "how the run ends was settled before");
}

#[test]
fn c18_a_deactivated_rollback_goes_on_when_it_is_activated() {
    let mut world = set(chain().rollback("on_failure").build(), [("c", 0, bad())]);
    world.run_to(3);
    assert!(world.state.rollback().is_some());
    world.handle(&Input::Deactivate);
    world.paused = true;
    world.run_to(60);
    assert_eq!(world.state.outcome(), None);
    world.handle(&Input::Activate);
    world.paused = false;
    assert!(world.run(100));
    assert_eq!(world.state.rollback().and_then(|r| r.complete), Some(true));
}

#[test]
fn c18_a_rollback_on_demand_whatever_the_workflow_says() {
    let mut world = set(chain().build(), [("c", 0, vec![ok().taking(Nanos::from_secs(9))])]);
    world.run_to(3);
    world.handle(&Input::Rollback { reason: "wrong customer".into() });
    let again = Input::Rollback { reason: "again".into() };
    assert!(world.handle(&again).is_empty(), "it rolls back already");
    assert!(world.run(100));
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
    3s cancel requested: wrong customer
    3s rolling back, cancelled: wrong customer
    3s compensating ub
    3s started ub #1 left=0
    4s succeeded ub #1
    4s step succeeded ub
    4s compensating ua
    4s started ua #1 left=0
    5s succeeded ua #1
    5s step succeeded ua
    5s rolled back complete=true
    5s ended cancelled: wrong customer
    ");
    assert!(world.handle(&again).is_empty(), "it has ended");
}

#[test]
fn c18_a_cancelled_run_is_rolled_back_where_its_workflow_says_so() {
    for (rollback, rolls) in [("on_cancel", true), ("always", true), ("on_failure", false)] {
        let slow = vec![ok().taking(Nanos::from_secs(9))];
        let mut world = set(chain().rollback(rollback).build(), [("c", 0, slow)]);
        world.run_to(3);
        world.handle(&Input::Cancel { reason: "enough".into() });
        assert_eq!(world.state.outcome().is_none(), rolls, "{rollback}");
        assert!(world.run(100));
        assert_eq!(phase(&world, "ua") == StepPhase::Succeeded, rolls, "{rollback}");
        assert!(matches!(world.state.outcome(), Some(Outcome::Cancelled { .. })));
    }
}

#[test]
fn c18_h12_cancelling_a_rollback_stops_it_at_once() {
    // The compensation at work is called off, the rest is not begun; how the run ends stays.
    let slow = vec![ok().taking(Nanos::from_secs(9))];
    let mut world = set(chain().rollback("on_failure").build(), [("c", 0, bad()), ("ub", 0, slow)]);
    world.run_to(5);
    world.handle(&Input::Cancel { reason: "leave it".into() });
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
    5s cancel requested: leave it
    5s rolled back complete=false
    5s ended failed 500 of c
    ");
}
