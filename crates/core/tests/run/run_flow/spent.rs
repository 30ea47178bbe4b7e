//! Where a task's time goes.

use super::*;

/// The time of the task's end, in seconds: working, in failed attempts, waiting.
fn seconds(world: &World) -> [u64; 3] {
    let spent = world.log.iter().find_map(|r| match &r.event {
        Event::TaskSucceeded { spent, .. } | Event::TaskFailed { spent, .. } => Some(*spent),
        _ => None,
    });
    let spent = spent.expect("the task ended");
    [spent.working, spent.failing, spent.waiting].map(|length| length.as_millis() / 1_000)
}

#[test]
fn c15_the_time_in_retries_is_told_apart_from_the_time_working() {
    // Attempts of 1 s each, delays of 1 s and 2 s.
    assert_eq!(seconds(&one(doubling(3), [ok()])), [1, 0, 0]);
    assert_eq!(seconds(&one(doubling(3), [status(503), status(503), ok()])), [1, 2, 3]);
    assert_eq!(seconds(&one(doubling(3), [status(503), status(503), status(503)])), [0, 3, 3]);
    let world = one(doubling(3), [status(503), ok()]);
    assert_eq!(world.state.spent().total(), Nanos::from_secs(3), "of the run as well");
}
