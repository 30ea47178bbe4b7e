//! Delays: rows R1, A9, C2, H1, spec decisions 2 to 4.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use retrial_core::policy::{Backoff, Functions, Jitter, Multiplier, Shape, Share};
use retrial_core::time::Nanos;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn backoff(shape: Shape) -> Backoff {
    Backoff { shape, jitter: Jitter::None, cap: None }
}

fn times(millionths: u64) -> Multiplier {
    Multiplier::from_millionths(millionths).unwrap()
}

#[track_caller]
fn check(backoff: &Backoff, expected: &[u64]) {
    let none = Functions::default();
    let count = u32::try_from(expected.len()).unwrap();
    let delays: Vec<u64> = (1..=count).map(|n| backoff.nominal(n, &none).as_millis()).collect();
    assert_eq!(delays, expected, "{backoff:?}");
}

#[test]
fn c2_none_retries_at_once() {
    check(&Backoff::NONE, &[0, 0, 0]);
}

#[test]
fn a9_fixed_is_constant() {
    check(&backoff(Shape::Fixed { base: ms(250) }), &[250, 250, 250]);
}

/// Decision 3: `base * n` unless a step is given.
#[test]
fn h1_a9_c2_decision_3_linear_grows_by_its_step() {
    check(&backoff(Shape::Linear { base: ms(1000), step: ms(1000) }), &[1000, 2000, 3000, 4000]);
    check(&backoff(Shape::Linear { base: ms(100), step: ms(50) }), &[100, 150, 200]);
}

/// R1: `base * 2^k`, k = 0 for the first retry. H1: `d * m^(n-1)`. Decision 2: they agree.
#[test]
fn r1_h1_c2_decision_2_exponential() {
    check(&Backoff::exponential(ms(1000)), &[1000, 2000, 4000, 8000]);
    let shape = Shape::Exponential { base: ms(2000), multiplier: times(1_500_000) };
    check(&backoff(shape), &[2000, 3000, 4500, 6750, 10_125]);
    let shape = Shape::Exponential { base: ms(70), multiplier: times(1_000_000) };
    check(&backoff(shape), &[70, 70, 70]);
}

#[test]
fn h1_fibonacci() {
    check(&backoff(Shape::Fibonacci { base: ms(10) }), &[10, 10, 20, 30, 50, 80, 130]);
}

#[test]
fn h17_custom_functions_are_found_by_name() {
    let mut functions = Functions::default();
    functions.register("squares", |n| ms(u64::from(n * n)));
    let custom = backoff(Shape::Custom { name: "squares".into() }).with_cap(ms(10));
    let delays: Vec<u64> = (1..=4).map(|n| custom.nominal(n, &functions).as_millis()).collect();
    assert_eq!(delays, [1, 4, 9, 10]);
}

/// Decision 3: the cap is for every shape.
#[test]
fn decision_3_every_shape_is_capped() {
    let base = ms(100);
    for shape in [
        Shape::Fixed { base },
        Shape::Linear { base, step: base },
        Shape::Exponential { base, multiplier: Multiplier::TWO },
        Shape::Fibonacci { base },
    ] {
        let capped = backoff(shape).with_cap(ms(50));
        check(&capped, &[50, 50, 50]);
    }
    check(&Backoff::exponential(ms(1000)).with_cap(ms(5000)), &[1000, 2000, 4000, 5000, 5000]);
}

/// Decision 4: what would overflow is the cap, or the largest length when there is none.
#[test]
fn decision_4_overflow_saturates() {
    let base = Nanos::from_secs(1);
    for shape in [
        Shape::Linear { base, step: Nanos::new(u64::MAX / 2) },
        Shape::Exponential { base, multiplier: Multiplier::TWO },
        Shape::Exponential { base, multiplier: times(u64::MAX) },
        Shape::Fibonacci { base },
    ] {
        let open = backoff(shape);
        let none = Functions::default();
        assert_eq!(open.nominal(u32::MAX, &none), Nanos::MAX, "{open:?}");
        let capped = open.clone().with_cap(ms(7));
        assert_eq!(capped.nominal(u32::MAX, &none), ms(7), "{capped:?}");
        let wide = open.with_jitter(Jitter::Proportional(Share::QUARTER));
        assert_eq!(*wide.range(u32::MAX, None, &none).end(), Nanos::MAX);
    }
}

/// Decision 4, with d = min(raw, cap) = 800 ms.
#[test]
fn decision_4_jitter_ranges() {
    let check = |jitter: Jitter, cap: u64, previous: Option<u64>, expected: (u64, u64)| {
        let backoff = Backoff::exponential(ms(200)).with_jitter(jitter).with_cap(ms(cap));
        let range = backoff.range(3, previous.map(ms), &Functions::default());
        let found = (range.start().as_millis(), range.end().as_millis());
        assert_eq!(found, expected, "{jitter:?} cap {cap} previous {previous:?}");
    };
    let quarter = Jitter::Proportional(Share::QUARTER);
    check(Jitter::None, 5000, None, (800, 800));
    check(quarter, 5000, None, (600, 1000));
    check(quarter, 900, None, (600, 900)); // min(d(1+p), cap)
    check(quarter, 800, None, (600, 800));
    check(Jitter::Full, 5000, None, (0, 800));
    check(Jitter::Full, 300, None, (0, 300));
    check(Jitter::Equal, 5000, None, (400, 800));
    // Decorrelated: [base, min(cap, 3 x previous)], previous starting at base.
    check(Jitter::Decorrelated, 5000, None, (200, 600));
    check(Jitter::Decorrelated, 5000, Some(1000), (200, 3000));
    check(Jitter::Decorrelated, 1500, Some(1000), (200, 1500));
    check(Jitter::Decorrelated, 150, Some(1000), (150, 150));
}

fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        (0..=1_000_000_u32).prop_map(|p| Jitter::Proportional(Share::from_millionths(p).unwrap())),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The same chance gives the same delay, within the range; the ends of chance reach its ends.
    #[test]
    fn decision_4_draws_stay_within_the_range(
        jitter in jitters(),
        base in any::<u64>(),
        cap in prop::option::of(any::<u64>()),
        n in 1..200_u32,
        previous in prop::option::of(any::<u64>()),
        chance in any::<u64>(),
    ) {
        let mut backoff = Backoff::exponential(Nanos::new(base)).with_jitter(jitter);
        backoff.cap = cap.map(Nanos::new);
        let (previous, none) = (previous.map(Nanos::new), Functions::default());
        let range = backoff.range(n, previous, &none);
        let draw = |chance| backoff.draw(n, previous, chance, &none);
        prop_assert!(range.contains(&draw(chance)));
        prop_assert_eq!(draw(chance), draw(chance));
        prop_assert_eq!(draw(0), *range.start());
        prop_assert_eq!(draw(u64::MAX), *range.end());
        if let Some(cap) = backoff.cap {
            prop_assert!(*range.end() <= cap);
        }
    }

    /// Beside a naive model in wide integers.
    #[test]
    fn doubling_equals_the_model(base in 0..u64::MAX, n in 1..=64_u32) {
        let exact = u128::from(base) << (n - 1);
        let expected = u64::try_from(exact).unwrap_or(u64::MAX);
        let delay = Backoff::exponential(Nanos::new(base)).nominal(n, &Functions::default());
        prop_assert_eq!(delay.get(), expected);
    }
}

#[test]
fn h2_limits_of_multiplier_and_share() {
    assert!(Multiplier::from_millionths(999_999).is_err());
    assert!(Multiplier::from_millionths(1_000_000).is_ok());
    assert!(Share::from_millionths(1_000_001).is_err());
    assert!(Share::from_millionths(1_000_000).is_ok());
}
