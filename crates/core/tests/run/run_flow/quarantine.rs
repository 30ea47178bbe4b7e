//! X14: what a task that keeps losing its node waits for.

use std::num::NonZeroU32;

use retrial_core::policy::GiveUp;
use run_support::world::START;

use super::*;

const IT: TaskId = TaskId { step: StepIx(0), item: 0 };

/// A task whose attempts go as `shots`, held once three in a row have lost their node.
fn held_after_three(policy: Policy, shots: Vec<Shot>) -> World {
    let mut world = set(Flow::new().step("a", policy).build(), [("a", 0, shots)]);
    world.quarantine_after = NonZeroU32::new(3);
    world.run(1_000);
    world.check_queue();
    world
}

fn claim(world: &mut World, attempt: u32) -> Vec<&'static str> {
    let token = token_of(IT, attempt);
    names(&world.handle(&Input::Claimed { task: IT, attempt, token, default_timeout: None }))
}

fn release(step: Option<u16>, item: Option<u32>) -> Input {
    Input::Release { step: step.map(StepIx), item, reason: "mended".into() }
}

fn names(events: &[retrial_core::run::Recorded]) -> Vec<&'static str> {
    events.iter().map(|r| r.event.name()).collect()
}

fn is_held(world: &World) -> bool {
    world.state.task(IT).is_some_and(|task| task.quarantined)
}

#[test]
fn x14_after_three_lost_nodes_in_a_row_only_a_person_lets_a_task_go_on() {
    let mut world = held_after_three(doubling(9), vec![lost(), lost(), lost(), ok()]);
    assert!(is_held(&world) && world.state.outcome().is_none());
    assert_eq!(world.state.due_in(IT, world.now), None, "nothing but a person ends its wait");
    world.now = START.after(Nanos::from_secs(1_000));
    assert_eq!(claim(&mut world, 4), [""; 0]);
    assert_eq!(names(&world.handle(&release(None, None))), ["task_released"]);
    assert_eq!(names(&world.handle(&release(None, None))), [""; 0], "it is released once");
    assert!(world.run(10));
    insta::assert_snapshot!(history(&world), @r#"
       0s created
       0s entered a x1
       0s started a #1 left=8
      30s failed a #1 LEASE_LOST will_retry=true
      30s retrying a #2 in 1s backoff=1s lost lease LEASE_LOST
      31s started a #2 left=7 after 1s of "LEASE_LOST: the lease ended before an outcome was recorded"
     1m1s failed a #2 LEASE_LOST will_retry=true
     1m1s retrying a #3 in 2s backoff=2s lost lease LEASE_LOST
     1m3s started a #3 left=6 after 2s of "LEASE_LOST: the lease ended before an outcome was recorded"
    1m33s failed a #3 LEASE_LOST will_retry=true
    1m33s retrying a #4 in 4s backoff=4s lost lease LEASE_LOST
    1m33s quarantined a #4 after 3 lost
    16m40s released a #4 "mended"
    16m40s started a #4 left=5 after 4s of "LEASE_LOST: the lease ended before an outcome was recorded"
    16m41s succeeded a #4
    16m41s step succeeded a
    16m41s ended completed
    "#);
}

/// What is released waits for the rest of its delay.
#[test]
fn x14_a_released_task_is_due_when_its_delay_is_over() {
    let mut world = held_after_three(doubling(9), vec![lost(), lost(), lost()]);
    let due = world.state.task(IT).map(|t| t.due).unwrap();
    assert!(due > world.now);
    world.handle(&release(Some(0), Some(0)));
    assert_eq!(world.state.due_in(IT, world.now), Some(due.since(world.now)));
    assert_eq!(world.state.due_in(IT, due.after(Nanos::from_secs(9))), Some(Nanos::ZERO));
}

/// Another failure, or a release, starts the count anew.
#[test]
fn x14_only_losses_in_a_row_count() {
    let between = |shot: Shot| vec![lost(), lost(), shot, lost(), lost(), ok()];
    let timed = change(9, |p| p.attempt_timeout = Some(Nanos::from_secs(60)));
    let late = hangs().taking(Nanos::from_secs(90));
    for (policy, shots) in [(doubling(9), between(status(503))), (timed, between(late))] {
        let world = held_after_three(policy, shots);
        assert_eq!(world.state.outcome(), Some(&Outcome::Completed), "{}", history(&world));
    }
    let mut world = held_after_three(doubling(9), vec![lost(); 8]);
    world.handle(&release(None, None));
    assert!(!is_held(&world));
    world.run(1_000);
    let attempt = world.state.task(IT).map(|t| (t.attempt, t.lost, t.quarantined));
    assert_eq!(attempt, Some((7, 3, true)), "{}", history(&world));
}

#[test]
fn x14_a_task_that_is_not_tried_again_fails_as_ever() {
    let world = held_after_three(doubling(3), vec![lost(); 3]);
    assert!(matches!(world.state.outcome(), Some(Outcome::Failed { .. })), "{}", history(&world));
    let mut world = set(Flow::new().step("a", doubling(9)).build(), [("a", 0, vec![lost(); 5])]);
    assert!(world.run(1_000) && world.state.outcome().is_some(), "nothing is held without a limit");
}

#[test]
fn x14_the_total_timeout_ends_quarantine() {
    let policy = change(9, |p| p.total_timeout = Some(Nanos::from_secs(600)));
    let mut world = held_after_three(policy, vec![lost(); 3]);
    let end = START.after(Nanos::from_secs(600));
    assert_eq!(world.state.due_in(IT, world.now), Some(end.since(world.now)));
    // The store says that its row is due, whatever the node believes.
    let told = world.handle(&Input::Claimed {
        task: IT,
        attempt: 4,
        token: token_of(IT, 4),
        default_timeout: None,
    });
    let Event::TaskFailed { reason, ref error, .. } = told[0].event else { panic!("{told:?}") };
    assert_eq!((reason, error.code.as_str()), (GiveUp::TotalTimeout, "LEASE_LOST"));
    assert_eq!(told[0].at, end);
}

/// A pause does not end what only a release ends, nor the other way round.
#[test]
fn x14_a_pause_and_a_quarantine_hold_each_by_itself() {
    let mut world = held_after_three(doubling(9), vec![lost(), lost(), lost(), ok()]);
    world.handle(&Input::Pause { reason: "look".into() });
    world.handle(&release(None, None));
    assert_eq!((world.state.due_in(IT, world.now), world.next()), (None, None));
    world.handle(&Input::Resume);
    assert!(world.run(10) && world.state.outcome().is_some());
    let mut world = held_after_three(doubling(9), vec![lost(); 3]);
    world.handle(&Input::Pause { reason: "look".into() });
    world.handle(&Input::Resume);
    assert_eq!((world.state.due_in(IT, world.now), world.next()), (None, None));
}

#[test]
fn x14_what_is_held_can_be_failed_cancelled_and_rolled_back() {
    let held = || held_after_three(doubling(9), vec![lost(); 3]);
    let reason = || "enough".to_owned();
    let mut world = held();
    world.handle(&Input::Fail { step: StepIx(0), item: None, reason: reason() });
    assert!(matches!(world.state.outcome(), Some(Outcome::Failed { .. })));
    for input in [Input::Cancel { reason: reason() }, Input::Rollback { reason: reason() }] {
        let mut world = held();
        world.handle(&input);
        let ended = world.state.outcome();
        assert!(matches!(ended, Some(Outcome::Cancelled { .. })), "{}", history(&world));
        assert_eq!(world.state.quarantined().count(), 0);
    }
}

#[test]
fn x14_only_the_tasks_that_are_meant_are_released() {
    let flow = Flow::new().step("f", doubling(9)).for_each(json!([1, 2, 3]));
    let flow = flow.step("g", doubling(9)).build();
    let lose = || vec![lost(); 3];
    let scripts = [("f", 0, lose()), ("f", 1, lose()), ("f", 2, lose()), ("g", 0, lose())];
    let mut world = set(flow, scripts);
    world.quarantine_after = NonZeroU32::new(3);
    world.run(1_000);
    assert_eq!(world.state.quarantined().count(), 4, "{}", history(&world));
    let mut left = |step, item| {
        let released = world.handle(&release(step, item)).len();
        (released, world.state.quarantined().map(|(task, _)| task).collect::<Vec<_>>())
    };
    assert_eq!(left(Some(0), Some(1)), (1, vec![task(0, 0), task(0, 2), task(1, 0)]));
    assert_eq!(left(Some(0), Some(9)).0, 0);
    assert_eq!(left(Some(0), None), (2, vec![task(1, 0)]));
    assert_eq!(left(None, None), (1, vec![]));
}
