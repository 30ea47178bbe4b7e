//! Whether and when to try again: rows W8, W10, R11, R12, C12, H5, spec decisions 5, 7, 8, 10, 12.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::failure::{ErrorCode, Failure};
use retrial_core::policy::{
    Backoff, Dialect, Functions, GiveUp, Jitter, Limit, Matcher, Policy, PolicyParts, Rule, Shape,
    Used, Verdict,
};
use retrial_core::time::{Nanos, Timestamp};

const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn rule(names: &[&str], limit: Limit, delay_ms: u64) -> Rule {
    let backoff =
        Backoff { shape: Shape::Fixed { base: ms(delay_ms) }, jitter: Jitter::None, cap: None };
    Rule { matcher: Matcher::named(names.iter().copied()), limit, backoff }
}

fn policy(rules: Vec<Rule>, set: impl FnOnce(&mut PolicyParts)) -> Policy {
    let mut parts = PolicyParts::new(Dialect::Builder);
    parts.rules = rules;
    set(&mut parts);
    Policy::try_from(parts).unwrap()
}

fn used(attempt: u32) -> Used<'static> {
    Used {
        attempt,
        idempotent: true,
        timeout_retries: 0,
        by_rule: &[],
        previous: None,
        first_started: START,
    }
}

fn verdict(policy: &Policy, failure: &Failure, used: Used<'_>, elapsed_ms: u64) -> Verdict {
    let now = START.after(ms(elapsed_ms));
    without_rule(policy.verdict(failure, &used, now, 0, &Functions::default()))
}

/// Which rule governs is only told where each has its own count.
fn without_rule(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Retry { delay, backoff, .. } => Verdict::Retry { delay, backoff, rule: 0 },
        given_up => given_up,
    }
}

fn retry(delay_ms: u64) -> Verdict {
    Verdict::Retry { delay: ms(delay_ms), backoff: ms(delay_ms), rule: 0 }
}

/// Retry iff `attempt - 1 < max_retries`.
#[test]
fn w8_attempts_are_counted_from_one() {
    for retries in 0..4_u32 {
        let policy = policy(vec![rule(&[], Limit::retries(retries), 5)], |_| {});
        for attempt in 1..6 {
            let expected = match attempt - 1 < retries {
                true => retry(5),
                false => Verdict::GiveUp(GiveUp::Exhausted),
            };
            assert_eq!(verdict(&policy, &Failure::new("E", "x"), used(attempt), 0), expected);
        }
    }
}

/// Decision 5: the rule with the most attempts gives limit and backoff; on a tie the first.
#[test]
fn w8_decision_5_the_largest_of_the_matching_rules_governs() {
    let rules = vec![
        rule(&["A"], Limit::retries(2), 1),
        rule(&[], Limit::retries(5), 2),
        rule(&["B"], Limit::retries(5), 3),
        rule(&["C"], Limit::Unlimited, 20),
    ];
    let policy = policy(rules, |_| {});
    let check = |code: &str, attempt: u32, expected: Verdict| {
        let failure = Failure::new(code, "x");
        assert_eq!(verdict(&policy, &failure, used(attempt), 0), expected, "{code} {attempt}");
    };
    check("A", 3, retry(2));
    check("B", 1, retry(2));
    check("B", 6, Verdict::GiveUp(GiveUp::Exhausted));
    check("C", u32::MAX, retry(20));
}

#[test]
fn r12_a_failure_that_matches_no_rule_is_not_retried() {
    let policy = policy(vec![rule(&["A"], Limit::retries(9), 1)], |_| {});
    let verdict = verdict(&policy, &Failure::http(503, "x"), used(1), 0);
    assert_eq!(verdict, Verdict::GiveUp(GiveUp::NotRetryable));
}

#[test]
fn w2_h4_names_match_along_the_lineage() {
    let matches = |name: &str, failure: &Failure| {
        policy(vec![rule(&[name], Limit::retries(1), 0)], |_| {}).rule_for(failure).is_some()
    };
    let refused = Failure::network(retrial_core::failure::NetworkFault::Refused, "x");
    for name in ["NETWORK_ERROR", "ConnectionRefusedError", "ConnectionError", "NetworkError"] {
        assert!(matches(name, &refused), "{name}");
    }
    assert!(!matches("ConnectionResetError", &refused));
    assert!(!matches("Connection", &refused));
}

#[test]
fn r11_timeouts_have_their_own_bound() {
    let policy = policy(vec![rule(&[], Limit::retries(9), 1)], |p| p.timeout_retries = Some(2));
    let after = |timeout_retries, failure: &Failure| {
        verdict(&policy, failure, Used { timeout_retries, ..used(3) }, 0)
    };
    assert_eq!(after(1, &Failure::timeout(ms(1))), retry(1));
    assert_eq!(after(2, &Failure::timeout(ms(1))), Verdict::GiveUp(GiveUp::TimeoutBudget));
    assert_eq!(after(2, &Failure::new("E", "x")), retry(1));
}

/// Decision 7: it raises the delay, never lowers it, also above the cap, up to `max_retry_after`.
#[test]
fn c12_decision_7_retry_after() {
    let mut capped = rule(&[], Limit::retries(9), 100);
    capped.backoff.cap = Some(ms(200));
    let policy = policy(vec![capped], |p| {
        p.max_retry_after = ms(1_000);
        p.total_timeout = Some(ms(5_000));
    });
    let check = |asked: Nanos, elapsed: u64, expected: Verdict| {
        let failure = Failure::http(429, "x").with_retry_after(asked);
        assert_eq!(verdict(&policy, &failure, used(1), elapsed), expected, "{asked} {elapsed}");
    };
    let raised = |delay: u64| Verdict::Retry { delay: ms(delay), backoff: ms(100), rule: 0 };
    check(ms(0), 0, raised(100));
    check(ms(50), 0, raised(100));
    check(ms(700), 0, raised(700));
    check(ms(1_000), 0, raised(1_000));
    check(Nanos::new(1_000_000_001), 0, Verdict::GiveUp(GiveUp::RetryAfter));
    check(Nanos::MAX, 0, Verdict::GiveUp(GiveUp::RetryAfter));
    check(ms(700), 4_500, Verdict::GiveUp(GiveUp::TotalTimeout));
}

/// Decision 8: no attempt starts at or after the total timeout.
#[test]
fn h5_decision_8_the_total_timeout_counts_from_the_first_start() {
    let policy = policy(vec![rule(&[], Limit::retries(9), 100)], |p| {
        p.total_timeout = Some(ms(1_000));
    });
    let at = |elapsed| verdict(&policy, &Failure::new("E", "x"), used(1), elapsed);
    assert_eq!(at(899), retry(100));
    assert_eq!(at(900), Verdict::GiveUp(GiveUp::TotalTimeout));
    assert_eq!(at(u64::MAX), Verdict::GiveUp(GiveUp::TotalTimeout));
    assert_eq!(policy.deadline(START), Some(START.after(ms(1_000))));
}

/// Decision 10: refused at load when the text's own delay is zero, else raised to 10 ms.
#[test]
fn decision_10_unlimited_retries_are_never_tight() {
    let parts = |delay_ms, jitter| {
        let mut parts = PolicyParts::new(Dialect::WorkConfig);
        parts.rules = vec![rule(&[], Limit::Unlimited, delay_ms)];
        parts.rules[0].backoff.jitter = jitter;
        parts
    };
    assert!(Policy::try_from(parts(0, Jitter::None)).is_err());
    assert!(Policy::try_from(parts(0, Jitter::Full)).is_err());
    let drawn = Policy::try_from(parts(500, Jitter::Full)).unwrap();
    // Chance 0 draws the least, which full jitter puts at zero.
    assert_eq!(verdict(&drawn, &Failure::new("E", "x"), used(1), 0), retry(10));
}

/// Decision 12: without a matching rule the largest limit and that rule's backoff apply.
#[test]
fn decision_12_lost_leases_fall_to_the_largest_limit() {
    let rules = vec![rule(&["A"], Limit::retries(2), 1), rule(&["B"], Limit::retries(4), 7)];
    let policy = policy(rules, |_| {});
    let check = |attempt, expected| {
        assert_eq!(verdict(&policy, &Failure::lease_lost(), used(attempt), 0), expected);
    };
    check(4, retry(7));
    check(5, Verdict::GiveUp(GiveUp::Exhausted));
    let named = Rule { limit: Limit::retries(1), ..rule(&[ErrorCode::LEASE_LOST], Limit::ONE, 3) };
    let own = self::policy(vec![rule(&["B"], Limit::retries(4), 7), named], |_| {});
    assert_eq!(verdict(&own, &Failure::lease_lost(), used(1), 0), retry(3));
    let off = Policy::no_retries(Dialect::Ir);
    let given = verdict(&off, &Failure::lease_lost(), used(1), 0);
    assert_eq!(given, Verdict::GiveUp(GiveUp::NotRetryable));
}

#[test]
fn decision_4_decorrelated_draws_start_from_the_one_before() {
    let mut chained = rule(&[], Limit::retries(9), 100);
    chained.backoff.jitter = Jitter::Decorrelated;
    let policy = policy(vec![chained], |_| {});
    let most = |previous| {
        let used = Used { previous, ..used(2) };
        let now = START;
        let failure = Failure::new("E", "x");
        without_rule(policy.verdict(&failure, &used, now, u64::MAX, &Functions::default()))
    };
    assert_eq!(most(None), retry(300));
    assert_eq!(most(Some(ms(300))), retry(900));
}

/// Spec decision 7: an endpoint that asks for more than is obeyed ends it, unless the policy itself
/// would wait as long.
#[test]
fn decision_7_a_wait_that_the_policy_would_make_anyway_is_made() {
    let slow = policy(vec![rule(&[], Limit::attempts(3).unwrap(), 5_000)], |p| {
        p.max_retry_after = ms(1_000);
    });
    let after = |asked| Failure::http(503, "x").with_retry_after(ms(asked));
    assert_eq!(verdict(&slow, &after(5_000), used(1), 0), retry(5_000));
    assert_eq!(verdict(&slow, &after(4_000), used(1), 0), retry(5_000));
    assert_eq!(verdict(&slow, &after(5_001), used(1), 0), Verdict::GiveUp(GiveUp::RetryAfter));
}
