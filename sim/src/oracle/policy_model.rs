//! A naive model of policies: which rule applies to a failure, how long the delay is, when retries
//! end. Wide integers, no optimisation. Where the specification leaves a rounding open, it gives a
//! range.

use retrial::failure::{Class, Failure};
use retrial::policy::{
    AtDeadline, Backoff, Counting, Dialect, GiveUp, Jitter, Limit, Matcher, Policy, Rule, Scope,
    Shape,
};
use retrial::time::{Nanos, Timestamp};

/// The longest representable time.
const TOP: u128 = u64::MAX as u128;
const MILLION: u128 = 1_000_000;
pub(super) const FLOOR: u128 = 10_000_000;

/// The delays that are right, in nanoseconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The shortest.
    pub low: u128,
    /// The longest.
    pub high: u128,
}

impl Delays {
    pub(super) fn holds(self, delay: Nanos) -> bool {
        (self.low..=self.high).contains(&u128::from(delay.get()))
    }
}

/// The policy's attempts in all: the most that any rule allows, one without rules; `None` is
/// unlimited. Where each rule has its own count, the first attempt and every
/// rule's retries, up to the total.
pub(super) fn limit(policy: &Policy) -> Option<u32> {
    let mut rules = policy.rules().iter().map(|r| r.limit.count());
    match policy.counting() {
        Counting::Shared => rules.try_fold(1, |most, n| Some(most.max(n?))),
        Counting::PerRule { total } => {
            let sum = rules.try_fold(1_u32, |sum, n| Some(sum.saturating_add(n? - 1)));
            match (sum, total.count()) {
                (Some(sum), Some(total)) => Some(sum.min(total)),
                (sum, total) => sum.or(total),
            }
        }
    }
}

/// The rule that a failure falls to: of the matching ones the one with the most attempts, the first
/// in the text on a tie; for a lost lease that none matches, the one with the
/// most attempts of all.
pub(super) fn rule<'p>(policy: &'p Policy, failure: &Failure) -> Option<(usize, &'p Rule)> {
    // A precondition does not hold: no policy asks for a retry.
    if failure.code().as_str() == "PRECONDITION_FAILED" {
        return None;
    }
    let class = class(policy, failure);
    let all = || policy.rules().iter().enumerate();
    let matching: Vec<(usize, &Rule)> =
        all().filter(|(_, r)| matches(&r.matcher, failure, class)).collect();
    if matching.is_empty() && failure.code().as_str() == "LEASE_LOST" {
        return largest(all().collect());
    }
    largest(matching)
}

fn largest(rules: Vec<(usize, &Rule)>) -> Option<(usize, &Rule)> {
    let size = |r: &Rule| r.limit.count().map_or(u64::MAX, u64::from);
    let most = rules.iter().map(|(_, r)| size(r)).max()?;
    rules.into_iter().find(|(_, r)| size(r) == most)
}

/// The attempts that count against the rule at `place`: all, or the first and the retries that the
/// rule itself caused, given the places of the rules that caused the task's retries so far.
pub(super) fn counted(policy: &Policy, place: usize, attempt: u32, causes: &[usize]) -> u32 {
    match policy.counting() {
        Counting::Shared => attempt,
        Counting::PerRule { .. } => {
            let own = causes.iter().filter(|cause| **cause == place).count();
            u32::try_from(own).unwrap_or(u32::MAX).saturating_add(1)
        }
    }
}

/// The instant at which a truncated last attempt starts: one attempt timeout before the deadline,
/// without one the reserve. `None` where delays are not truncated.
pub(super) fn last_start(policy: &Policy, deadline: Timestamp) -> Option<u128> {
    let AtDeadline::Truncate { reserve } = policy.at_deadline() else { return None };
    let before = policy.attempt_timeout().unwrap_or(reserve);
    u128::from(deadline.as_nanos()).checked_sub(u128::from(before.get()))
}

/// Whether a failure matches `name`: its code, its type or an ancestor, or the HTTP statuses that a
/// name such as `5xx` or `500-599` means.
pub(super) fn answers_to(failure: &Failure, name: &str) -> bool {
    let code = failure.code().as_str();
    let own = code == name || failure.lineage().iter().any(|t| t == name);
    own || code.len() == 3 && code.parse().is_ok_and(|status| among(status, name))
}

fn among(status: u32, name: &str) -> bool {
    let ends: Vec<Option<u32>> = match name.as_bytes() {
        [hundreds @ b'1'..=b'5', b'x', b'x'] | [hundreds @ b'1'..=b'5', b'X', b'X'] => {
            return status / 100 == u32::from(hundreds - b'0');
        }
        _ => name.split('-').map(|end| end.parse().ok()).collect(),
    };
    matches!(ends[..], [Some(low), Some(high)] if (low..=high).contains(&status))
}

fn matches(matcher: &Matcher, failure: &Failure, class: Class) -> bool {
    let named =
        |names: &std::collections::BTreeSet<String>| names.iter().any(|n| answers_to(failure, n));
    // Exclusions come first.
    if named(&matcher.except) {
        return false;
    }
    match &matcher.scope {
        Scope::Any => true,
        Scope::Names(names) => named(names),
        Scope::Retryable(names) => class == Class::Retryable || named(names),
    }
}

/// The class under the policy: 408 and 429 are retryable in `work_config` only when it names them
///.
pub(super) fn class(policy: &Policy, failure: &Failure) -> Class {
    let contested = ["408", "429"].contains(&failure.code().as_str());
    if policy.dialect() != Dialect::WorkConfig || !contested {
        return failure.class();
    }
    let names = |r: &Rule| match &r.matcher.scope {
        Scope::Any => false,
        Scope::Retryable(names) | Scope::Names(names) => {
            names.iter().any(|n| answers_to(failure, n))
        }
    };
    if policy.rules().iter().any(names) { Class::Retryable } else { Class::Permanent }
}

/// The delays that are right before retry `n` (from 1) under `rule`, after a retry that waited
/// `previous`; `None` for a custom function that the model does not know (spec decisions 2 to 4,
/// 10).
#[must_use]
pub fn delays(rule: &Rule, n: u32, previous: Option<Nanos>) -> Option<Delays> {
    let drawn = spread(&rule.backoff, n, previous)?;
    if rule.limit != Limit::Unlimited {
        return Some(drawn);
    }
    // A delay that is written down needs no raising, but raising it does no harm.
    let custom = matches!(rule.backoff.shape, Shape::Custom { .. });
    let written = rule.backoff.jitter == Jitter::None && !custom;
    let low = if written { drawn.low } else { drawn.low.max(FLOOR) };
    Some(Delays { low, high: drawn.high.max(FLOOR) })
}

fn spread(backoff: &Backoff, n: u32, previous: Option<Nanos>) -> Option<Delays> {
    let cap = backoff.cap.map_or(TOP, |c| u128::from(c.get()));
    let Delays { low, high } = capped(&backoff.shape, n, cap)?;
    Some(match backoff.jitter {
        Jitter::None => Delays { low, high },
        Jitter::Proportional(share) => {
            let part = |d: u128| (d * u128::from(share.millionths())).div_ceil(MILLION);
            Delays { low: low.saturating_sub(part(low)), high: (high + part(high)).min(cap) }
        }
        Jitter::Full => Delays { low: 0, high },
        Jitter::Equal => Delays { low: low / 2, high },
        Jitter::Decorrelated => {
            let base = capped(&backoff.shape, 1, cap)?;
            let from = previous.map_or(base.high, |p| u128::from(p.get()));
            Delays { low: base.low, high: (3 * from).min(cap).max(base.high) }
        }
    })
}

fn capped(shape: &Shape, n: u32, cap: u128) -> Option<Delays> {
    let raw = nominal(shape, n)?;
    Some(Delays { low: raw.low.min(cap), high: raw.high.min(cap) })
}

/// The shape's value before retry `n`, before cap and jitter.
fn nominal(shape: &Shape, n: u32) -> Option<Delays> {
    let exact = |d: u128| Delays { low: d.min(TOP), high: d.min(TOP) };
    let wide = |d: &Nanos| u128::from(d.get());
    Some(match shape {
        Shape::None => exact(0),
        Shape::Fixed { base } => exact(wide(base)),
        Shape::Linear { base, step } => exact(wide(base) + wide(step) * u128::from(n - 1)),
        Shape::Exponential { base, multiplier } => {
            grown(wide(base), u128::from(multiplier.millionths()), n - 1)
        }
        Shape::Fibonacci { base } => exact(wide(base).saturating_mul(fibonacci(n))),
        // `base * n^degree`.
        Shape::Polynomial { base, degree } => {
            let times = (0..*degree).fold(1_u128, |t, _| t.saturating_mul(u128::from(n)).min(TOP));
            exact(wide(base) * times)
        }
        // Past its end a list stays at the last.
        Shape::List { delays } => {
            let delays = delays.as_slice();
            let at = (n as usize - 1).min(delays.len().saturating_sub(1));
            exact(delays.get(at).map_or(0, wide))
        }
        Shape::Custom { name } => exact(MILLION * custom(name, u128::from(n))?),
    })
}

/// The simulation's own functions, in milliseconds.
fn custom(name: &str, n: u128) -> Option<u128> {
    Some(match (name, n) {
        ("squares", n) => 15 * n * n,
        ("zigzag", n) => [20, 300][(n % 2) as usize],
        ("late", 1 | 2) => 0,
        ("late", _) => 400,
        _ => return None,
    })
}

/// `base * (millionths / 1,000,000)^times`, rounded down at every step and rounded up at every
/// step.
fn grown(base: u128, millionths: u128, times: u32) -> Delays {
    let (mut low, mut high) = (base, base);
    for _ in 0..times {
        let next = ((low * millionths / MILLION).min(TOP), (high * millionths).div_ceil(MILLION));
        let next = (next.0, next.1.min(TOP));
        if next == (low, high) {
            break;
        }
        (low, high) = next;
    }
    Delays { low, high }
}

fn fibonacci(n: u32) -> u128 {
    let mut numbers = vec![1_u128, 1];
    while numbers.len() < (n as usize).min(200) {
        let next = numbers[numbers.len() - 1].saturating_add(numbers[numbers.len() - 2]);
        numbers.push(next);
    }
    numbers[(n as usize).min(200) - 1]
}

/// The attempts and time that a task had used up when an attempt failed.
pub(super) struct UsedUp<'t> {
    pub(super) attempt: u32,
    pub(super) at: Timestamp,
    pub(super) timeout_retries: u32,
    /// Whether the action's declaration says that running it twice does harm.
    pub(super) harmful: bool,
    /// Whether the outcome of the attempt is unknown.
    pub(super) unknown: Unknown,
    /// The places of the rules that caused its retries.
    pub(super) causes: &'t [usize],
    pub(super) previous: Option<Nanos>,
    /// The end of the total timeout.
    pub(super) deadline: Option<Timestamp>,
}

/// Whether the outcome of an attempt is unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    pub(super) surely: bool,
    pub(super) possibly: bool,
}

/// The model's answer about a retry.
#[derive(Debug)]
pub(super) struct ModelVerdict {
    /// Whether no draw of chance allows another attempt.
    pub(super) must_stop: bool,
    /// The reasons that justify stopping; empty when it must go on.
    pub(super) reasons: Vec<GiveUp>,
}

/// It is where its lease was lost, where it ran out of time, or where its answer was cut off and
/// the request had `arrived` at the endpoint. A request that never left, and an answer that could
/// be read, are known.
pub(super) fn unknown(failure: &Failure, arrived: bool) -> Unknown {
    let is = |name| answers_to(failure, name);
    let (surely, possibly) = match failure.code().as_str() {
        "LEASE_LOST" | "HEARTBEAT_TIMEOUT" => (true, true),
        "TIMEOUT" => (arrived, true),
        "NETWORK_ERROR" if is("ConnectionRefusedError") || is("DnsError") => (false, false),
        "NETWORK_ERROR" => (arrived, true),
        "BAD_RESPONSE" => (true, true),
        _ => (false, false),
    };
    Unknown { surely, possibly }
}

/// Whether to try again after `failure`; `None` where a custom function decides.
pub(super) fn ruling(policy: &Policy, failure: &Failure, s: &UsedUp<'_>) -> Option<ModelVerdict> {
    let mut ruling = ModelVerdict { must_stop: false, reasons: Vec::new() };
    let found = rule(policy, failure);
    let count = found.map_or(1, |(at, _)| counted(policy, at, s.attempt.max(1), s.causes));
    let wait = match found {
        Some((_, rule)) => delays(rule, count, s.previous)?,
        None => Delays { low: 0, high: 0 },
    };
    ruling.add(found.is_none(), found.is_none(), GiveUp::NotRetryable);
    let own = found.and_then(|(_, r)| r.limit.count()).is_some_and(|most| count >= most);
    let in_all = found.is_some() && limit(policy).is_some_and(|most| s.attempt >= most);
    let used_up = own || in_all;
    ruling.add(used_up, used_up, GiveUp::Exhausted);
    let bars = found.is_some() && s.harmful && !policy.retries_unknown_outcome();
    ruling.add(bars && s.unknown.surely, bars && s.unknown.possibly, GiveUp::OutcomeUnknown);
    // A missed heartbeat is a timeout too.
    let spent = ["TIMEOUT", "HEARTBEAT_TIMEOUT"].contains(&failure.code().as_str())
        && policy.timeout_retries().is_some_and(|most| s.timeout_retries >= most);
    ruling.add(spent, spent, GiveUp::TimeoutBudget);
    let asked = u128::from(failure.retry_after().unwrap_or(Nanos::ZERO).get());
    let too_long = asked > u128::from(policy.max_retry_after().get());
    ruling.add(too_long && asked > wait.high, too_long && asked > wait.low, GiveUp::RetryAfter);
    let now = u128::from(s.at.as_nanos());
    let late = |delay: u128| {
        let start = now + delay.max(asked);
        let Some(end) = s.deadline.filter(|end| start >= u128::from(end.as_nanos())) else {
            return false;
        };
        // Truncated, unless that instant has come, or the endpoint asked to be left alone so long.
        last_start(policy, end).is_none_or(|last| last <= now || last < now + asked)
    };
    ruling.add(late(wait.low), late(wait.high), GiveUp::TotalTimeout);
    Some(ruling)
}

impl ModelVerdict {
    fn add(&mut self, surely: bool, possibly: bool, reason: GiveUp) {
        self.must_stop |= surely;
        if possibly {
            self.reasons.push(reason);
        }
    }
}
