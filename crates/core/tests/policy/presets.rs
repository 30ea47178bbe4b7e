//! Presets by name (X2), and names that stand for many HTTP statuses (H17's error filters).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Format, Policies, parse_policy, parse_workflow, write};
use retrial_core::explain::explain;
use retrial_core::failure::{Failure, NetworkFault, statuses};
use retrial_core::policy::{Dialect, Functions, Limit, Origin, Policy, Preset, Share};
use retrial_core::time::Nanos;

fn read(text: &str) -> Result<Policy, String> {
    match parse_policy("p", text, None, &Environment::default()) {
        Ok(Policies::One(policy)) => Ok(policy),
        Ok(other) => panic!("{other:?}"),
        Err(found) => Err(found[0].to_string()),
    }
}

/// Of the rule that a failure falls to: the attempts, and the longest delays in milliseconds.
fn rule(policy: &Policy, failure: &Failure) -> Option<(Option<u32>, Vec<u64>)> {
    let rule = policy.rule_for(failure)?;
    let most = |n| rule.backoff.range(n, None, &Functions::default()).end().as_millis();
    Some((rule.limit.count(), [1, 2, 3, 12].map(most).into()))
}

#[test]
fn x2_aws_standard_has_the_numbers_of_its_source() {
    let policy = Preset::AwsStandard21.policy();
    let transient = Some((Some(3), vec![50, 100, 200, 20_000]));
    let throttling = Some((Some(3), vec![1_000, 2_000, 4_000, 20_000]));
    for failure in [
        Failure::http(500, ""),
        Failure::http(503, ""),
        Failure::network(NetworkFault::Reset, ""),
        Failure::timeout(Nanos::from_secs(1)),
        Failure::new("RequestTimeout", ""),
    ] {
        assert_eq!(rule(&policy, &failure), transient, "{failure}");
    }
    for code in ["429", "Throttling", "ThrottlingException", "SlowDown", "RequestLimitExceeded"] {
        assert_eq!(rule(&policy, &Failure::new(code, "")), throttling, "{code}");
    }
    for failure in [Failure::http(400, ""), Failure::http(501, ""), Failure::new("Other", "")] {
        assert_eq!(rule(&policy, &failure), None, "{failure}");
    }
    // Full jitter begins at nothing.
    assert!(
        policy
            .rules()
            .iter()
            .all(|r| { r.backoff.range(2, None, &Functions::default()).start().is_zero() })
    );
    let budget = policy.budget().unwrap();
    assert_eq!((budget.capacity, budget.initial), (500, 500));
    assert_eq!(budget.cost_of(&Failure::http(500, "")), 14);
    assert_eq!(budget.cost_of(&Failure::http(429, "")), 5);
    assert!(budget.refill.refund && budget.refill.first_success == 1);
    assert_eq!(budget.refill.ratio, Share::ZERO);
}

#[test]
fn x2_google_sre_has_the_numbers_of_its_source() {
    let policy = Preset::GoogleSre.policy();
    let expected = Some((Some(3), vec![100, 200, 400, 10_000]));
    assert_eq!(rule(&policy, &Failure::http(503, "")), expected);
    assert_eq!(rule(&policy, &Failure::http(404, "")), None);
    let budget = policy.budget().unwrap();
    assert_eq!((budget.refill.ratio, budget.cost, budget.initial), (Share::TENTH, 1, 10));
}

#[test]
fn x2_none_is_one_attempt() {
    let policy = Preset::None.policy();
    assert_eq!((policy.limit(), policy.budget()), (Limit::ONE, None));
}

#[test]
fn x2_by_name_in_every_place() {
    for preset in Preset::ALL {
        assert_eq!(Preset::of(&preset.policy()), Some(preset));
        assert!(preset.source().len() > 20);
        let name = preset.name();
        assert_eq!(read(name).unwrap(), preset.policy(), "{name}");
        assert_eq!(read(&format!("preset = {name:?}")).unwrap(), preset.policy());
        let text = write::own(&preset.policy()).unwrap();
        let again = parse_policy("p", &text, Some(Dialect::Preset), &Environment::default());
        assert_eq!(again, Ok(Policies::One(preset.policy())), "{text}");
    }
    let changed = read(r#"{"preset": {"name": "google-sre", "attempt_timeout": 2}}"#).unwrap();
    assert_eq!(changed.attempt_timeout(), Some(Nanos::from_secs(2)));
    assert_eq!(changed.budget(), Preset::GoogleSre.policy().budget(), "what is not said stays");
    assert_eq!(Preset::of(&changed), None);
    let file = "workflow = \"w\"\n[defaults]\npreset = \"google-sre\"\n\
        [defaults.llm_call]\npreset = \"aws-standard-2.1\"\n[actions.ask]\nkind = \"llm_call\"\n\
        [[steps]]\nid = \"own\"\naction = \"x\"\npreset = \"none\"\n\
        [[steps]]\nid = \"kind\"\naction = \"ask\"\n[[steps]]\nid = \"all\"\naction = \"x\"\n";
    let document = parse_workflow("w.toml", file, Format::Toml, &Environment::default()).unwrap();
    let steps = document.workflow.steps().iter().map(|s| (Preset::of(&s.policy), s.origin));
    assert_eq!(
        steps.collect::<Vec<_>>(),
        [
            (Some(Preset::None), Origin::Task),
            (Some(Preset::AwsStandard21), Origin::Kind),
            (Some(Preset::GoogleSre), Origin::Global),
        ]
    );
}

#[test]
fn x2_what_makes_no_sense_is_refused() {
    let refused = [
        r#"{"preset": "google"}"#,
        r#"{"preset": "aws-standard-2"}"#,
        r#"{"preset": 5}"#,
        r#"{"preset": {}}"#,
        r#"{"preset": {"name": "none", "max_attempts": 2}}"#,
        r#"{"preset": "none", "retry": "[retry: 1]"}"#,
    ]
    .map(|t| format!("{t}\n  {}", read(t).unwrap_err()));
    insta::assert_snapshot!(refused.join("\n"), @r#"
    {"preset": "google"}
      p:1:12: preset: there is no preset `google` (did you mean `google-sre`?)
    {"preset": "aws-standard-2"}
      p:1:12: preset: there is no preset `aws-standard-2` (did you mean `aws-standard-2.1`?)
    {"preset": 5}
      p:1:12: preset: expected a table, found the number 5
    {"preset": {}}
      p:1:12: preset.name: `name` is missing (name one of the presets)
    {"preset": {"name": "none", "max_attempts": 2}}
      p:1:29: preset.max_attempts: unknown key `max_attempts` (did you mean `total_attempts`?)
    {"preset": "none", "retry": "[retry: 1]"}
      p:1:20: retry: `retry` is given beside `preset` (keep one of them)
    "#);
}

#[test]
fn x2_explain_shows_what_a_preset_means() {
    let words = |p: Preset| explain(&p.policy(), None, &Functions::default()).to_string();
    insta::assert_snapshot!(words(Preset::GoogleSre), @r#"
    The preset google-sre.
    Source: Site Reliability Engineering, chapters 21 and 22: https://sre.google/sre-book/handling-overload/ (3 attempts, retries at most 10 % of requests, randomised exponential backoff; base and cap are ours).
    An attempt may take as long as its node allows, 5m unless configured. For retries all tasks of the action share 10 tokens, at most 10: a retry takes 1, each first attempt adds 10 % of a token; a retry that finds too few fails now. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx and 429).
    At most 3 executions: the first attempt and 2 retries. Waits 100ms, then twice as long each time, at most 10s, with full jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        0s   100ms            0s       100ms
          2        0s   200ms            0s       300ms
    "#);
    insta::assert_snapshot!(words(Preset::AwsStandard21), @r#"
    The preset aws-standard-2.1.
    Source: AWS SDKs' retry behaviour, standard mode 2.1: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html.
    An attempt may take as long as its node allows, 5m unless configured. For retries all tasks of the action share 500 tokens, at most 500: a retry takes 14, after throttling 5, a success at the first attempt adds 1, a success after retries returns the last retry's cost; a retry that finds too few fails now. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures whose code, type or ancestor is 429, BandwidthLimitExceeded, EC2ThrottledException, LimitExceededException, PriorRequestNotComplete, ProvisionedThroughputExceededException, RateLimitError, RequestLimitExceeded, RequestThrottled, RequestThrottledException, SlowDown, ThrottledException, Throttling, ThrottlingException, TooManyRequestsException or TransactionInProgressException.
    At most 3 executions: the first attempt and 2 retries. Waits 1s, then twice as long each time, at most 20s, with full jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        0s      1s            0s          1s
          2        0s      2s            0s          3s

    Rule 2 is for failures whose code, type or ancestor is 500, 502, 503, 504, ConnectionError, HTTPClientError, NetworkError, RequestTimeout, RequestTimeoutException or TimeoutError.
    At most 3 executions: the first attempt and 2 retries. Waits 50ms, then twice as long each time, at most 20s, with full jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        0s    50ms            0s        50ms
          2        0s   100ms            0s       150ms
    "#);
}

#[test]
fn h17_names_stand_for_many_statuses() {
    for (name, expected) in [
        ("5xx", Some(500..=599)),
        ("4XX", Some(400..=499)),
        ("500-599", Some(500..=599)),
        ("408-408", Some(408..=408)),
        ("6xx", None),
        ("0xx", None),
        ("599-500", None),
        ("99-200", None),
        ("500-600", None),
        ("500", None),
        ("xx", None),
        ("éxx", None),
        ("-5-500", None),
        ("5xx-", None),
    ] {
        assert_eq!(statuses(name), expected, "{name}");
    }
    let matches = |name: &str, failure: &Failure| failure.is_a(name);
    assert!(matches("5xx", &Failure::http(503, "")) && !matches("5xx", &Failure::http(429, "")));
    assert!(matches("429-503", &Failure::http(429, "")));
    assert!(!matches("5xx", &Failure::new("5000", "")) && !matches("5xx", &Failure::new("E5", "")));
    // A type of that very name is still a type.
    assert!(matches("9xx", &Failure::new("E", "").with_lineage(["9xx"])));
}

#[test]
fn h17_statuses_in_every_dialect() {
    let retries = |text: &str, failure: &Failure| {
        read(text).unwrap_or_else(|e| panic!("{e}")).rule_for(failure).is_some()
    };
    let (gone, teapot, busy) =
        (Failure::http(410, ""), Failure::http(418, ""), Failure::http(503, ""));
    for text in [
        "[4xx -> retry: 1]",
        "[400-417 -> retry: 1]",
        "[400-417->retry: 1]",
        "[(5xx, \"410-411\") -> retry: 1]",
        r#"{"work_config": {"max_retries": 1, "retryable_errors": ["400-417"]}}"#,
        r#"{"retry_policy": {"max_attempts": 2, "retryable_errors": ["4xx"]}}"#,
        r#"{"retry_config": {"retry_on_exceptions": ["410-410"]}}"#,
    ] {
        assert!(retries(text, &gone), "{text}");
        assert_eq!(retries(text, &teapot), text.contains("4xx"), "{text}");
    }
    let excluding = r#"{"retry_config": {"exclude_exceptions": ["5xx"]}}"#;
    assert!(!retries(excluding, &busy) && retries(excluding, &Failure::http(429, "")));
    // Decision 6: 429 is named by a range as well.
    let named = r#"{"work_config": {"max_retries": 1, "retryable_errors": ["4xx"]}}"#;
    assert!(retries(named, &Failure::http(429, "")));
    let refused = [
        "[6xx -> retry: 1]",
        "[(A, \"599-500\") -> retry: 1]",
        r#"{"retry_policy": {"max_attempts": 2, "retryable_errors": ["TIMEOUT", "500-999"]}}"#,
        r#"{"retry_config": {"exclude_exceptions": ["10xx"]}}"#,
    ]
    .map(|t| format!("{t}\n  {}", read(t).unwrap_err()));
    insta::assert_snapshot!(refused.join("\n"), @r#"
    [6xx -> retry: 1]
      p:1:2: not a valid range of HTTP statuses (use 5xx or a range such as 500-599, from 100 to 599)
    [(A, "599-500") -> retry: 1]
      p:1:7: not a valid range of HTTP statuses (use 5xx or a range such as 500-599, from 100 to 599)
    {"retry_policy": {"max_attempts": 2, "retryable_errors": ["TIMEOUT", "500-999"]}}
      p:1:70: retry_policy.retryable_errors.1: not a valid range of HTTP statuses (use 5xx or a range such as 500-599, from 100 to 599)
    {"retry_config": {"exclude_exceptions": ["10xx"]}}
      p:1:42: retry_config.exclude_exceptions.0: not a valid range of HTTP statuses (use 5xx or a range such as 500-599, from 100 to 599)
    "#);
}
