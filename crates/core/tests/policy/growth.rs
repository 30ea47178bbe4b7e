//! Beyond the documents: explicit lists, polynomials and linear growth with its own step (X3), a
//! count for each rule (X4), delays truncated at the total timeout (X5); in the policy itself, in
//! every dialect's text, and explained.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Policies, parse_policy};
use retrial_core::explain::explain;
use retrial_core::failure::Failure;
use retrial_core::policy::{
    AtDeadline, Backoff, BackoffError, Counting, DelayList, Functions, GiveUp, Jitter, Limit,
    Policy, Shape, Used, Verdict,
};
use retrial_core::time::{Nanos, Timestamp};

const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn read(text: &str) -> Result<Policy, String> {
    match parse_policy("p", text, None, &Environment::default()) {
        Ok(Policies::One(policy)) => Ok(policy),
        Ok(other) => panic!("{other:?}"),
        Err(found) => Err(found[0].to_string()),
    }
}

fn refused(texts: &[&str]) -> String {
    let lines = texts.iter().map(|t| format!("{t}\n  {}", read(t).unwrap_err()));
    lines.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> String {
    explain(&read(text).unwrap(), None, &Functions::default()).to_string()
}

fn delays(policy: &Policy, count: u32) -> Vec<u64> {
    let backoff = &policy.rules()[0].backoff;
    (1..=count).map(|n| backoff.nominal(n, &Functions::default()).as_millis()).collect()
}

fn list(delays: &[u64]) -> Shape {
    let delays: Vec<Nanos> = delays.iter().map(|n| ms(*n)).collect();
    Shape::List { delays: DelayList::try_from(delays).unwrap() }
}

#[test]
fn x3_a_list_stays_at_its_last_delay() {
    let backoff = Backoff { shape: list(&[300, 100, 700]), jitter: Jitter::None, cap: None };
    let at = |n| backoff.nominal(n, &Functions::default());
    assert_eq!([1, 2, 3, 4, u32::MAX].map(at), [300, 100, 700, 700, 700].map(ms));
    let capped = backoff.clone().with_cap(ms(200));
    assert_eq!(capped.nominal(3, &Functions::default()), ms(200));
    let jittered = backoff.with_jitter(Jitter::Full);
    assert_eq!(jittered.range(3, None, &Functions::default()), Nanos::ZERO..=ms(700));
    assert_eq!(DelayList::try_from(Vec::new()), Err(BackoffError::EmptyList));
    let long = vec![Nanos::ZERO; DelayList::MOST + 1];
    assert_eq!(DelayList::try_from(long), Err(BackoffError::LongList(1_001)));
}

#[test]
fn x3_a_polynomial_grows_by_the_power_of_the_retry() {
    let backoff = |degree| {
        let shape = Shape::Polynomial { base: ms(10), degree };
        Backoff { shape, jitter: Jitter::None, cap: None }
    };
    let first = |degree| [1, 2, 3, 4].map(|n| backoff(degree).nominal(n, &Functions::default()));
    assert_eq!(first(1), [10, 20, 30, 40].map(ms));
    assert_eq!(first(2), [10, 40, 90, 160].map(ms));
    assert_eq!(first(3), [10, 80, 270, 640].map(ms));
    assert_eq!(backoff(20).nominal(u32::MAX, &Functions::default()), Nanos::MAX);
}

#[test]
fn x3_in_every_dialect_that_is_a_table() {
    let check = |text: &str, expected: &[u64]| {
        assert_eq!(delays(&read(text).unwrap(), 4), expected, "{text}");
    };
    // rh_agents' times are seconds, the others' milliseconds.
    check(
        r#"{"retry_config": {"backoff_strategy": "list", "delays": [1, 0.5, "2m"]}}"#,
        &[1_000, 500, 120_000, 120_000],
    );
    check(r#"{"retry_config": {"delays": [1, 5]}}"#, &[1_000, 5_000, 5_000, 5_000]);
    check(
        r#"{"retry_config": {"backoff_strategy": "polynomial", "initial_delay": 0.1}}"#,
        &[100, 400, 900, 1_600],
    );
    check(
        r#"{"retry_config": {"backoff_strategy": "polynomial", "backoff_degree": 3}}"#,
        &[1_000, 8_000, 27_000, 60_000],
    );
    check(
        r#"{"retry_config": {"backoff_strategy": "linear", "backoff_step": 0.25}}"#,
        &[1_000, 1_250, 1_500, 1_750],
    );
    check(r#"{"work_config": {"max_retries": 9, "delays": [10, 20]}}"#, &[10, 20, 20, 20]);
    check(
        r#"{"work_config": {"max_retries": 9, "backoff": 100, "backoff_type": "linear", "backoff_step": 5}}"#,
        &[100, 105, 110, 115],
    );
    check(
        r#"{"work_config": {"max_retries": 9, "backoff": 100, "backoff_type": "polynomial"}}"#,
        &[100, 400, 900, 1_600],
    );
    check(
        r#"{"retry_policy": {"max_attempts": 9, "backoff": "list", "delays_ms": [7, 8]}}"#,
        &[7, 8, 8, 8],
    );
    check(
        r#"{"retry_policy": {"max_attempts": 9, "backoff": "linear", "step_delay_ms": 50}}"#,
        &[1_000, 1_050, 1_100, 1_150],
    );
    check(
        r#"{"retry_policy": {"max_attempts": 9, "backoff": "polynomial", "backoff_degree": 1}}"#,
        &[1_000, 2_000, 3_000, 4_000],
    );
}

#[test]
fn x3_what_makes_no_sense_is_refused() {
    insta::assert_snapshot!(refused(&[
        r#"{"retry_config": {"delays": []}}"#,
        r#"{"retry_config": {"delays": 5}}"#,
        r#"{"retry_config": {"delays": [1, -1]}}"#,
        r#"{"retry_config": {"delays": [1], "initial_delay": 2}}"#,
        r#"{"retry_config": {"backoff_strategy": "list"}}"#,
        r#"{"retry_config": {"backoff_strategy": "fibonacci", "delays": [1]}}"#,
        r#"{"retry_config": {"backoff_step": 1}}"#,
        r#"{"retry_config": {"backoff_strategy": "polynomial", "backoff_degree": 0}}"#,
        r#"{"work_config": {"max_retries": 1, "backoff_type": "fixed", "backoff_degree": 2}}"#,
        r#"{"work_config": {"max_retries": -1, "delays": [5, 0]}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "step_delay_ms": 5}}"#,
    ]), @r#"
    {"retry_config": {"delays": []}}
      p:1:29: retry_config.delays: the list of delays is empty (give at least one)
    {"retry_config": {"delays": 5}}
      p:1:29: retry_config.delays: expected a list, found the number 5
    {"retry_config": {"delays": [1, -1]}}
      p:1:33: retry_config.delays.1: `-1` may not be negative (use zero or more)
    {"retry_config": {"delays": [1], "initial_delay": 2}}
      p:1:51: retry_config.initial_delay: a list of delays takes no first delay (leave it out)
    {"retry_config": {"backoff_strategy": "list"}}
      p:1:39: retry_config.backoff_strategy: the list of delays is missing (write them out, such as [1, 5, 30])
    {"retry_config": {"backoff_strategy": "fibonacci", "delays": [1]}}
      p:1:62: retry_config.delays: this applies only to `list` backoff (make the backoff `list`, or leave it out)
    {"retry_config": {"backoff_step": 1}}
      p:1:35: retry_config.backoff_step: this applies only to `linear` backoff (make the backoff `linear`, or leave it out)
    {"retry_config": {"backoff_strategy": "polynomial", "backoff_degree": 0}}
      p:1:71: retry_config.backoff_degree: `0` is out of range (use 1 to 20)
    {"work_config": {"max_retries": 1, "backoff_type": "fixed", "backoff_degree": 2}}
      p:1:79: work_config.backoff_degree: this applies only to `polynomial` backoff (make the backoff `polynomial`, or leave it out)
    {"work_config": {"max_retries": -1, "delays": [5, 0]}}
      p:1:33: work_config.max_retries: unlimited retries need a delay: that of rule 1 is 0 or becomes 0 (set a backoff above zero or limit the attempts)
    {"retry_policy": {"max_attempts": 2, "step_delay_ms": 5}}
      p:1:55: retry_policy.step_delay_ms: a delay has no effect without `backoff` (add backoff: none, linear, exponential or polynomial)
    "#);
}

#[test]
fn x3_is_explained() {
    insta::assert_snapshot!(words(r#"{"retry_policy": {"max_attempts": 4, "delays_ms": [100, 5000]}}"#), @r#"
    A policy in the dialect execution.
    An attempt may take as long as its node allows, 5m unless configured. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures whose code, type or ancestor is 429, 500, 503, NETWORK_ERROR or TIMEOUT (the dialect's default list).
    At most 4 executions: the first attempt and 3 retries. Waits 100ms, 5s, then always 5s, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1     100ms   100ms         100ms       100ms
          2        5s      5s          5.1s        5.1s
          3        5s      5s         10.1s       10.1s
    "#);
    insta::assert_snapshot!(words(r#"{"work_config": {"max_retries": 2, "backoff": 100, "backoff_type": "polynomial"}}"#), @r#"
    A policy in the dialect work_config.
    An attempt may take as long as its node allows, 5m unless configured. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx; 408 and 429 only when named).
    At most 3 executions: the first attempt and 2 retries. Waits 100ms times the number of the retry to the power of 2, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1     100ms   100ms         100ms       100ms
          2     400ms   400ms         500ms       500ms
    "#);
}

fn used<'t>(attempt: u32, by_rule: &'t [u32]) -> Used<'t> {
    Used {
        attempt,
        idempotent: true,
        timeout_retries: 0,
        by_rule,
        previous: None,
        first_started: START,
    }
}

/// The delay and the place of the rule, or why not.
fn verdict(policy: &Policy, code: &str, used: Used<'_>, since: u64) -> Result<(u64, u32), GiveUp> {
    let now = START.after(ms(since));
    match policy.verdict(&Failure::new(code, "x"), &used, now, 0, &Functions::default()) {
        Verdict::Retry { delay, rule, .. } => Ok((delay.as_millis(), rule)),
        Verdict::GiveUp(reason) => Err(reason),
    }
}

/// A twice, B three times, each with its own growth.
const TWO: &str = "[A -> retry: 2, backoff: 1s] [B -> retry: 3, backoff: 10s]";

#[test]
fn x4_each_rule_has_its_own_count() {
    let own = read(&format!("{TWO} [counting: per_rule]")).unwrap();
    assert_eq!(own.counting(), Counting::PerRule { total: Limit::Unlimited });
    // Its backoff grows with the same count.
    assert_eq!(verdict(&own, "A", used(1, &[]), 0), Ok((1_000, 0)));
    assert_eq!(verdict(&own, "B", used(2, &[1]), 0), Ok((10_000, 1)));
    assert_eq!(verdict(&own, "B", used(3, &[1, 1]), 0), Ok((20_000, 1)));
    assert_eq!(verdict(&own, "A", used(4, &[1, 2]), 0), Ok((2_000, 0)));
    assert_eq!(verdict(&own, "A", used(5, &[2, 2]), 0), Err(GiveUp::Exhausted));
    assert_eq!(verdict(&own, "B", used(5, &[2, 2]), 0), Ok((40_000, 1)));
    assert_eq!(verdict(&own, "B", used(6, &[2, 3]), 0), Err(GiveUp::Exhausted));
    // W8's shared counter stays the default: the same attempts, whatever they failed of.
    let shared = read(TWO).unwrap();
    assert_eq!(shared.counting(), Counting::Shared);
    assert_eq!(verdict(&shared, "A", used(3, &[]), 0), Err(GiveUp::Exhausted));
    assert_eq!(verdict(&shared, "B", used(3, &[]), 0), Ok((40_000, 1)));
}

#[test]
fn x4_a_total_bounds_all_rules() {
    let bounded = read(&format!("{TWO} [counting: per_rule, total_attempts: 4]")).unwrap();
    assert_eq!(bounded.limit().count(), Some(4));
    assert_eq!(verdict(&bounded, "B", used(3, &[1, 1]), 0), Ok((20_000, 1)));
    assert_eq!(verdict(&bounded, "B", used(4, &[1, 2]), 0), Err(GiveUp::Exhausted));
    // Without a total: the first attempt and every rule's retries.
    assert_eq!(read(&format!("{TWO} [counting: per_rule]")).unwrap().limit().count(), Some(6));
    assert_eq!(read(TWO).unwrap().limit().count(), Some(4));
    let endless = r#"{"max_retries": -1, "backoff": 5, "counting": "per_rule"}"#;
    assert_eq!(read(endless).unwrap().limit(), Limit::Unlimited);
}

#[test]
fn x4_in_text_and_explained() {
    for text in [
        r#"{"max_retries": 3, "backoff": 5, "counting": "per_rule", "total_attempts": 9}"#,
        r#"{"retry_policy": {"max_attempts": 3}, "counting": "per_rule", "total_attempts": 9}"#,
        r#"{"retry_config": {"counting": "per_rule", "total_attempts": 9}}"#,
        "[retry: 3, backoff: 1] [total_attempts: 9] [counting: per_rule]",
    ] {
        let total = Limit::attempts(9).unwrap();
        assert_eq!(read(text).unwrap().counting(), Counting::PerRule { total }, "{text}");
    }
    assert_eq!(read("[retry: 1] [counting: shared]").unwrap().counting(), Counting::Shared);
    insta::assert_snapshot!(refused(&[
        r#"{"max_retries": 3, "total_attempts": 9}"#,
        r#"{"max_retries": 3, "counting": "shared", "total_attempts": 9}"#,
        r#"{"max_retries": 3, "counting": "by_rule"}"#,
        "[retry: 1] [total_attempts: 3]",
        "[retry: 1] [counting: mine]",
        "[retry: 1] [counting: per_rule, total_attempts: 0]",
    ]), @r#"
    {"max_retries": 3, "total_attempts": 9}
      p:1:38: total_attempts: `total_attempts` has no effect without `counting` (add counting: per_rule, or leave it out)
    {"max_retries": 3, "counting": "shared", "total_attempts": 9}
      p:1:60: total_attempts: `total_attempts` has no effect without `counting` (add counting: per_rule, or leave it out)
    {"max_retries": 3, "counting": "by_rule"}
      p:1:32: counting: `by_rule` is not known here (use shared, per_rule)
    [retry: 1] [total_attempts: 3]
      p:1:13: `total_attempts` has no effect without `counting: per_rule` (add [counting: per_rule])
    [retry: 1] [counting: mine]
      p:1:23: `counting`: `mine` is not known here (use shared, per_rule)
    [retry: 1] [counting: per_rule, total_attempts: 0]
      p:1:49: `total_attempts` must be a whole number, found `0` (use 1 to 4294967295)
    "#);
    insta::assert_snapshot!(words(&format!("{TWO} [counting: per_rule, total_attempts: 4]")), @r#"
    A policy in the dialect ir.
    An attempt may take as long as its node allows, 5m unless configured. Each rule counts its own retries; there may be 4 executions in all. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures whose code, type or ancestor is A.
    At most 2 retries, by its own count. Waits 1s, then twice as long each time, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        1s      1s            1s          1s
          2        2s      2s            3s          3s

    Rule 2 is for failures whose code, type or ancestor is B.
    At most 3 retries, by its own count. Waits 10s, then twice as long each time, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1       10s     10s           10s         10s
          2       20s     20s           30s         30s
          3       40s     40s         1m10s       1m10s
    "#);
}

fn truncating(timeout: &str) -> Policy {
    let text = "[retry: 9, backoff: 4s] [total_timeout: 10s] [at_deadline: truncate]";
    read(&format!("{text} {timeout}")).unwrap()
}

#[test]
fn x5_a_delay_that_crosses_the_total_timeout_is_truncated() {
    let unset = truncating("");
    assert_eq!(unset.at_deadline(), AtDeadline::Truncate { reserve: Nanos::from_secs(1) });
    let at = |policy: &Policy, since| verdict(policy, "E", used(1, &[]), since).map(|r| r.0);
    // It does not cross: as it is, also where it comes close.
    assert_eq!(at(&unset, 5_999), Ok(4_000));
    // It would: the last attempt starts the reserve before the end.
    assert_eq!(at(&unset, 6_000), Ok(3_000));
    assert_eq!(at(&unset, 8_999), Ok(1));
    // That instant has come.
    assert_eq!(at(&unset, 9_000), Err(GiveUp::TotalTimeout));
    assert_eq!(at(&unset, 9_999), Err(GiveUp::TotalTimeout));
    let reserve = truncating("[last_attempt_reserve: 2500ms]");
    assert_eq!(at(&reserve, 7_000), Ok(500));
    assert_eq!(at(&reserve, 7_500), Err(GiveUp::TotalTimeout));
    // An attempt timeout stands in the reserve's place.
    let timed = truncating("[last_attempt_reserve: 2500ms] [timeout: 3s]");
    assert_eq!(at(&timed, 6_500), Ok(500));
    assert_eq!(at(&timed, 7_000), Err(GiveUp::TotalTimeout));
    let default = read("[retry: 9, backoff: 4s] [total_timeout: 10s]").unwrap();
    assert_eq!(default.at_deadline(), AtDeadline::GiveUp);
    assert_eq!(at(&default, 6_000), Err(GiveUp::TotalTimeout));
}

/// Decision 7: a `Retry-After` is never cut short.
#[test]
fn x5_never_below_what_the_endpoint_asked_for() {
    let policy = truncating("");
    let asked = |wait: u64, since: u64| {
        let failure = Failure::http(429, "x").with_retry_after(ms(wait));
        let now = START.after(ms(since));
        match policy.verdict(&failure, &used(1, &[]), now, 0, &Functions::default()) {
            Verdict::Retry { delay, backoff, .. } => Ok((delay, backoff)),
            Verdict::GiveUp(reason) => Err(reason),
        }
    };
    assert_eq!(asked(3_000, 6_000), Ok((ms(3_000), ms(4_000))));
    assert_eq!(asked(3_001, 6_000), Err(GiveUp::TotalTimeout));
    assert_eq!(asked(5_000, 4_000), Ok((ms(5_000), ms(4_000))));
    assert_eq!(asked(6_000, 4_000), Err(GiveUp::TotalTimeout));
}

#[test]
fn x5_in_text_and_explained() {
    let reserve = ms(2_500);
    for text in [
        r#"{"max_retries": 3, "at_deadline": "truncate", "last_attempt_reserve": 2.5}"#,
        r#"{"retry_policy": {"max_attempts": 3}, "at_deadline": "truncate", "last_attempt_reserve": "2.5s"}"#,
        r#"{"retry_config": {"at_deadline": "truncate", "last_attempt_reserve": 2.5}}"#,
        "[retry: 3] [at_deadline: truncate, last_attempt_reserve: 2.5]",
    ] {
        let truncate = AtDeadline::Truncate { reserve };
        assert_eq!(read(text).unwrap().at_deadline(), truncate, "{text}");
    }
    insta::assert_snapshot!(refused(&[
        r#"{"max_retries": 3, "last_attempt_reserve": 1}"#,
        r#"{"max_retries": 3, "at_deadline": "truncate", "last_attempt_reserve": 0}"#,
        r#"{"max_retries": 3, "at_deadline": "cut"}"#,
        "[retry: 1] [last_attempt_reserve: 3]",
        "[retry: 1] [at_deadline: truncate] [at_deadline: truncate]",
    ]), @r#"
    {"max_retries": 3, "last_attempt_reserve": 1}
      p:1:44: last_attempt_reserve: `last_attempt_reserve` has no effect without `at_deadline` (add at_deadline: truncate, or leave it out)
    {"max_retries": 3, "at_deadline": "truncate", "last_attempt_reserve": 0}
      p:1:71: last_attempt_reserve: a timeout of zero lets no attempt run (leave it out for no timeout)
    {"max_retries": 3, "at_deadline": "cut"}
      p:1:35: at_deadline: `cut` is not known here (use give_up, truncate)
    [retry: 1] [last_attempt_reserve: 3]
      p:1:13: `last_attempt_reserve` has no effect without `at_deadline: truncate` (add [at_deadline: truncate])
    [retry: 1] [at_deadline: truncate] [at_deadline: truncate]
      p:1:37: `at_deadline` is given twice (keep one of them)
    "#);
    insta::assert_snapshot!(words("[retry: 1, backoff: 4s] [total_timeout: 10s] [at_deadline: truncate]"), @r#"
    A policy in the dialect ir.
    An attempt may take as long as its node allows, 5m unless configured. All attempts and waits together may take 10s. A wait that would cross that is cut short: the last attempt starts 1s before. A Retry-After of up to 1h is obeyed.

    Rule 1 is for every failure.
    At most 2 executions: the first attempt and 1 retry. Waits 4s, then twice as long each time, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        4s      4s            4s          4s
    "#);
}
