//! Argyll's `work_config` and `RETRY_*`: rows A5 to A9, spec decisions 1, 3, 6 and 10.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Policies, parse_policy};
use retrial_core::failure::{Class, Failure, NetworkFault};
use retrial_core::policy::{Dialect, Functions, Policy};
use retrial_core::time::Nanos;

fn parse(text: &str) -> Result<Policy, String> {
    match parse_policy("p", text, Some(Dialect::WorkConfig), &Environment::default()) {
        Ok(Policies::One(policy)) => Ok(policy),
        Ok(steps) => panic!("{steps:?}"),
        Err(errors) => Err(errors[0].to_string()),
    }
}

fn delays(policy: &Policy, count: u32) -> Vec<u64> {
    let backoff = &policy.rules()[0].backoff;
    (1..=count).map(|n| backoff.nominal(n, &Functions::default()).as_millis()).collect()
}

#[track_caller]
fn check(text: &str, attempts: Option<u32>, expected: &[u64]) {
    let policy = parse(text).unwrap();
    let count = u32::try_from(expected.len()).unwrap();
    assert_eq!(policy.limit().count(), attempts, "{text}");
    assert_eq!(delays(&policy, count), expected, "{text}");
}

#[test]
fn a5_every_field_is_in_milliseconds() {
    check(
        r#"{"max_retries": 3, "backoff": 1000, "max_backoff": 3000, "backoff_type": "exponential"}"#,
        Some(4),
        &[1000, 2000, 3000],
    );
    check(r#"{"max_retries": 1, "backoff": 0.5}"#, Some(2), &[0]);
    check(r#"{"max_retries": 1, "backoff": "2s"}"#, Some(2), &[2000]);
}

#[test]
fn a6_max_retries() {
    check(r#"{"max_retries": 0, "backoff": 10}"#, Some(1), &[10]);
    check(r#"{"max_retries": 7, "backoff": 10}"#, Some(8), &[10]);
    check(r#"{"max_retries": -1, "backoff": 10}"#, None, &[10]);
    for wrong in ["-2", "4294967295", "1.5", "\"3\"", "99999999999999999999"] {
        let error = parse(&format!(r#"{{"max_retries": {wrong}}}"#)).unwrap_err();
        assert!(error.starts_with("p:1:17: max_retries: "), "{error}");
    }
}

#[test]
fn a8_decision_1_without_max_retries_they_are_off() {
    check("{}", Some(1), &[0]);
    check(r#"{"backoff": 500}"#, Some(1), &[500]);
}

/// Decision 3: every type is capped.
#[test]
fn a9_backoff_types() {
    let with = |kind: &str, cap: &str| {
        format!(r#"{{"max_retries": 9, "backoff": 100, "backoff_type": "{kind}"{cap}}}"#)
    };
    check(&with("fixed", ""), Some(10), &[100, 100, 100]);
    check(&with("linear", ""), Some(10), &[100, 200, 300]);
    check(&with("exponential", ""), Some(10), &[100, 200, 400, 800]);
    check(&with("fixed", r#", "max_backoff": 50"#), Some(10), &[50, 50]);
    check(&with("linear", r#", "max_backoff": 250"#), Some(10), &[100, 200, 250]);
    check(&with("exponential", r#", "max_backoff": 300"#), Some(10), &[100, 200, 300, 300]);
}

#[track_caller]
fn environment(set: &[(&str, &str)]) -> Result<Environment, String> {
    let lookup = |name: &str| {
        set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    Environment::read(lookup).map_err(|e| e.to_string())
}

#[test]
fn a7_the_environment_is_the_global_default() {
    assert_eq!(environment(&[]).unwrap().global(), None);
    assert_eq!(environment(&[("RETRY_BACKOFF", " ")]).unwrap().global(), None);
    let all = [
        ("RETRY_MAX_RETRIES", "4"),
        ("RETRY_BACKOFF", "200"),
        ("RETRY_MAX_BACKOFF", "500"),
        ("RETRY_BACKOFF_TYPE", "exponential"),
    ];
    let full = environment(&all).unwrap();
    let policy = full.global().unwrap();
    assert_eq!((policy.limit().count(), policy.dialect()), (Some(5), Dialect::WorkConfig));
    assert_eq!(delays(policy, 3), [200, 400, 500]);
}

/// Decision 1: unset means 0 retries, 1000 ms, cap 60000 ms, fixed.
#[test]
fn a7_decision_1_what_the_environment_leaves_out() {
    let one = environment(&[("RETRY_BACKOFF_TYPE", "linear")]).unwrap();
    let policy = one.global().unwrap();
    assert_eq!(policy.limit().count(), Some(1));
    assert_eq!(policy.rules()[0].backoff.cap, Some(Nanos::from_secs(60)));
    assert_eq!(delays(policy, 2), [1000, 2000]);
    let unlimited = environment(&[("RETRY_MAX_RETRIES", "-1")]).unwrap();
    assert_eq!(delays(unlimited.global().unwrap(), 2), [1000, 1000]);
}

#[test]
fn a7_a_wrong_variable_is_named() {
    let shown: Vec<String> = [
        ("RETRY_MAX_RETRIES", "-2"),
        ("RETRY_MAX_RETRIES", "many"),
        ("RETRY_BACKOFF", "-1"),
        ("RETRY_BACKOFF", "1e30"),
        ("RETRY_MAX_BACKOFF", "inf"),
        ("RETRY_BACKOFF_TYPE", "expo"),
    ]
    .iter()
    .map(|set| environment(&[*set]).unwrap_err())
    .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    environment:1:19: RETRY_MAX_RETRIES: `-2` is not a number of retries (use 0 for none, a number for at most that many, or -1 for unlimited)
    environment:1:19: RETRY_MAX_RETRIES: expected a whole number, found the text "many"
    environment:1:15: RETRY_BACKOFF: `-1` may not be negative (use zero or more)
    environment:1:15: RETRY_BACKOFF: `1e30` is too large (the longest time is about 584 years)
    environment:1:19: RETRY_MAX_BACKOFF: `inf` must be finite (use a finite number, or leave the field out for no limit)
    environment:1:20: RETRY_BACKOFF_TYPE: `expo` is not known here (did you mean `exponential`?)
    "#);
}

/// Decision 6: 408 and 429 are permanent until `retryable_errors` names them; so are other 4xx.
#[test]
fn a1_a2_decision_6_the_default_classifier() {
    let plain = parse(r#"{"max_retries": 1}"#).unwrap();
    let named = parse(r#"{"max_retries": 1, "retryable_errors": ["429", "408"]}"#).unwrap();
    let check = |policy: &Policy, failure: Failure, retryable: bool| {
        let class = if retryable { Class::Retryable } else { Class::Permanent };
        assert_eq!(policy.class_of(&failure), class, "{failure}");
        assert_eq!(policy.rule_for(&failure).is_some(), retryable, "{failure}");
    };
    for (status, before, after) in [
        (500, true, true),
        (503, true, true),
        (404, false, false),
        (429, false, true),
        (408, false, true),
    ] {
        check(&plain, Failure::http(status, "x"), before);
        check(&named, Failure::http(status, "x"), after);
    }
    check(&plain, Failure::network(NetworkFault::Dns, "x"), true);
    check(&plain, Failure::timeout(Nanos::from_secs(1)), true);
    check(&plain, Failure::work_failed("x"), false);
}

#[test]
fn decision_10_unlimited_without_a_delay_is_refused() {
    let error = parse(r#"{"max_retries": -1}"#).unwrap_err();
    insta::assert_snapshot!(error, @"p:1:17: max_retries: unlimited retries need a delay: that of rule 1 is 0 or becomes 0 (set a backoff above zero or limit the attempts)");
    assert!(parse(r#"{"max_retries": -1, "backoff": 5, "max_backoff": 0}"#).is_err());
}
