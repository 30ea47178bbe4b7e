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
