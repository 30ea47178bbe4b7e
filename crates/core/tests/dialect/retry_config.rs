//! rh_agents' `RetryConfig`: rows H1 to H6, spec decisions 2 to 4. H7 and H8 are in
//! `policy_precedence.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Policies, parse_policy};
use retrial_core::failure::{Failure, NetworkFault};
use retrial_core::policy::{Dialect, Functions, Policy};
use retrial_core::time::Nanos;

fn parse(text: &str) -> Result<Policy, String> {
    match parse_policy("p", text, Some(Dialect::RetryConfig), &Environment::default()) {
        Ok(Policies::One(policy)) => Ok(policy),
        Ok(steps) => panic!("{steps:?}"),
        Err(errors) => Err(errors[0].to_string()),
    }
}

fn ranges(policy: &Policy, count: u32) -> Vec<(u64, u64)> {
    let backoff = &policy.rules()[0].backoff;
    let range = |n| backoff.range(n, None, &Functions::default());
    (1..=count).map(range).map(|r| (r.start().as_millis(), r.end().as_millis_ceil())).collect()
}

#[test]
fn h1_decision_3_strategies() {
    let check = |fields: &str, expected: &[u64]| {
        let text = format!(r#"{{"jitter": false, "initial_delay": 2, {fields}}}"#);
        let exact: Vec<(u64, u64)> = expected.iter().map(|s| (s * 1000, s * 1000)).collect();
        let count = u32::try_from(expected.len()).unwrap();
        assert_eq!(ranges(&parse(&text).unwrap(), count), exact, "{text}");
    };
    check(r#""backoff_strategy": "constant""#, &[2, 2, 2]);
    check(r#""backoff_strategy": "linear""#, &[2, 4, 6]);
    // Decision 3: the multiplier touches only exponential.
    check(r#""backoff_strategy": "linear", "backoff_multiplier": 9"#, &[2, 4, 6]);
    check(r#""backoff_strategy": "exponential""#, &[2, 4, 8, 16]);
    check(r#""backoff_strategy": "exponential", "backoff_multiplier": 3"#, &[2, 6, 18, 54]);
    check(r#""backoff_strategy": "fibonacci""#, &[2, 2, 4, 6, 10, 16]);
    check(r#""backoff_strategy": "fibonacci", "max_delay": 5"#, &[2, 2, 4, 5, 5, 5]);
}

#[test]
fn h2_defaults() {
    let policy = parse("{}").unwrap();
    assert_eq!(policy.limit().count(), Some(3));
    assert_eq!(policy.total_timeout(), None);
    // Jitter of a quarter; above the cap of 60 s there is nothing.
    let expected = [(750, 1250), (1500, 2500), (3000, 5000), (6000, 10_000)];
    assert_eq!(ranges(&policy, 4), expected);
    assert_eq!(ranges(&policy, 7)[6], (45_000, 60_000));
    let written = r#"{"max_attempts": 3, "backoff_strategy": "exponential", "initial_delay": 1.0,
        "max_delay": 60.0, "backoff_multiplier": 2.0, "jitter": true, "retry_on_exceptions": null,
        "exclude_exceptions": null, "retry_timeout": null, "enabled": true}"#;
    assert_eq!(parse(written).unwrap(), policy);
}

/// A list sets each delay, so it alone has no cap unless the text sets one.
#[test]
fn h2_the_default_cap_is_that_of_every_kind_but_a_list() {
    let cap = |text: &str| parse(text).unwrap().rules()[0].backoff.cap;
    for kind in ["constant", "linear", "exponential", "fibonacci", "polynomial"] {
        let text = format!(r#"{{"backoff_strategy": "{kind}"}}"#);
        assert_eq!(cap(&text), Some(Nanos::from_secs(60)), "{kind}");
    }
    assert_eq!(cap(r#"{"delays": [1, 100]}"#), None);
}

#[test]
fn h2_limits_are_checked() {
    let all = [
        r#"{"max_attempts": 0}"#,
        r#"{"max_attempts": -1}"#,
        r#"{"max_attempts": 2.5}"#,
        r#"{"initial_delay": -0.5}"#,
        r#"{"initial_delay": 1e999}"#,
        r#"{"max_delay": -1}"#,
        r#"{"max_delay": "inf"}"#,
        r#"{"backoff_multiplier": 0.99}"#,
        r#"{"backoff_multiplier": -2}"#,
        r#"{"jitter": 1.5}"#,
        r#"{"jitter": "lots"}"#,
        r#"{"retry_timeout": 0}"#,
        r#"{"retry_timeout": -1}"#,
        r#"{"retry_timeout": 5, "total_timeout": 6}"#,
        r#"{"enabled": "yes"}"#,
        r#"{"backoff_strategy": "fibonaci"}"#,
        r#"{"backoff_strategy": "custom:"}"#,
        r#"{"retry_on_exceptions": ["A", 5]}"#,
        r#"{"retry_on_exceptions": [""]}"#,
        r#"{"retry_on_exception": []}"#,
    ];
    let shown: Vec<String> =
        all.iter().map(|text| format!("{text}\n  {}", parse(text).unwrap_err())).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    {"max_attempts": 0}
      p:1:18: max_attempts: `0` is out of range (use 1 to 4294967295)
    {"max_attempts": -1}
      p:1:18: max_attempts: `-1` is out of range (use 1 to 4294967295)
    {"max_attempts": 2.5}
      p:1:18: max_attempts: `2.5` is not a whole number (use digits alone, such as 3)
    {"initial_delay": -0.5}
      p:1:19: initial_delay: `-0.5` may not be negative (use zero or more)
    {"initial_delay": 1e999}
      p:1:19: initial_delay: `1e999` is too large (the longest time is about 584 years)
    {"max_delay": -1}
      p:1:15: max_delay: `-1` may not be negative (use zero or more)
    {"max_delay": "inf"}
      p:1:15: max_delay: `inf` must be finite (use a finite number, or leave the field out for no limit)
    {"backoff_multiplier": 0.99}
      p:1:24: backoff_multiplier: the multiplier is below 1: delays would shrink (use 1 or more)
    {"backoff_multiplier": -2}
      p:1:24: backoff_multiplier: `-2` may not be negative (use zero or more)
    {"jitter": 1.5}
      p:1:12: jitter: the share is above 1 (use 0 to 1)
    {"jitter": "lots"}
      p:1:12: jitter: `lots` is not known here (use none, proportional, full, equal, decorrelated)
    {"retry_timeout": 0}
      p:1:19: retry_timeout: a timeout of zero lets no attempt run (leave it out for no timeout)
    {"retry_timeout": -1}
      p:1:19: retry_timeout: `-1` may not be negative (use zero or more)
    {"retry_timeout": 5, "total_timeout": 6}
      p:1:39: total_timeout: `total_timeout` is given beside the dialect's own word for it (keep one of them)
    {"enabled": "yes"}
      p:1:13: enabled: expected true or false, found the text "yes"
    {"backoff_strategy": "fibonaci"}
      p:1:22: backoff_strategy: `fibonaci` is not known here (did you mean `fibonacci`?)
    {"backoff_strategy": "custom:"}
      p:1:22: backoff_strategy: the custom backoff has no name (use custom:NAME, where NAME is a registered function)
    {"retry_on_exceptions": ["A", 5]}
      p:1:31: retry_on_exceptions.1: expected a text, found the number 5 (write "5")
    {"retry_on_exceptions": [""]}
      p:1:26: retry_on_exceptions.0: the text is empty (write a name)
    {"retry_on_exception": []}
      p:1:2: retry_on_exception: unknown key `retry_on_exception` (did you mean `retry_on_exceptions`?)
    "#);
}

/// TOML has words for what JSON can't say.
#[test]
fn h2_numbers_must_be_finite() {
    for wrong in ["inf", "-inf", "nan"] {
        let error = parse(&format!("initial_delay = {wrong}")).unwrap_err();
        assert!(error.starts_with("p:1:17: initial_delay: "), "{error}");
        assert!(error.contains("must be finite"), "{error}");
    }
}

fn retries(policy: &Policy, failure: &Failure) -> bool {
    policy.rule_for(failure).is_some()
}

#[test]
fn h3_exclusions_first_then_the_allow_list_then_the_defaults() {
    let error = |lineage: &[&str]| Failure::new("E", "x").with_lineage(lineage.iter().copied());
    let check = |text: &str, lineage: &[&str], expected: bool| {
        assert_eq!(retries(&parse(text).unwrap(), &error(lineage)), expected, "{text} {lineage:?}");
    };
    let allow = r#"{"retry_on_exceptions": ["HTTPError", "ValueError"]}"#;
    check(allow, &["HTTPError"], true);
    check(allow, &["Other"], false);
    check(allow, &["ValueError"], false); // The default exclusions are always merged.
    let both = r#"{"retry_on_exceptions": ["HTTPError"], "exclude_exceptions": ["HTTPError"]}"#;
    check(both, &["HTTPError"], false);
    check(r#"{"retry_on_exceptions": []}"#, &["HTTPError"], false);
    let exclude = r#"{"exclude_exceptions": ["ConnectionError"]}"#;
    let value_error = Failure::new("E", "x").with_lineage(["ValueError"]).retryable();
    assert!(!retries(&parse(exclude).unwrap(), &value_error));
    assert!(!retries(&parse(exclude).unwrap(), &Failure::network(NetworkFault::Reset, "x")));
    assert!(retries(&parse(exclude).unwrap(), &Failure::timeout(Nanos::from_secs(1))));
}

#[test]
fn h4_the_default_lists_follow_the_lineage() {
    let policy = parse("{}").unwrap();
    let check = |failure: Failure, expected: bool| {
        assert_eq!(retries(&policy, &failure), expected, "{failure:?}");
    };
    check(Failure::timeout(Nanos::from_secs(1)), true);
    check(Failure::network(NetworkFault::Refused, "x"), true);
    check(Failure::http(503, "x"), true);
    check(Failure::http(429, "x"), true);
    check(Failure::http(404, "x"), false);
    for kind in ["ValidationError", "ValueError", "TypeError", "KeyError", "AttributeError"] {
        check(Failure::exception(kind, "x", &[]), false);
        // A child of an excluded type is excluded, whatever its class.
        check(Failure::new("Child", "x").with_lineage(["Child", kind]).retryable(), false);
    }
    check(Failure::exception("MyTimeout", "x", &["TimeoutError".into()]), true);
}

#[test]
fn h5_the_retry_timeout_bounds_everything() {
    let policy = parse(r#"{"retry_timeout": 60.5}"#).unwrap();
    assert_eq!(policy.total_timeout(), Some(Nanos::from_millis(60_500)));
}

#[test]
fn h6_disabled_means_one_attempt() {
    let policy = parse(r#"{"enabled": false, "max_attempts": 9}"#).unwrap();
    assert_eq!(policy.limit().count(), Some(1));
    assert!(!retries(&policy, &Failure::http(503, "x")));
}

#[test]
fn h17_jitter_and_custom_backoff_have_names() {
    let policy = parse(r#"{"backoff_strategy": "custom:mine", "jitter": "none"}"#).unwrap();
    let mut functions = Functions::default();
    functions.register("mine", |n| Nanos::from_secs(u64::from(n) * 7));
    assert_eq!(policy.rules()[0].backoff.nominal(2, &functions), Nanos::from_secs(14));
    let full = parse(r#"{"jitter": "full"}"#).unwrap();
    assert_eq!(ranges(&full, 1), [(0, 1000)]);
    let tenth = parse(r#"{"jitter": 0.1}"#).unwrap();
    assert_eq!(ranges(&tenth, 1), [(900, 1100)]);
}
