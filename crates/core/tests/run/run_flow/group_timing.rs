//! What retries do to a parallel group's timing (H17).

use retrial_core::run::GroupTiming;

use super::*;

fn timing(world: &World) -> Option<GroupTiming> {
    GroupTiming::of(&world.log, StepIx(0))
}

const fn s(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

#[test]
fn h17_a_groups_timing_is_that_of_its_slowest_task() {
    // `f[1]`: 1 s of work, 1 s of delay, 1 s, 2 s, 1 s; the others need no retry.
    let flow = Flow::new().step("f", doubling(3)).for_each(json!([1, 2, 3]));
    let slow = vec![ok().taking(s(4))];
    let scripts = [("f", 0, slow), ("f", 1, vec![status(500), status(500)])];
    let world = plays(flow.build(), scripts);
    let expected = GroupTiming {
        took: s(6),
        slowest: 1,
        working: s(3),
        delayed: s(3),
        waiting: Nanos::ZERO,
        without_retries: s(4),
        retries: 2,
    };
    assert_eq!(timing(&world), Some(expected));
}

/// Each group is timed alone, also where another begins while it is at work or after it.
#[test]
fn h17_another_group_does_not_move_a_groups_timing() {
    let flow = Flow::new().step("f", once()).for_each(json!([1, 2])).step("b", once());
    let flow = flow.step("g", doubling(2)).for_each(json!([1])).after(&["b"]);
    let slow = vec![ok().taking(s(4))];
    let world = plays(flow.build(), [("f", 1, slow), ("g", 0, vec![status(503)])]);
    let of = |step| GroupTiming::of(&world.log, StepIx(step)).expect("it has ended");
    assert_eq!((of(0).took, of(0).slowest, of(0).retries), (s(4), 1, 0));
    assert_eq!((of(2).took, of(2).slowest, of(2).retries), (s(3), 0, 1));
}

#[test]
fn h17_waiting_for_a_hand_is_no_retry_delay() {
    let flow = Flow::new().step("f", doubling(2)).for_each(json!([1]));
    let mut world = World::new(flow.build(), 7);
    world.lag = s(2);
    world.script("f", 0, [status(500)]);
    assert!(world.run(100));
    let found = timing(&world).expect("it has ended");
    assert_eq!((found.working, found.delayed, found.waiting), (s(2), s(1), s(4)));
    let sum = found.working.saturating_add(found.delayed).saturating_add(found.waiting);
    assert_eq!(found.took, sum);
}

#[test]
fn h17_a_group_at_work_or_without_tasks_has_no_timing_yet() {
    let flow = Flow::new().step("f", doubling(2)).for_each(json!([1, 2]));
    let mut world = set(flow.build(), [("f", 0, vec![status(500)])]);
    world.run_to(2);
    assert_eq!(timing(&world), None);
    assert!(world.run(100) && timing(&world).is_some());
    // Nor one whose beginning was trimmed away.
    assert_eq!(GroupTiming::of(&world.log[2..], StepIx(0)), None);
    let empty = Flow::new().step("f", once()).for_each(json!([])).build();
    assert_eq!(timing(&plays(empty, [])), None);
}
