//! Which policy a task gets, and the builder: rows H7, H8, W16, R2 to R4.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::failure::Failure;
use retrial_core::policy::{
    ActionKind, Backoff, Defaults, Dialect, Jitter, Limit, Origin, Policy, Share,
};
use retrial_core::time::Nanos;

fn attempts(n: u32) -> Policy {
    Policy::builder().attempts(n).build().unwrap()
}

#[test]
fn h7_the_most_specific_wins_whole() {
    let by_action = [("ask".to_owned(), attempts(3))].into();
    let by_kind = [(ActionKind::LlmCall, attempts(4))].into();
    let all = Defaults { by_action, by_kind, global: Some(attempts(5)) };
    let check =
        |own: Option<Policy>, action: &str, kind: ActionKind, origin: Origin, count: u32| {
            let (policy, from) = all.resolve(own, action, kind);
            assert_eq!((from, policy.limit().count()), (origin, Some(count)));
        };
    check(Some(attempts(2)), "ask", ActionKind::LlmCall, Origin::Task, 2);
    check(None, "ask", ActionKind::LlmCall, Origin::Action, 3);
    check(None, "other", ActionKind::LlmCall, Origin::Kind, 4);
    check(None, "other", ActionKind::ToolCall, Origin::Global, 5);
    let (policy, from) = Defaults::default().resolve(None, "ask", ActionKind::ToolCall);
    assert_eq!((from, policy.limit().count()), (Origin::BuiltIn, Some(3)));
}

/// A winner that is disabled means no retries; nothing is merged from below.
#[test]
fn h7_a_disabled_winner_retries_nothing() {
    let defaults = Defaults { global: Some(attempts(5)), ..Defaults::default() };
    let off = Policy::no_retries(Dialect::RetryConfig);
    let (policy, _) = defaults.resolve(Some(off), "ask", ActionKind::ToolCall);
    assert!(policy.rule_for(&Failure::http(503, "x")).is_none());
}

#[test]
fn h8_built_in() {
    for kind in [ActionKind::ToolCall, ActionKind::LlmCall] {
        let policy = kind.built_in();
        let expected = Backoff::exponential(Nanos::from_secs(1))
            .with_cap(Nanos::from_secs(30))
            .with_jitter(Jitter::Proportional(Share::QUARTER));
        assert_eq!(policy.limit().count(), Some(3));
        assert_eq!(policy.rules()[0].backoff, expected);
        assert!(policy.rule_for(&Failure::http(429, "x")).is_some());
        assert!(policy.rule_for(&Failure::exception("KeyError", "x", &[])).is_none());
    }
    assert_eq!(ActionKind::AgentCall.built_in().limit(), Limit::ONE);
    assert!(ActionKind::AgentCall.built_in().rule_for(&Failure::http(503, "x")).is_none());
}

/// `attempts = 3` is `retry: 2`.
#[test]
fn w16_r2_decision_1_the_builder_counts_the_first_try() {
    assert_eq!(attempts(3).limit(), Limit::retries(2));
}

#[test]
fn r3_no_exception_types_catch_all() {
    let none: [&str; 0] = [];
    let all = Policy::builder().attempts(2).exception_types(none).build().unwrap();
    let named = Policy::builder().attempts(2).exception_types(["A"]).build().unwrap();
    let failure = Failure::new("B", "x");
    assert!(all.rule_for(&failure).is_some() && attempts(2).rule_for(&failure).is_some());
    assert!(named.rule_for(&failure).is_none());
}

#[test]
fn r4_the_timeout_is_per_attempt() {
    let policy =
        Policy::builder().attempt_timeout(std::time::Duration::from_millis(1500)).build().unwrap();
    assert_eq!(policy.attempt_timeout(), Some(Nanos::from_millis(1500)));
    assert_eq!(policy.total_timeout(), None);
}

#[test]
fn w4_the_builder_takes_several_rules() {
    let policy = Policy::builder()
        .attempts(2)
        .exception_types(["A"])
        .attempt_timeout(Nanos::from_secs(1))
        .or()
        .attempts(5)
        .exception_types(["B"])
        .build()
        .unwrap();
    let limits: Vec<_> = policy.rules().iter().map(|r| r.limit.count()).collect();
    assert_eq!(limits, [Some(2), Some(5)]);
    assert_eq!(policy.attempt_timeout(), Some(Nanos::from_secs(1)));
}
