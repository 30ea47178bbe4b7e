//! A node's wrong clocks: pure integer arithmetic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use retrial::time::{Mono, Timestamp};
use retrial_sim::unstable::runtime::{ClockPlan, Drift, Jump, NodeClock};

fn clock(drift: i32, origin: u64, born: u64) -> NodeClock {
    let (drift, origin) = (Drift::ppm(drift).unwrap(), Mono::from_nanos(origin));
    NodeClock::new(ClockPlan { drift, origin, ..ClockPlan::default() }, Mono::from_nanos(born))
}

proptest! {
    /// Waking at `true_at(m)` is never early by the node's clock, and 1 ns before it would be.
    #[test]
    fn a_sleep_ends_at_the_first_moment_that_is_not_early(
        drift in -Drift::LIMIT..=Drift::LIMIT,
        origin in 0..u64::MAX / 8,
        born in 0..u64::MAX / 8,
        ahead in 1..u64::MAX / 8,
    ) {
        let clock = clock(drift, origin, born);
        let target = Mono::from_nanos(origin + ahead);
        let wake = clock.true_at(target);
        prop_assert!(clock.mono(wake) >= target);
        prop_assert!(clock.mono(Mono::from_nanos(wake.as_nanos() - 1)) < target);
    }

    #[test]
    fn the_monotonic_clock_never_goes_back(
        drift in -Drift::LIMIT..=Drift::LIMIT, born: u64, at: u64, by in 0_u64..10_000_000,
    ) {
        let clock = clock(drift, 7, born);
        let later = Mono::from_nanos(at.saturating_add(by));
        prop_assert!(clock.mono(later) >= clock.mono(Mono::from_nanos(at)));
    }

    #[test]
    fn without_drift_it_runs_true(origin in 0..u64::MAX / 2, born in 0..u64::MAX / 4, run in 0..u64::MAX / 4) {
        let clock = clock(0, origin, born);
        prop_assert_eq!(clock.mono(Mono::from_nanos(born + run)).as_nanos(), origin + run);
    }

    #[test]
    fn the_wall_is_base_and_truth_and_error(base in 0..u64::MAX / 4, at in 0..u64::MAX / 4, skew in -1_000_000_000_000_i64..1_000_000_000_000) {
        let plan = ClockPlan { base: Timestamp::from_nanos(base), skew, ..ClockPlan::default() };
        let said = NodeClock::new(plan, Mono::from_nanos(5)).wall(Mono::from_nanos(at));
        let expected = (i128::from(base) + i128::from(at) + i128::from(skew)).max(0);
        prop_assert_eq!(i128::from(said.as_nanos()), expected);
    }
}

#[test]
fn drift_by_hand() {
    // 100 ppm is 0.1 ms a second; 1 s of a clock that is 10 % slow takes 1.111… s.
    let at = |drift, true_nanos| clock(drift, 0, 0).mono(Mono::from_nanos(true_nanos)).as_nanos();
    assert_eq!(at(100, 1_000_000_000), 1_000_100_000);
    assert_eq!(at(-100, 1_000_000_000), 999_900_000);
    assert_eq!(at(1, 999_999), 999_999);
    assert_eq!(at(-1, 1), 0);
    let slow = clock(-100_000, 0, 0);
    assert_eq!(slow.true_at(Mono::from_nanos(1_000_000_000)).as_nanos(), 1_111_111_112);
    assert_eq!(slow.mono(Mono::from_nanos(u64::MAX)).as_nanos(), u64::MAX / 10 * 9 + 4);
}

#[test]
fn the_wall_jumps_and_the_monotonic_clock_does_not() {
    let jumps = vec![
        Jump { at: Mono::from_nanos(200), by: -150 },
        Jump { at: Mono::from_nanos(100), by: 1_000 },
    ];
    let base = Timestamp::from_nanos(1_000_000);
    let clock =
        NodeClock::new(ClockPlan { base, jumps, skew: 5, ..ClockPlan::default() }, Mono::default());
    let wall = |at| clock.wall(Mono::from_nanos(at)).as_nanos() - 1_000_000;
    assert_eq!([99, 100, 199, 200].map(wall), [104, 1_105, 1_204, 1_055]);
    assert_eq!(clock.mono(Mono::from_nanos(200)), Mono::from_nanos(200));
}

#[test]
fn the_ends_of_time_hold() {
    let plan = |skew| ClockPlan { skew, base: Timestamp::from_nanos(10), ..ClockPlan::default() };
    let wall = |skew, at| NodeClock::new(plan(skew), Mono::default()).wall(Mono::from_nanos(at));
    assert_eq!(wall(i64::MIN, 0), Timestamp::from_nanos(0));
    assert_eq!(wall(0, u64::MAX), Timestamp::from_nanos(u64::MAX));
    assert_eq!(
        clock(-500_000, 0, 0).true_at(Mono::from_nanos(u64::MAX)),
        Mono::from_nanos(u64::MAX)
    );
}

#[test]
fn nonsense_drift_is_refused() {
    assert!(serde_json::from_str::<Drift>("500000").is_ok());
    let refused = serde_json::from_str::<Drift>("-1000000").unwrap_err().to_string();
    insta::assert_snapshot!(refused, @"a drift of -1000000 ppm is out of range: give -500000 to 500000");
}
