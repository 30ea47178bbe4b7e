//! What a dialect writes it reads back as the same policy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use retrial_core::dialect::{Environment, Policies, parse_policy, write};
use retrial_core::failure::looks_like_statuses;
use retrial_core::policy::{
    ActionKind, AtDeadline, Backoff, Budget, BudgetScope, Counting, DelayList, Denied, Dialect,
    Jitter, Limit, Matcher, Multiplier, Policy, PolicyParts, Refill, Rule, Scope, Shape, Share,
};
use retrial_core::time::Nanos;

fn nanos() -> impl Strategy<Value = Nanos> {
    prop_oneof![any::<u64>(), 0..10_000_000_000_u64, Just(0)].prop_map(Nanos::new)
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1..10_u32).prop_map(|n| Limit::attempts(n).unwrap()),
        any::<u32>().prop_map(|n| Limit::attempts(n).unwrap_or(Limit::Unlimited)),
        Just(Limit::Unlimited),
    ]
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    let name = prop_oneof!["[A-Za-z_][A-Za-z0-9_.]{0,8}", "[ -~é]{0,6}[a-z]", Just("503".into())];
    // What looks like HTTP statuses must be some.
    let name = name.prop_filter("statuses", |n: &String| !looks_like_statuses(n));
    // Most names can be written; any text that can be is read back.
    let name = prop_oneof![9 => name, 1 => any::<String>(), 1 => "[\\x00-\\xa0]{1,3}x"];
    prop::collection::btree_set(name, 0..4)
}

fn matchers() -> impl Strategy<Value = Matcher> {
    let scope = prop_oneof![
        Just(Scope::Any),
        names().prop_map(Scope::Retryable),
        Just(Scope::Retryable(BTreeSet::new())),
        names().prop_map(Scope::Names),
    ];
    let defaults: BTreeSet<String> = ActionKind::PERMANENT_TYPES.map(str::to_owned).into();
    let except = prop_oneof![
        Just(BTreeSet::new()),
        Just(defaults.clone()),
        names().prop_map(move |n| n.union(&defaults).cloned().collect()),
    ];
    (scope, except).prop_map(|(scope, except)| Matcher { scope, except })
}

fn backoffs() -> impl Strategy<Value = Backoff> {
    let times = prop_oneof![Just(2_000_000), 1_000_000..u64::MAX];
    let shape = prop_oneof![
        Just(Shape::None),
        nanos().prop_map(|base| Shape::Fixed { base }),
        nanos().prop_map(|base| Shape::Linear { base, step: base }),
        (nanos(), times).prop_map(|(base, m)| Shape::Exponential {
            base,
            multiplier: Multiplier::from_millionths(m).unwrap()
        }),
        nanos().prop_map(|base| Shape::Exponential { base, multiplier: Multiplier::TWO }),
        nanos().prop_map(|base| Shape::Fibonacci { base }),
        (nanos(), nanos()).prop_map(|(base, step)| Shape::Linear { base, step }),
        (nanos(), 0..25_u32).prop_map(|(base, degree)| Shape::Polynomial { base, degree }),
        prop::collection::vec(nanos(), 1..4)
            .prop_map(|d| Shape::List { delays: DelayList::try_from(d).unwrap() }),
        Just(Shape::Custom { name: "mine".into() }),
        any::<String>().prop_map(|name| Shape::Custom { name }),
    ];
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::None),
        (0..=1_000_000_u32).prop_map(|p| Jitter::Proportional(Share::from_millionths(p).unwrap())),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
    ];
    (shape, jitter, prop::option::of(nanos())).prop_map(|(shape, jitter, cap)| Backoff {
        shape,
        jitter,
        cap,
    })
}

fn budgets() -> impl Strategy<Value = Budget> {
    let ratio = (0..=1_000_000_u32).prop_map(|p| Share::from_millionths(p).unwrap());
    let full = (ratio.clone(), 1..600_u32, 1..600_u32, 0..9_u32, any::<bool>(), any::<[bool; 2]>());
    let full =
        full.prop_map(|(ratio, initial, cost, first_success, refund, [group, wait])| Budget {
            capacity: initial + cost,
            initial,
            cost,
            throttling_cost: cost.div_ceil(2),
            refill: Refill { ratio, first_success, refund },
            scope: if group { BudgetScope::Group } else { BudgetScope::Action },
            on_denied: if wait && !group { Denied::Wait } else { Denied::Fail },
        });
    prop_oneof![ratio.prop_map(Budget::of_first_attempts), full]
}

fn policies() -> impl Strategy<Value = Policy> {
    let rule = (matchers(), limits(), backoffs()).prop_map(|(matcher, limit, backoff)| Rule {
        matcher,
        limit,
        backoff,
    });
    let rules = prop::collection::vec(rule, 0..3);
    let times = (prop::option::of(nanos()), prop::option::of(nanos()), nanos());
    let total = prop_oneof![Just(Limit::Unlimited), Just(Limit::retries(6))];
    let own = total.prop_map(|total| Counting::PerRule { total });
    let counting = prop_oneof![Just(Counting::Shared), own];
    let reserve = nanos().prop_map(|reserve| AtDeadline::Truncate { reserve });
    let at_deadline = prop_oneof![Just(AtDeadline::GiveUp), reserve];
    let counts = (
        prop::option::of(any::<u32>()),
        any::<bool>(),
        counting,
        at_deadline,
        prop::option::of(budgets()),
    );
    (rules, times, counts).prop_filter_map(
        "makes sense",
        |(
            rules,
            (attempt, total, after),
            (timeout_retries, retry_unknown_outcome, counting, at_deadline, budget),
        )| {
            Policy::try_from(PolicyParts {
                dialect: Dialect::Builder,
                rules,
                attempt_timeout: attempt,
                total_timeout: total,
                timeout_retries,
                max_retry_after: after,
                counting,
                at_deadline,
                retry_unknown_outcome,
                budget,
            })
            .ok()
        },
    )
}

/// The policy as one of `dialect`, which is what its text gives.
fn spoken(policy: &Policy, dialect: Dialect) -> Policy {
    let mut parts = PolicyParts::from(policy.clone());
    parts.dialect = dialect;
    Policy::try_from(parts).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 2_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn reading_gives_back_what_was_written(policy in policies()) {
        for dialect in [Dialect::Ir, Dialect::WorkConfig, Dialect::Execution, Dialect::RetryConfig] {
            let policy = spoken(&policy, dialect);
            let Some(text) = write::own(&policy) else { continue };
            let read = parse_policy("p", &text, Some(dialect), &Environment::default());
            prop_assert_eq!(read, Ok(Policies::One(policy)), "{}", text);
        }
    }
}

/// TOML takes no control character as it is, and brackets may stand in it.
#[test]
fn control_characters_are_escaped() {
    let mut parts = PolicyParts::from("[retry: 1]".parse::<Policy>().unwrap());
    parts.rules[0].matcher = Matcher::named(["a\u{7f}\u{85}\"\\\n\r\t"]);
    let written = write::ir(&Policy::try_from(parts).unwrap());
    let expected = r#"[("a\u007f\u0085\"\\\n\r\t") -> retry: 1, backoff: 0]"#;
    assert_eq!(written.as_deref(), Some(expected));
}

#[test]
fn a_name_may_hold_an_at_sign() {
    let text = r#"[("@a", B) -> retry: 1]"#;
    let Ok(Policies::One(read)) = parse_policy("p", text, None, &Environment::default()) else {
        panic!("not one policy: {text}");
    };
    assert_eq!(write::own(&read).as_deref(), Some(r#"[("@a", "B") -> retry: 1, backoff: 0]"#));
}

#[test]
fn the_texts_look_like_the_documents() {
    let read = |text: &str| match parse_policy("p", text, None, &Environment::default()) {
        Ok(Policies::One(policy)) => write::own(&policy).unwrap(),
        other => panic!("{other:?}"),
    };
    let shown: Vec<String> = [
        "[(ValueError, KeyError) -> retry: 3, backoff: 30s] [timeout: 2m]",
        r#"{"max_retries": -1, "backoff": 100, "retryable_errors": ["429"]}"#,
        r#"{"timeout_ms": 100, "retry_policy": {"max_attempts": 3, "backoff": "linear"}}"#,
        r#"{"retry_config": {"jitter": 0.1, "exclude_exceptions": ["HTTPError"]}}"#,
        r#"{"retry_config": {"enabled": false}}"#,
    ]
    .map(read)
    .into();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    [("KeyError", "ValueError") -> retry: 3, backoff: 30] [timeout: 120]
    {"max_retries": -1, "backoff": 100, "backoff_type": "fixed", "retryable_errors": ["429"]}
    {"timeout_ms": 100, "retry_policy": {"max_attempts": 3, "backoff": "linear", "initial_delay_ms": 1000}}
    {"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 60, "backoff_multiplier": 2, "jitter": 0.1, "exclude_exceptions": ["HTTPError"]}
    {"enabled": false}
    "#);
}

/// A text with nothing left out, in the order and the spelling that is written.
#[test]
fn what_is_written_out_is_written_again_as_it_is() {
    let ir = [
        r#"[("A", "B") -> retry: 3, backoff: 1.5] [retry: 1, backoff: 0] [timeout: 120] [total_timeout: 600] [max_retry_after: 30]"#,
        "[timeout_retries: 2] [counting: per_rule] [total_attempts: 9] [at_deadline: truncate] [last_attempt_reserve: 2]",
        "[retry: 1, backoff: 0] [retry_unknown_outcome: true] [retry_budget: 0.2]",
    ];
    let work_config = [
        r#"{"max_retries": 3, "backoff": 100, "backoff_type": "fixed"}"#,
        r#"{"max_retries": 3, "backoff": 100, "backoff_type": "linear"}"#,
        r#"{"max_retries": 3, "backoff": 100, "backoff_type": "linear", "backoff_step": 50}"#,
        r#"{"max_retries": -1, "backoff": 100, "backoff_type": "exponential", "max_backoff": 900}"#,
        r#"{"max_retries": 3, "backoff": 100, "backoff_type": "polynomial", "backoff_degree": 20}"#,
        r#"{"max_retries": 0, "backoff_type": "list", "delays": [1, 5, 30]}"#,
        r#"{"max_retries": 1, "backoff": 0, "backoff_type": "fixed", "retryable_errors": ["429", "X"], "jitter": "full", "attempt_timeout": 5, "total_timeout": 60, "timeout_retries": 1, "max_retry_after": 7}"#,
    ];
    let execution = [
        r#"{"timeout_ms": 100}"#,
        r#"{"retry_policy": {"max_attempts": 3, "backoff": "none"}}"#,
        r#"{"retry_policy": {"max_attempts": 3, "backoff": "linear", "initial_delay_ms": 100, "step_delay_ms": 50}}"#,
        r#"{"retry_policy": {"max_attempts": 3, "backoff": "exponential", "initial_delay_ms": 100, "max_delay_ms": 900, "jitter": 0.1}}"#,
        r#"{"retry_policy": {"max_attempts": 3, "backoff": "polynomial", "initial_delay_ms": 100, "backoff_degree": 1}}"#,
        r#"{"retry_policy": {"max_attempts": 1, "backoff": "list", "delays_ms": [1, 5], "retryable_errors": ["TIMEOUT"]}, "total_timeout": 9}"#,
    ];
    let retry_config = [
        r#"{"max_attempts": 3, "backoff_strategy": "constant", "initial_delay": 1, "max_delay": 60, "jitter": "none"}"#,
        r#"{"max_attempts": 3, "backoff_strategy": "linear", "initial_delay": 1, "backoff_step": 2, "max_delay": 60, "jitter": "equal"}"#,
        r#"{"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1, "max_delay": 60, "backoff_multiplier": 1.5, "jitter": 0.1}"#,
        r#"{"max_attempts": 3, "backoff_strategy": "fibonacci", "initial_delay": 1, "max_delay": 60, "jitter": "decorrelated"}"#,
        r#"{"max_attempts": 3, "backoff_strategy": "polynomial", "initial_delay": 1, "backoff_degree": 3, "max_delay": 60, "jitter": "proportional"}"#,
        r#"{"max_attempts": 3, "backoff_strategy": "list", "delays": [1, 5], "jitter": "none", "retry_on_exceptions": ["A"], "exclude_exceptions": ["B"]}"#,
        r#"{"max_attempts": 3, "backoff_strategy": "custom:mine", "max_delay": 60, "jitter": "none"}"#,
        r#"{"enabled": false, "retry_timeout": 9, "attempt_timeout": 5, "retry_unknown_outcome": true}"#,
    ];
    for (dialect, texts) in [
        (Dialect::Ir, &ir[..]),
        (Dialect::WorkConfig, &work_config),
        (Dialect::Execution, &execution),
        (Dialect::RetryConfig, &retry_config),
    ] {
        for text in texts {
            let Ok(Policies::One(read)) =
                parse_policy("p", text, Some(dialect), &Environment::default())
            else {
                panic!("not one policy: {text}");
            };
            assert_eq!(write::own(&read).as_deref(), Some(*text));
        }
    }
}

/// What a dialect has no words for is not written as something else.
#[test]
fn what_can_not_be_said_is_not_written() {
    let rule = |change: fn(&mut Rule)| {
        let mut parts = PolicyParts::new(Dialect::Ir);
        let mut rule = Rule {
            matcher: Matcher::any(),
            limit: Limit::retries(1),
            backoff: Backoff::exponential(Nanos::from_secs(1)),
        };
        change(&mut rule);
        parts.rules = vec![rule];
        Policy::try_from(parts).unwrap()
    };
    assert!(write::ir(&rule(|_| {})).is_some());
    for (what, policy) in [
        ("names that are excluded", rule(|r| r.matcher.except = ["A".to_owned()].into())),
        ("no names", rule(|r| r.matcher.scope = Scope::Names(BTreeSet::new()))),
        ("statuses that are none", rule(|r| r.matcher = Matcher::named(["7xx"]))),
        ("jitter", rule(|r| r.backoff.jitter = Jitter::Full)),
        ("a cap", rule(|r| r.backoff.cap = Some(Nanos::from_secs(9)))),
        ("no limit", rule(|r| r.limit = Limit::Unlimited)),
        ("another growth", rule(|r| r.backoff.shape = Shape::None)),
    ] {
        assert_eq!(write::ir(&policy), None, "{what}");
    }
    let json = |change: fn(&mut Rule)| {
        let mut parts = PolicyParts::from(rule(|_| {}));
        let rule = &mut parts.rules[0];
        rule.matcher = Matcher::retryable();
        rule.matcher.except = ActionKind::PERMANENT_TYPES.map(str::to_owned).into();
        rule.backoff.cap = Some(Nanos::from_secs(9));
        change(rule);
        write::retry_config(&Policy::try_from(parts).unwrap())
    };
    assert!(json(|_| {}).is_some());
    for (what, written) in [
        (
            "a function without a name",
            json(|r| r.backoff.shape = Shape::Custom { name: "".into() }),
        ),
        ("spaces of a name", json(|r| r.backoff.shape = Shape::Custom { name: " x".into() })),
        (
            "more that is retryable",
            json(|r| r.matcher.scope = Scope::Retryable(["A".to_owned()].into())),
        ),
        ("an empty name", json(|r| r.matcher.scope = Scope::Names([" ".to_owned()].into()))),
        ("no statuses", json(|r| r.matcher.scope = Scope::Names(["7xx".to_owned()].into()))),
        ("no cap", json(|r| r.backoff.cap = None)),
        ("none that is excluded", json(|r| r.matcher.except = BTreeSet::new())),
        (
            "degree 0",
            json(|r| r.backoff.shape = Shape::Polynomial { base: Nanos::new(1), degree: 0 }),
        ),
        (
            "degree 21",
            json(|r| r.backoff.shape = Shape::Polynomial { base: Nanos::new(1), degree: 21 }),
        ),
    ] {
        assert_eq!(written, None, "{what}");
    }
    let many = |count: usize| {
        let mut parts = PolicyParts::from(rule(|_| {}));
        parts.rules = vec![parts.rules[0].clone(); count];
        write::ir(&Policy::try_from(parts).unwrap())
    };
    assert!(many(100).is_some());
    assert_eq!(many(101), None);
}
