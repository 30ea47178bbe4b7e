//! Policies built in Rust, rows R2 to R4, W16; and the words for their parts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use retrial_core::policy::{
    AtDeadline, Backoff, Budget, Counting, DelayList, Dialect, Functions, GiveUp, Jitter, Limit,
    Matcher, Multiplier, Origin, Policy, PolicyParts, Rule, Shape, Share,
};
use retrial_core::time::Nanos;

const SECOND: Nanos = Nanos::from_secs(1);

/// Each part that the builder can set is in the policy, and those set before `or` stay.
#[test]
fn r2_r3_r4_w16_the_builder_says_all_that_a_policy_holds() {
    let budget = Budget::of_first_attempts(Share::TENTH);
    let truncate = AtDeadline::Truncate { reserve: SECOND };
    let built = Policy::builder()
        .attempt_timeout(Nanos::from_secs(7))
        .total_timeout(Nanos::from_secs(70))
        .attempts(3)
        .exception_types(["TIMEOUT", "503"])
        .backoff(Backoff::exponential(SECOND))
        .or()
        .timeout_retries(2)
        .max_retry_after(Nanos::from_secs(5))
        .count_per_rule(Limit::attempts(9).unwrap())
        .at_deadline(truncate)
        .retry_unknown_outcome()
        .budget(budget)
        .unlimited()
        .matcher(Matcher::retryable())
        .backoff(Backoff::exponential(SECOND).with_jitter(Jitter::Full))
        .build()
        .unwrap();
    let expected = PolicyParts {
        rules: vec![
            Rule {
                matcher: Matcher::named(["TIMEOUT", "503"]),
                limit: Limit::attempts(3).unwrap(),
                backoff: Backoff::exponential(SECOND),
            },
            Rule {
                matcher: Matcher::retryable(),
                limit: Limit::Unlimited,
                backoff: Backoff::exponential(SECOND).with_jitter(Jitter::Full),
            },
        ],
        attempt_timeout: Some(Nanos::from_secs(7)),
        total_timeout: Some(Nanos::from_secs(70)),
        timeout_retries: Some(2),
        max_retry_after: Nanos::from_secs(5),
        counting: Counting::PerRule { total: Limit::attempts(9).unwrap() },
        at_deadline: truncate,
        retry_unknown_outcome: true,
        budget: Some(budget),
        ..PolicyParts::new(Dialect::Builder)
    };
    assert_eq!(PolicyParts::from(built.clone()), expected);
    assert!(built.retries_unknown_outcome());
    assert_eq!(built.most_generous(), Some(&expected.rules[1]));
}

/// What nobody sets: one attempt on every failure, at once, without a timeout.
#[test]
fn w16_the_builder_alone_tries_once() {
    let built = Policy::builder().build().unwrap();
    let rule = Rule { matcher: Matcher::any(), limit: Limit::ONE, backoff: Backoff::NONE };
    let expected = PolicyParts { rules: vec![rule], ..PolicyParts::new(Dialect::Builder) };
    assert_eq!(PolicyParts::from(built.clone()), expected);
    assert!(!built.retries_unknown_outcome());
}

/// The most generous of several is the first of those with the most attempts.
#[test]
fn w8_the_most_generous_rule_is_the_first_with_the_most_attempts() {
    let of = |attempts, seconds| {
        let backoff = Backoff::exponential(Nanos::from_secs(seconds));
        move |b: retrial_core::policy::PolicyBuilder| b.attempts(attempts).backoff(backoff.clone())
    };
    let built = of(3, 3)(of(4, 2)(of(4, 1)(of(2, 0)(Policy::builder()).or()).or()).or());
    let policy = built.build().unwrap();
    assert_eq!(policy.most_generous(), Some(&policy.rules()[1]));
    assert_eq!(Policy::no_retries(Dialect::Builder).most_generous(), None);
}

/// The name that columns show is the one that is stored.
#[test]
fn a_shape_is_named_as_it_is_stored() {
    let (base, step) = (SECOND, SECOND);
    let delays = DelayList::try_from(vec![SECOND]).unwrap();
    let shapes = [
        Shape::None,
        Shape::Fixed { base },
        Shape::Linear { base, step },
        Shape::Exponential { base, multiplier: Multiplier::TWO },
        Shape::Fibonacci { base },
        Shape::Polynomial { base, degree: 2 },
        Shape::List { delays },
        Shape::Custom { name: "mine".into() },
    ];
    for shape in shapes {
        let stored = serde_json::to_value(&shape).unwrap();
        assert_eq!(stored["kind"], shape.kind());
        assert_eq!(shape.is_custom(), shape.kind() == "custom");
        assert_eq!(serde_json::from_value::<Shape>(stored).unwrap(), shape);
    }
    let mut functions = Functions::default();
    functions.register("mine", |_| SECOND);
    functions.register("yours", |_| SECOND);
    assert_eq!(format!("{functions:?}"), r#"{"mine", "yours"}"#);
}

/// Zero by its own text: a linear shape with a step is not.
#[test]
fn decision_10_what_is_always_zero() {
    let zero = Nanos::ZERO;
    let of = |shape| Backoff { shape, jitter: Jitter::None, cap: None };
    let linear = |base, step| of(Shape::Linear { base, step });
    assert!(linear(zero, zero).is_always_zero());
    assert!(!linear(zero, SECOND).is_always_zero());
    assert!(!linear(SECOND, zero).is_always_zero());
    assert!(linear(SECOND, SECOND).with_cap(zero).is_always_zero());
    assert!(!of(Shape::Custom { name: "mine".into() }).is_always_zero());
}

#[test]
fn x3_a_list_holds_a_thousand_delays_and_no_more() {
    let list = |n| DelayList::try_from(vec![SECOND; n]);
    assert_eq!(Vec::from(list(DelayList::MOST).unwrap()), vec![SECOND; DelayList::MOST]);
    assert!(list(DelayList::MOST + 1).is_err() && list(0).is_err());
}

/// A delay is drawn by chance or by a program's function without an end: at least 10 ms then, and
/// only then.
#[test]
fn decision_10_the_shortest_delay() {
    let rule = |limit, jitter, shape| {
        let backoff = Backoff { shape, jitter, cap: None };
        Rule { matcher: Matcher::any(), limit, backoff }.floor()
    };
    let (fixed, custom) = (Shape::Fixed { base: SECOND }, Shape::Custom { name: "mine".into() });
    let (nine, ever) = (Limit::attempts(9).unwrap(), Limit::Unlimited);
    assert_eq!(rule(ever, Jitter::Full, fixed.clone()), Nanos::from_millis(10));
    assert_eq!(rule(ever, Jitter::None, custom.clone()), Nanos::from_millis(10));
    assert_eq!(rule(ever, Jitter::None, fixed.clone()), Nanos::ZERO);
    assert_eq!(rule(nine, Jitter::Full, fixed), Nanos::ZERO);
    assert_eq!(rule(nine, Jitter::None, custom), Nanos::ZERO);
}

#[test]
fn the_words_for_limits_origins_and_reasons() {
    let limits = [Limit::attempts(3).unwrap(), Limit::Unlimited].map(|l| l.to_string());
    assert_eq!(limits, ["3", "unlimited"]);
    let origins = [Origin::Task, Origin::Action, Origin::Kind, Origin::Global, Origin::BuiltIn];
    insta::assert_snapshot!(origins.map(|o| o.to_string()).join("\n"), @"
    the step
    the action
    the action kind's default
    the global default
    the built-in default
    ");
    let reasons = [
        GiveUp::NotRetryable,
        GiveUp::Exhausted,
        GiveUp::OutcomeUnknown,
        GiveUp::TimeoutBudget,
        GiveUp::TotalTimeout,
        GiveUp::RetryBudget,
        GiveUp::RetryAfter,
        GiveUp::ByHand,
    ];
    insta::assert_snapshot!(reasons.map(|r| r.to_string()).join("\n"), @"
    no rule retries this failure
    all attempts are used up
    it may have taken effect, and the action is not idempotent
    the retries allowed for timeouts are used up
    the total timeout leaves no time for another attempt
    the retry budget allows no more retries now
    the endpoint asks for a longer wait than is allowed
    it was failed by hand
    ");
}
