//! Capability 5's `execution` block: rows C1 to C4, spec decisions 1 and 17.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Policies, parse_policy};
use retrial_core::failure::Failure;
use retrial_core::policy::{Dialect, Functions, Policy};
use retrial_core::time::Nanos;

fn parse(text: &str) -> Result<Policy, String> {
    match parse_policy("p", text, Some(Dialect::Execution), &Environment::default()) {
        Ok(Policies::One(policy)) => Ok(policy),
        Ok(steps) => panic!("{steps:?}"),
        Err(errors) => Err(errors[0].to_string()),
    }
}

fn delays(policy: &Policy, count: u32) -> Vec<u64> {
    let backoff = &policy.rules()[0].backoff;
    (1..=count).map(|n| backoff.nominal(n, &Functions::default()).as_millis()).collect()
}

const WHOLE: &str = r#"{
  "timeout_ms": 30000,
  "retry_policy": {
    "max_attempts": 3,
    "backoff": "exponential",
    "initial_delay_ms": 1000,
    "max_delay_ms": 10000,
    "retryable_errors": ["503", "429", "TIMEOUT", "NETWORK_ERROR"]
  }
}"#;

#[test]
fn c1_the_documents_example() {
    let policy = parse(WHOLE).unwrap();
    assert_eq!(policy.limit().count(), Some(3));
    assert_eq!(policy.attempt_timeout(), Some(Nanos::from_secs(30)));
    assert_eq!(delays(&policy, 5), [1000, 2000, 4000, 8000, 10_000]);
    assert!(policy.rule_for(&Failure::http(503, "x")).is_some());
    assert!(policy.rule_for(&Failure::http(500, "x")).is_none());
}

#[test]
fn c2_sequences() {
    let check = |backoff: &str, expected: [u64; 4]| {
        let text = format!(r#"{{"retry_policy": {{"max_attempts": 9, {backoff}}}}}"#);
        assert_eq!(delays(&parse(&text).unwrap(), 4), expected, "{text}");
    };
    check(r#""backoff": "none""#, [0, 0, 0, 0]);
    check(r#""backoff": "none", "initial_delay_ms": 1000"#, [0, 0, 0, 0]);
    check(r#""backoff": "linear", "initial_delay_ms": 1000"#, [1000, 2000, 3000, 4000]);
    check(r#""backoff": "exponential", "initial_delay_ms": 1000"#, [1000, 2000, 4000, 8000]);
    check(r#""backoff": "exponential", "max_delay_ms": 3000"#, [1000, 2000, 3000, 3000]);
}

/// Decision 17: without a list, 503, 429, 500, TIMEOUT and NETWORK_ERROR.
#[test]
fn c3_decision_17_error_codes() {
    let with = |errors: &str| {
        let text = format!(r#"{{"retry_policy": {{"max_attempts": 2{errors}}}}}"#);
        parse(&text).unwrap()
    };
    let check = |policy: &Policy, code: &str, expected: bool| {
        let failure = Failure::new(code, "x");
        assert_eq!(policy.rule_for(&failure).is_some(), expected, "{code}");
    };
    let usual = with("");
    for code in ["503", "429", "500", "TIMEOUT", "NETWORK_ERROR"] {
        check(&usual, code, true);
    }
    for code in ["502", "400", "LLM_RATE_LIMIT"] {
        check(&usual, code, false);
    }
    check(&with(r#", "retryable_errors": ["LLM_RATE_LIMIT"]"#), "LLM_RATE_LIMIT", true);
    check(&with(r#", "retryable_errors": ["LLM_RATE_LIMIT"]"#), "503", false);
    check(&with(r#", "retryable_errors": []"#), "503", false);
}

#[test]
fn c4_decision_1_the_timeout_is_in_milliseconds() {
    let policy = parse(r#"{"timeout_ms": 1500}"#).unwrap();
    assert_eq!(policy.attempt_timeout(), Some(Nanos::from_millis(1500)));
    assert_eq!(policy.limit().count(), Some(1), "decision 1: without retry_policy one attempt");
}

#[test]
fn c1_decision_1_what_is_refused() {
    let all = [
        r#"{"retry_policy": {}}"#,
        r#"{"retry_policy": {"max_attempts": 0}}"#,
        r#"{"retry_policy": {"max_attempts": -1}}"#,
        r#"{"retry_policy": {"max_attempts": null}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "backoff": "fibonacci"}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "backoff": 100}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "initial_delay_ms": 100}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "retryable_errors": [503]}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "retryable_errors": "503"}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "max_delay": 100}}"#,
        r#"{"timeout_ms": 0}"#,
        r#"{"timeout_ms": -5}"#,
        r#"{"timeout_ms": 1e300}"#,
        r#"{"timeout_ms": "soon"}"#,
        r#"{"timeout_ms": true}"#,
        r#"{"timeout_ms": 5, "attempt_timeout": 5}"#,
        r#"{"timeout": 5}"#,
        r#"[1]"#,
    ];
    let shown: Vec<String> =
        all.iter().map(|text| format!("{text}\n  {}", parse(text).unwrap_err())).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    {"retry_policy": {}}
      p:1:18: retry_policy.max_attempts: `max_attempts` is missing (say how many attempts there may be in all, the first included)
    {"retry_policy": {"max_attempts": 0}}
      p:1:35: retry_policy.max_attempts: `0` is out of range (use 1 to 4294967295)
    {"retry_policy": {"max_attempts": -1}}
      p:1:35: retry_policy.max_attempts: `-1` is out of range (use 1 to 4294967295)
    {"retry_policy": {"max_attempts": null}}
      p:1:18: retry_policy.max_attempts: `max_attempts` is missing (say how many attempts there may be in all, the first included)
    {"retry_policy": {"max_attempts": 2, "backoff": "fibonacci"}}
      p:1:49: retry_policy.backoff: `fibonacci` is not known here (use none, linear, exponential, polynomial, list)
    {"retry_policy": {"max_attempts": 2, "backoff": 100}}
      p:1:49: retry_policy.backoff: expected a text, found the number 100 (use none, linear, exponential, polynomial, list)
    {"retry_policy": {"max_attempts": 2, "initial_delay_ms": 100}}
      p:1:58: retry_policy.initial_delay_ms: a delay has no effect without `backoff` (add backoff: none, linear, exponential or polynomial)
    {"retry_policy": {"max_attempts": 2, "retryable_errors": [503]}}
      p:1:59: retry_policy.retryable_errors.0: expected a text, found the number 503 (write "503")
    {"retry_policy": {"max_attempts": 2, "retryable_errors": "503"}}
      p:1:58: retry_policy.retryable_errors: expected a list, found the text "503"
    {"retry_policy": {"max_attempts": 2, "max_delay": 100}}
      p:1:38: retry_policy.max_delay: unknown key `max_delay` (did you mean `max_delay_ms`?)
    {"timeout_ms": 0}
      p:1:16: timeout_ms: a timeout of zero lets no attempt run (leave it out for no timeout)
    {"timeout_ms": -5}
      p:1:16: timeout_ms: `-5` may not be negative (use zero or more)
    {"timeout_ms": 1e300}
      p:1:16: timeout_ms: `1e300` is too large (the longest time is about 584 years)
    {"timeout_ms": "soon"}
      p:1:16: timeout_ms: `soon` is not a number (use a number with a unit, such as 30s)
    {"timeout_ms": true}
      p:1:16: timeout_ms: expected a length of time, found true
    {"timeout_ms": 5, "attempt_timeout": 5}
      p:1:38: attempt_timeout: `attempt_timeout` is given beside the dialect's own word for it (keep one of them)
    {"timeout": 5}
      p:1:2: timeout: unknown key `timeout` (did you mean `timeout_ms`?)
    [1]
      p:1:2: 1: unknown key `1` (use timeout_ms, retry_policy, attempt_timeout, total_timeout, timeout_retries, max_retry_after, counting, total_attempts, at_deadline, last_attempt_reserve, retry_unknown_outcome, retry_budget)
    "#);
}
