//! Entries that decide: whether to try again, and with which rule.

use super::checks::number;
use super::*;

/// Attempts made so far, a limit, a deadline. `attempt: -1` can't be written: attempts start at 1.
pub(crate) fn temporal_decisions(entry: &Entry) {
    let total = Nanos::from_secs(100_000);
    for case in entry.cases() {
        let Ok(attempt) = u32::try_from(case["attempt"].as_i64().unwrap()) else { continue };
        let most = case["max_attempts"].as_u64().unwrap() as u32;
        let limit = Limit::attempts(most).unwrap_or(Limit::Unlimited);
        let shape = exponential(ms(number(case, "base_ms")), number(case, "multiplier"));
        let cap = Some(ms(number(case, "cap_ms")));
        let mut parts = one_rule(Backoff { shape, jitter: Jitter::None, cap }, limit);
        parts.total_timeout = Some(total);
        let since = total.saturating_sub(ms(number(case, "expires_in_ms")));
        let expected = match case["state"].as_str().unwrap() {
            "IN_PROGRESS" => Ok(ms(number(case, "delay_ms"))),
            "TIMEOUT" => Err(GiveUp::TotalTimeout),
            _ => Err(GiveUp::Exhausted),
        };
        assert_eq!(after(&parts, &Failure::new("E", ""), attempt, since), expected, "{case}");
    }
}

fn fixed(base: f64) -> Backoff {
    Backoff { shape: Shape::Fixed { base: ms(base) }, jitter: Jitter::None, cap: None }
}

fn rule(name: &str, limit: Limit, backoff: Backoff) -> Rule {
    Rule { matcher: Matcher::named([name]), limit, backoff }
}

/// One counter for both branches (W8).
pub(crate) fn conditional_on_error(entry: &Entry) {
    let mut parts = one_rule(fixed(2_000.0), Limit::retries(1));
    parts.rules.push(rule("sentinel", Limit::Unlimited, fixed(1_000.0)));
    for case in entry.cases() {
        let failure = Failure::new(case["error"].as_str().unwrap(), "");
        let attempt = case["attempt"].as_u64().unwrap() as u32;
        let expected = case["delay_ms"].as_f64().map(ms).ok_or(GiveUp::Exhausted);
        assert_eq!(after(&parts, &failure, attempt, Nanos::ZERO), expected, "{case}");
    }
}

pub(crate) fn error_dependent(entry: &Entry) {
    let four = entry.limit();
    let mut parts = one_rule(fixed(1_000.0), four);
    parts.rules.insert(0, rule("2s", four, fixed(2_000.0)));
    parts.rules.insert(0, rule("3s", four, fixed(3_000.0)));
    let errors = ["other", "2s", "3s", "3s"];
    for ((n, peer), error) in (1..).zip(entry.delays()).zip(errors) {
        let ours = after(&parts, &Failure::new(error, ""), n, Nanos::ZERO);
        assert_eq!(ours, peer.map(|p| ms(p.0)).ok_or(GiveUp::Exhausted), "{n}");
    }
}

/// The peer's last attempt starts at the deadline itself; ours, when truncated, the reserve before.
pub(crate) fn publish_policy(entry: &Entry) {
    let mut parts = one_rule(entry.backoff(), entry.limit());
    parts.total_timeout = Some(ms(number(&entry.value, "total_deadline_ms")));
    parts.at_deadline = AtDeadline::Truncate { reserve: AtDeadline::RESERVE };
    let mut since = Nanos::ZERO;
    let peers: Vec<f64> = entry.delays().into_iter().flatten().map(|d| d.0).collect();
    for (n, peer) in (1..).zip(&peers) {
        let last = n as usize == peers.len();
        let expected = if last { ms(peer - 1_000.0) } else { ms(*peer) };
        let ours = after(&parts, &Failure::new("E", ""), n, since);
        assert_eq!(ours, Ok(expected), "retry {n}");
        since = since.saturating_add(expected);
    }
    let end = after(&parts, &Failure::new("E", ""), 14, since);
    assert_eq!(end, Err(GiveUp::TotalTimeout));
}

pub(crate) fn explicit_delay(entry: &Entry) {
    let parts = one_rule(Backoff::exponential(ms(1_000.0)), entry.limit());
    let failure = Failure::http(429, "").with_retry_after(Nanos::from_secs(50));
    for (n, peer) in (1..).zip(entry.delays()) {
        let expected = peer.map(|p| ms(p.0)).ok_or(GiveUp::Exhausted);
        assert_eq!(after(&parts, &failure, n, Nanos::ZERO), expected);
    }
}

/// The peer still starts an attempt at the very end; we don't.
pub(crate) fn total_delay(entry: &Entry) {
    let total = ms(number(&entry.value, "total_delay_ms"));
    let mut parts = one_rule(entry.backoff(), entry.limit());
    parts.total_timeout = Some(total);
    let one = |n, since| after(&parts, &Failure::new("E", ""), n, ms(since));
    assert_eq!(one(1, 0.0), Ok(ms(1_000.0)));
    assert_eq!(one(2, 1_000.0), Ok(ms(1_000.0)));
    assert_eq!(one(3, 2_000.0), Err(GiveUp::TotalTimeout));
    parts.total_timeout = Some(total.saturating_add(Nanos::new(1)));
    let later = after(&parts, &Failure::new("E", ""), 3, ms(2_000.0));
    assert_eq!(later, Ok(ms(1_000.0)));
}

/// A failure as the vectors write it: an error's code, an exception's type or a status.
fn failure(case: &Value) -> Failure {
    match (case["code"].as_str().or(case["kind"].as_str()), case["exception"].as_str()) {
        (Some("ServerError"), _) => Failure::http(500, ""),
        (Some(code), _) => Failure::new(code, ""),
        (None, Some(kind)) => Failure::exception(kind, "", &[]),
        (None, None) => Failure::http(case["status"].as_u64().unwrap_or(500) as u16, ""),
    }
}

/// Which errors `aws-standard-2.1` takes for throttling, and which for transient.
pub(crate) fn aws_classes(entry: &Entry) {
    let policy = Preset::AwsStandard21.policy();
    for case in entry.cases() {
        let failure = failure(case);
        if let Some(throttling) = case["throttle"].as_bool() {
            assert_eq!(failure.is_throttling(), throttling, "{case}");
        }
        if let Some(transient) = case["transient"].as_bool() {
            let retried = policy.rule_for(&failure).is_some();
            assert_eq!(retried && !failure.is_throttling(), transient, "{case}");
        }
    }
}

/// What a retry takes from the bucket, and what comes back, under mode 2.1.
pub(crate) fn aws_costs(entry: &Entry) {
    let policy = Preset::AwsStandard21.policy();
    let budget = policy.budget().unwrap();
    let modern = |case: &&Value| case["mode"] != "2.0";
    for case in entry.cases().iter().filter(modern) {
        let given = match case["error"].as_str() {
            Some("throttling") => budget.cost_of(&Failure::new("Throttling", "")),
            Some("timeout") => budget.cost_of(&Failure::timeout(ms(1.0))),
            Some(_) => budget.cost_of(&Failure::http(500, "")),
            None => continue,
        };
        assert_eq!(Some(u64::from(given)), case["cost"].as_u64(), "{case}");
    }
    let said = |event: &str| entry.cases().iter().find(|c| c["event"] == event).unwrap();
    assert_eq!(said("first-try success")["refund"], budget.refill.first_success);
    assert!(said("retry then success")["refund"] == "the cost" && budget.refill.refund);
}

/// The peer's chance is at its most. It caps a server's delay at 5 s above its own; we do not.
pub(crate) fn aws_delays(entry: &Entry) {
    let policy = Preset::AwsStandard21.policy();
    let start = Timestamp::from_nanos(1);
    for case in entry.cases().iter().filter(|c| c["spec"] == "2.1") {
        let asked = case["retry_after_ms"].as_f64().map(ms);
        let failure = asked.map_or(failure(case), |wait| failure(case).with_retry_after(wait));
        let (attempt, by_rule) = (1, [].as_slice());
        let used = Used {
            attempt,
            idempotent: true,
            timeout_retries: 0,
            by_rule,
            previous: None,
            first_started: start,
        };
        let verdict = policy.verdict(&failure, &used, start, u64::MAX, &Functions::default());
        let Verdict::Retry { delay, .. } = verdict else { panic!("{case}: {verdict:?}") };
        let peers = ms(number(case, "delay_ms"));
        assert_eq!(delay, asked.map_or(peers, |wait| wait.max(peers.min(ms(50.0)))), "{case}");
    }
}

/// A range of statuses, and what a method that is not idempotent does after a timeout. Lists of
/// methods are no part of a policy of ours.
pub(crate) fn statuses_and_methods(entry: &Entry) {
    for case in entry.cases() {
        let retried = case["retry"].as_bool().unwrap();
        match (case["forcelist"].as_str(), case["error"].as_str(), case["allowed"].is_null()) {
            (Some(range), ..) => assert_eq!(failure(case).is_a(range), retried, "{case}"),
            (_, Some("ReadTimeout"), _) => {
                let parts = one_rule(Backoff::exponential(ms(1.0)), Limit::retries(1));
                let policy = Policy::try_from(parts).unwrap();
                let timeout = Failure::timed_out("read").with_unknown_outcome();
                let start = Timestamp::from_nanos(1);
                let used = Used {
                    attempt: 1,
                    idempotent: false,
                    timeout_retries: 0,
                    by_rule: &[],
                    previous: None,
                    first_started: start,
                };
                let verdict = policy.verdict(&timeout, &used, start, 0, &Functions::default());
                assert_eq!(verdict, Verdict::GiveUp(GiveUp::OutcomeUnknown));
            }
            (None, None, true) => {
                let usual = retrial_core::policy::ActionKind::ToolCall.built_in();
                assert_eq!(usual.rule_for(&failure(case)).is_some(), retried, "{case}");
            }
            _ => {}
        }
    }
}
