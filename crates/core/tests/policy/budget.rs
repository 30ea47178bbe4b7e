//! Retry budgets as a policy says them (C18, H17): what each dialect's text means, what is refused,
//! what is written back and explained, what a retry costs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Policies, parse_policy, write};
use retrial_core::explain::explain;
use retrial_core::failure::Failure;
use retrial_core::policy::{Budget, BudgetScope, Denied, Functions, Policy, Refill, Share};

fn read(text: &str) -> Result<Policy, String> {
    match parse_policy("p", text, None, &Environment::default()) {
        Ok(Policies::One(policy)) => Ok(policy),
        Ok(other) => panic!("{other:?}"),
        Err(found) => Err(found[0].to_string()),
    }
}

fn budget(text: &str) -> Budget {
    *read(text).unwrap().budget().unwrap()
}

fn tenth() -> Budget {
    Budget::of_first_attempts(Share::TENTH)
}

#[test]
fn c18_h17_a_retry_budget_in_every_dialect() {
    let twentieth = Budget::of_first_attempts(Share::from_millionths(50_000).unwrap());
    assert_eq!(budget("[retry: 3, backoff: 1] [retry_budget: 0.05]"), twentieth);
    assert_eq!(budget(r#"{"max_retries": 3, "backoff": 5, "retry_budget": 0.05}"#), twentieth);
    let execution = r#"{"retry_policy": {"max_attempts": 3}, "retry_budget": {"ratio": 0.05}}"#;
    assert_eq!(budget(execution), twentieth);
    assert_eq!(budget(r#"{"retry_config": {"retry_budget": {}}}"#), tenth());
    assert_eq!(read("[retry: 3, backoff: 1]").unwrap().budget(), None, "off unless configured");
}

#[test]
fn h17_a_retry_budget_in_full() {
    let text = r#"{"retry_config": {"retry_budget": {
        "initial": 20, "capacity": 500, "cost": 14, "throttling_cost": 5, "first_success": 1,
        "refund": true, "scope": "action", "on_denied": "wait"}}}"#;
    let expected = Budget {
        capacity: 500,
        initial: 20,
        cost: 14,
        throttling_cost: 5,
        // Another refill stands in place of the usual ratio.
        refill: Refill { ratio: Share::ZERO, first_success: 1, refund: true },
        scope: BudgetScope::Action,
        on_denied: Denied::Wait,
    };
    assert_eq!(budget(text), expected);
    let policy = read(text).unwrap();
    assert_eq!(
        read(&format!("{{\"retry_config\": {}}}", write::own(&policy).unwrap())),
        Ok(policy)
    );
    let initial = budget(r#"{"max_retries": 1, "retry_budget": {"initial": 7}}"#);
    assert_eq!(initial, Budget { initial: 7, capacity: 7, ..tenth() });
    let capacity = budget(r#"{"max_retries": 1, "retry_budget": {"capacity": 7}}"#);
    assert_eq!(capacity, Budget { initial: 7, capacity: 7, ..tenth() });
}

#[test]
fn c18_budgets_that_make_no_sense_are_refused() {
    let texts = [
        "2",
        "-1",
        r#""much""#,
        r#"{"cost": 11}"#,
        r#"{"cost": 0}"#,
        r#"{"initial": 5, "capacity": 4}"#,
        r#"{"ratio": 0}"#,
        r#"{"refund": false}"#,
        r#"{"on_denied": "no"}"#,
        r#"{"ration": 0.1}"#,
    ];
    let refused = texts.map(|t| {
        let text = format!(r#"{{"max_retries": 1, "retry_budget": {t}}}"#);
        format!("{t}\n  {}", read(&text).unwrap_err())
    });
    insta::assert_snapshot!(refused.join("\n"), @r#"
    2
      p:1:36: retry_budget: the share is above 1 (use 0 to 1)
    -1
      p:1:36: retry_budget: `-1` may not be negative (use zero or more)
    "much"
      p:1:36: retry_budget: expected a table, found the text "much"
    {"cost": 11}
      p:1:36: retry_budget: the retry budget holds 10 tokens and a retry takes 11: no retry could ever be made (raise the capacity or turn retries off)
    {"cost": 0}
      p:1:45: retry_budget.cost: `0` is out of range (use 1 to 4294967295)
    {"initial": 5, "capacity": 4}
      p:1:36: retry_budget: the retry budget starts with 5 tokens but holds only 4 (raise the capacity)
    {"ratio": 0}
      p:1:36: retry_budget: nothing refills the retry budget (set a ratio, a refund or tokens for first successes)
    {"refund": false}
      p:1:36: retry_budget: nothing refills the retry budget (set a ratio, a refund or tokens for first successes)
    {"on_denied": "no"}
      p:1:50: retry_budget.on_denied: `no` is not known here (use fail, wait)
    {"ration": 0.1}
      p:1:37: retry_budget.ration: unknown key `ration` (did you mean `ratio`?)
    "#);
    insta::assert_snapshot!(
        ["[retry_budget: 2]", "[retry_budget: x]", "[retry: 1, retry_budget: 0.1]"]
            .map(|t| read(t).unwrap_err())
            .join("\n"),
        @r#"
    p:1:16: `retry_budget`: `2` is above 1 (use 0 to 1)
    p:1:16: `retry_budget`: `x` is not a number (use 0 to 1, such as 0.1)
    p:1:12: `retry_budget` stands beside a rule (write it in a bracket of its own: [retry_budget: 0.1])
    "#
    );
}

#[test]
fn h17_a_retry_budget_is_explained() {
    let shown = |text: &str| {
        let words = explain(&read(text).unwrap(), None, &Functions::default()).to_string();
        words.lines().nth(1).unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(shown("[retry: 1, backoff: 1] [retry_budget: 0.1]"), @"An attempt may take as long as its node allows, 5m unless configured. For retries all tasks of the action share 10 tokens, at most 10: a retry takes 1, each first attempt adds 10 % of a token; a retry that finds too few fails now. A Retry-After of up to 1h is obeyed.");
    insta::assert_snapshot!(
        shown(r#"{"max_retries": 1, "retry_budget": {"capacity": 500, "cost": 14, "throttling_cost": 5, "first_success": 1, "refund": true, "scope": "group", "on_denied": "fail"}}"#),
        @"An attempt may take as long as its node allows, 5m unless configured. For retries the tasks of one fan-out share 500 tokens, at most 500: a retry takes 14, after throttling 5, a success at the first attempt adds 1, a success after retries returns the last retry's cost; a retry that finds too few fails now. A Retry-After of up to 1h is obeyed."
    );
}

/// Throttling has its own cost: HTTP 429, and what services call it.
#[test]
fn h17_a_retry_after_throttling_has_its_own_cost() {
    let budget = Budget { capacity: 500, cost: 14, throttling_cost: 5, ..tenth() };
    let cost = |failure: Failure| budget.cost_of(&failure);
    assert_eq!(cost(Failure::http(429, "x")), 5);
    assert_eq!(cost(Failure::new("SlowDown", "x")), 5);
    assert_eq!(cost(Failure::new("E", "x").with_lineage(["Mine", "ThrottlingException"])), 5);
    assert_eq!(cost(Failure::http(503, "x")), 14);
    assert_eq!(cost(Failure::timed_out("x")), 14);
}

/// The limits themselves make sense: a retry that takes all there is, and any one refill.
#[test]
fn c18_h17_a_retry_budget_at_its_limits() {
    let of = |first_success, refund| Budget {
        refill: Refill { ratio: Share::ZERO, first_success, refund },
        ..tenth()
    };
    assert!(of(1, false).check().is_ok() && of(0, true).check().is_ok());
    assert!(of(0, false).check().is_err());
    assert!(Budget { cost: 10, ..tenth() }.check().is_ok());
    assert!(Budget { throttling_cost: 11, ..tenth() }.check().is_err());
    assert!(Budget { throttling_cost: 0, ..tenth() }.check().is_err());
}

/// A success gives back what its retry took, a success at once what first successes give.
#[test]
fn h17_what_a_success_gives_back() {
    let refill = Refill { ratio: Share::ZERO, first_success: 1, refund: true };
    let refunds = Budget { capacity: 500, cost: 14, throttling_cost: 5, refill, ..tenth() };
    let (busy, slow) = (Failure::http(503, "x"), Failure::http(429, "x"));
    let back = |budget: &Budget, attempt, last| budget.refill_of_success(attempt, last);
    assert_eq!(back(&refunds, 1, None), 1);
    assert_eq!(back(&refunds, 2, Some(&busy)), 14);
    assert_eq!(back(&refunds, 3, Some(&slow)), 5);
    let keeps = Budget { refill: Refill { refund: false, ..refill }, ..refunds };
    assert_eq!((back(&keeps, 1, None), back(&keeps, 2, Some(&busy))), (1, 0));
}
