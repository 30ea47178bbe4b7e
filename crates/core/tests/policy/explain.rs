//! `explain`: words, the table of delays (spec decisions 1, 4 and 6), JSON, warnings.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, parse_policy};
use retrial_core::explain::{Explained, explain_all};
use retrial_core::policy::Functions;

pub(super) fn explained(text: &str, attempts: Option<u32>) -> Explained {
    let policies = parse_policy("p", text, None, &Environment::default());
    let policies = policies.unwrap_or_else(|e| panic!("{}", e[0]));
    explain_all(&policies, attempts, &Functions::default())
}

pub(super) fn words(text: &str) -> String {
    explained(text, None).to_string()
}

#[test]
fn ir_in_words() {
    insta::assert_snapshot!(
        words("[RateLimitError -> retry: 3, backoff: 1m] [retry: 1, backoff: 0.5] [timeout: 2m]"),
        @r#"
    A policy in the dialect ir.
    Each attempt may take 2m. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures whose code, type or ancestor is RateLimitError.
    At most 4 executions: the first attempt and 3 retries. Waits 1m, then twice as long each time, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        1m      1m            1m          1m
          2        2m      2m            3m          3m
          3        4m      4m            7m          7m

    Rule 2 is for every failure.
    At most 2 executions: the first attempt and 1 retry. Waits 500ms, then twice as long each time, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1     500ms   500ms         500ms       500ms
    "#
    );
}

#[test]
fn work_config_in_words() {
    insta::assert_snapshot!(
        words(r#"{"max_retries": -1, "backoff": 100, "max_backoff": 1500, "backoff_type": "exponential", "retryable_errors": ["429"]}"#),
        @r#"
    A policy in the dialect work_config.
    An attempt may take as long as its node allows, 5m unless configured. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx; 408 and 429 only when named); also 429.
    Any number of executions: retries are unlimited. Waits 100ms, then twice as long each time, at most 1.5s, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1     100ms   100ms         100ms       100ms
          2     200ms   200ms         300ms       300ms
          3     400ms   400ms         700ms       700ms
          4     800ms   800ms          1.5s        1.5s
          5      1.5s    1.5s            3s          3s
          6      1.5s    1.5s          4.5s        4.5s
          7      1.5s    1.5s            6s          6s
          8      1.5s    1.5s          7.5s        7.5s
          9      1.5s    1.5s            9s          9s
         10      1.5s    1.5s         10.5s       10.5s
      and so on
    "#
    );
}

#[test]
fn execution_in_words() {
    insta::assert_snapshot!(
        words(r#"{"timeout_ms": 30000, "retry_policy": {"max_attempts": 3, "backoff": "linear"}}"#),
        @r#"
    A policy in the dialect execution.
    Each attempt may take 30s. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures whose code, type or ancestor is 429, 500, 503, NETWORK_ERROR or TIMEOUT (the dialect's default list).
    At most 3 executions: the first attempt and 2 retries. Waits 1s times the number of the retry, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        1s      1s            1s          1s
          2        2s      2s            3s          3s
    "#
    );
}

#[test]
fn retry_config_in_words() {
    insta::assert_snapshot!(words(r#"{"retry_config": {"retry_timeout": 5}}"#), @r#"
    A policy in the dialect retry_config.
    An attempt may take as long as its node allows, 5m unless configured. All attempts and waits together may take 5s. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx and 429); never AttributeError, KeyError, TypeError, ValidationError or ValueError.
    At most 3 executions: the first attempt and 2 retries. Waits 1s, then twice as long each time, at most 1m, with jitter of plus or minus 25 %.
      retry  earliest  latest  earliest sum  latest sum
          1     750ms   1.25s         750ms       1.25s
          2      1.5s    2.5s         2.25s       3.75s
    "#);
}

#[test]
fn disabled_in_words() {
    insta::assert_snapshot!(words(r#"{"retry_config": {"enabled": false}}"#), @r#"
    A policy in the dialect retry_config.
    An attempt may take as long as its node allows, 5m unless configured. A Retry-After of up to 1h is obeyed.

    1 execution: no retries.
    "#);
}

#[test]
fn a_workflow_in_words() {
    let file = r#"
workflow = "w"
[[steps]]
id = "own"
action = "x"
work_config = { max_retries = 1, backoff = 100 }
[[steps]]
id = "built_in"
action = "x"
"#;
    insta::assert_snapshot!(words(file), @r#"
    Workflow w: the policies of 2 steps.

    Step own: a policy in the dialect work_config, from the step.
    An attempt may take as long as its node allows, 5m unless configured. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx; 408 and 429 only when named).
    At most 2 executions: the first attempt and 1 retry. Waits 100ms before each retry, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1     100ms   100ms         100ms       100ms

    Step built_in: a policy in the dialect retry_config, from the built-in default.
    An attempt may take as long as its node allows, 5m unless configured. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx and 429); never AttributeError, KeyError, TypeError, ValidationError or ValueError.
    At most 3 executions: the first attempt and 2 retries. Waits 1s, then twice as long each time, at most 30s, with jitter of plus or minus 25 %.
      retry  earliest  latest  earliest sum  latest sum
          1     750ms   1.25s         750ms       1.25s
          2      1.5s    2.5s         2.25s       3.75s
    "#);
    let json = explained(file, Some(2)).to_json();
    insta::assert_snapshot!(json, @r#"{"steps":[{"at_deadline":"give_up","attempt_timeout_ms":null,"counting":"shared","dialect":"work_config","max_attempts":2,"origin":"task","preset":null,"retry_budget":null,"retry_unknown_outcome":false,"rules":[{"delays_ms":[{"max":100,"min":100,"retry":1}],"matches":["retryable"],"max_attempts":2}],"step":"own","total_timeout_ms":null,"warnings":[]},{"at_deadline":"give_up","attempt_timeout_ms":null,"counting":"shared","dialect":"retry_config","max_attempts":3,"origin":"built_in","preset":null,"retry_budget":null,"retry_unknown_outcome":false,"rules":[{"delays_ms":[{"max":1250,"min":750,"retry":1}],"matches":["retryable","!AttributeError","!KeyError","!TypeError","!ValidationError","!ValueError"],"max_attempts":3}],"step":"built_in","total_timeout_ms":null,"warnings":[]}],"workflow":"w"}"#);
}

#[test]
fn c18_an_error_budget_is_explained() {
    let file = r#"
workflow = "w"
[actions.pay]
error_budget = { target = 0.995, window = "30m", alerts = [0.5, 2], webhook = "notify" }
[actions.notify]
[[steps]]
id = "pay"
action = "pay"
retry = "[retry: 0]"
"#;
    let told = words(file).lines().find(|line| line.contains("budget")).unwrap().to_owned();
    insta::assert_snapshot!(told, @"An attempt may take as long as its node allows, 5m unless configured. At most 0.5 % of the action's attempts within 30m may fail; an alert is raised to `notify` when 50 %, 200 % of this error budget are used, from 20 attempts on. A Retry-After of up to 1h is obeyed.");
    let json = &explained(file, None).to_json()["steps"][0];
    insta::assert_snapshot!(format!("{} {}", json["error_budget"], json["webhook"]), @r#"{"alerts_millionths":[500000,2000000],"min_calls":20,"target_millionths":995000,"window":1800000000000} "notify""#);
}

/// Decision 4: decorrelated jitter reaches from the base to three times the latest before.
#[test]
fn h17_decorrelated_grows_from_the_latest_before() {
    let text =
        r#"{"jitter": "decorrelated", "initial_delay": 1, "max_delay": 20, "max_attempts": 5}"#;
    let json = explained(text, None).to_json();
    insta::assert_snapshot!(json["rules"][0]["delays_ms"], @r#"[{"max":3000,"min":1000,"retry":1},{"max":9000,"min":1000,"retry":2},{"max":20000,"min":1000,"retry":3},{"max":20000,"min":1000,"retry":4}]"#);
}

/// The least is rounded down to a millisecond, the most up.
#[test]
fn json_has_the_agreed_shape() {
    let text = "[(A, B) -> retry: 2, backoff: 0.0015] [timeout: 2m] [total_timeout: 1h]";
    let json = serde_json::to_string_pretty(&explained(text, None).to_json()).unwrap();
    insta::assert_snapshot!(json, @r#"
    {
      "at_deadline": "give_up",
      "attempt_timeout_ms": 120000,
      "counting": "shared",
      "dialect": "ir",
      "max_attempts": 3,
      "preset": null,
      "retry_budget": null,
      "retry_unknown_outcome": false,
      "rules": [
        {
          "delays_ms": [
            {
              "max": 2,
              "min": 1,
              "retry": 1
            },
            {
              "max": 3,
              "min": 3,
              "retry": 2
            }
          ],
          "matches": [
            "A",
            "B"
          ],
          "max_attempts": 3
        }
      ],
      "total_timeout_ms": 3600000,
      "warnings": []
    }
    "#);
}

#[test]
fn how_many_are_listed() {
    let count = |text: &str, attempts| {
        let json = explained(text, attempts).to_json();
        json["rules"][0]["delays_ms"].as_array().unwrap().len()
    };
    let unlimited = r#"{"max_retries": -1, "backoff": 1}"#;
    assert_eq!(count(unlimited, None), 10);
    assert_eq!(count(unlimited, Some(4)), 3);
    assert_eq!(count("[retry: 7]", None), 7);
    assert_eq!(count("[retry: 7]", Some(3)), 2);
    assert_eq!(count("[retry: 7]", Some(99)), 7);
    assert_eq!(count("[retry: 7]", Some(0)), 0);
    assert_eq!(count("[retry: 4000000000]", None), 1000);
    assert_eq!(count(unlimited, Some(u32::MAX)), 1000);
}

/// Decision 10: an unlimited policy never waits less than 10 ms.
#[test]
fn decision_10_unlimited_delays_have_a_floor() {
    let json =
        explained(r#"{"max_retries": -1, "backoff": 4, "jitter": "full"}"#, Some(2)).to_json();
    assert_eq!(json["rules"][0]["max_attempts"], serde_json::Value::Null);
    let first = &json["rules"][0]["delays_ms"][0];
    assert_eq!((&first["min"], &first["max"]), (&10.into(), &10.into()));
}

#[test]
fn warnings() {
    let all = [
        "[backoff: 60]",
        "[A -> retry: 2] [retry: 5]",
        "[retry: 5] [timeout: 2m] [total_timeout: 1m]",
        "[retry: 5, backoff: 30] [total_timeout: 2m]",
        r#"{"max_retries": -1, "backoff": 4, "backoff_type": "linear"}"#,
        r#"{"max_retries": 2, "backoff": 400, "max_backoff": 100}"#,
        r#"{"retry_policy": {"max_attempts": 2, "retryable_errors": []}}"#,
        r#"{"backoff_strategy": "custom:mine"}"#,
        "[A -> retry: 5, backoff: 1] [retry: 2, backoff: 3]",
        r#"{"retry_policy": {"max_attempts": 2, "retryable_errors": ["TIMEOT", "CARD_DECLINED"]}}"#,
        "[HttpError -> retry: 2] [(TIMEOUT, UserError) -> retry: 3]",
        r#"{"retry_config": {"exclude_exceptions": ["SeverError"]}}"#,
    ];
    let shown: Vec<String> = all
        .iter()
        .map(|text| format!("{text}\n  {}", explained(text, None).to_json()["warnings"]))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    [backoff: 60]
      ["rule 1: it has a delay but allows no retry; say how many retries there may be"]
    [A -> retry: 2] [retry: 5]
      ["rule 1: it never governs: rule 2 matches the same failures with as many attempts or more; give it more attempts than the other, or leave it out"]
    [retry: 5] [timeout: 2m] [total_timeout: 1m]
      ["the attempt timeout of 2m is not below the total timeout of 1m: the first attempt may take it all; shorten the attempt timeout or lengthen the total one"]
    [retry: 5, backoff: 30] [total_timeout: 2m]
      ["rule 1: the total timeout of 2m leaves room for at most 3 of its 6 attempts; allow more time or fewer attempts"]
    {"max_retries": -1, "backoff": 4, "backoff_type": "linear"}
      ["rule 1: it retries without limit and its delay grows without a cap; set a cap"]
    {"max_retries": 2, "backoff": 400, "max_backoff": 100}
      ["rule 1: its first delay of 400ms is above the cap: every delay is 100ms; raise the cap or shorten the delay"]
    {"retry_policy": {"max_attempts": 2, "retryable_errors": []}}
      ["rule 1: its list of errors is empty, so it matches nothing; name an error, or leave the list out"]
    {"backoff_strategy": "custom:mine"}
      ["rule 1: its backoff function `mine` is not registered here; its delays are shown as 0; run it in the program that registers the function"]
    [A -> retry: 5, backoff: 1] [retry: 2, backoff: 3]
      []
    {"retry_policy": {"max_attempts": 2, "retryable_errors": ["TIMEOT", "CARD_DECLINED"]}}
      ["rule 1: `TIMEOT` names no error of Retrial's own; `TIMEOUT` does; correct it, unless an action gives this name"]
    [HttpError -> retry: 2] [(TIMEOUT, UserError) -> retry: 3]
      ["rule 1: `HttpError` names no error of Retrial's own; `HTTPError` does; correct it, unless an action gives this name"]
    {"retry_config": {"exclude_exceptions": ["SeverError"]}}
      ["rule 1: `SeverError` names no error of Retrial's own; `ServerError` does; correct it, unless an action gives this name"]
    "#);
}

/// The dialect is recognised from the text.
#[test]
fn the_dialect_is_guessed() {
    let check = |text: &str, dialect: &str| {
        assert_eq!(explained(text, None).to_json()["dialect"], dialect, "{text}");
    };
    check("[retry: 3]", "ir");
    check("# first\n[A -> retry: 3]", "ir");
    check("retry = '[retry: 3]'", "ir");
    check("max_retries = 3", "work_config");
    check("backoff = 3", "work_config");
    check("[work_config]\nmax_retries = 3", "work_config");
    check(r#"{"work_config": {}}"#, "work_config");
    check(r#"{"timeout_ms": 5}"#, "execution");
    check(r#"{"max_attempts": 2, "initial_delay_ms": 5, "backoff": "linear"}"#, "execution");
    check(r#"{"max_attempts": 2}"#, "retry_config");
    check(r#"{"enabled": true}"#, "retry_config");
    check("[retry_config]\nmax_attempts = 2", "retry_config");
}

#[test]
fn retries_that_are_not_listed_are_counted() {
    let text = explained("[retry: 25, backoff: 1s]", Some(4)).to_string();
    assert!(text.ends_with("\n  and 22 more\n"), "{text}");
}

#[test]
fn the_earliest_is_rounded_down_and_the_latest_up() {
    let text = words("[retry: 1, backoff: 0.0015]");
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["1", "1ms", "2ms", "1ms", "2ms"]);
}

/// X5: an attempt timeout stands in the reserve's place.
#[test]
fn x5_the_start_of_the_last_attempt_is_explained() {
    let started = |timeout: &str| {
        let limits = "[total_timeout: 10s] [at_deadline: truncate]";
        let text = words(&format!("[retry: 9, backoff: 4s] {limits} {timeout}"));
        let (_, rest) = text.split_once("the last attempt starts ").unwrap();
        rest.split(' ').next().unwrap().to_owned()
    };
    assert_eq!([started(""), started("[timeout: 3s]")], ["1s", "3s"]);
}

#[test]
fn every_warning_is_told_in_json() {
    let text = "[TIMEOT -> retry: 1, backoff: 1s] [timeout: 1m] [total_timeout: 1m]";
    let json = explained(text, None).to_json();
    let warnings = json["warnings"].as_array().unwrap();
    for part in ["TIMEOT", "of 1m is not below the total timeout of 1m"] {
        assert!(
            warnings.iter().any(|w| w.as_str().unwrap().contains(part)),
            "{part}: {warnings:?}"
        );
    }
}
