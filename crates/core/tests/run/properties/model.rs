//! What the specification says of one task, computed naively: plain big arithmetic over the
//! policy's text. Shares no decision code with the engine.

use retrial_core::failure::{Class, Failure};
use retrial_core::policy::{
    AtDeadline, Counting, Dialect, GiveUp, Jitter, Limit, Matcher, Policy, Rule, Scope, Shape,
};

use super::draw;

/// The largest representable length, in nanoseconds (Decision 4).
const MOST: u128 = u64::MAX as u128;
/// Decision 10.
const TIGHTEST: u128 = 10_000_000;

/// What a failed attempt may lead to.
#[derive(Debug)]
pub(crate) struct Expected {
    /// No rule matches (R12).
    unmatched: bool,
    /// W8.
    exhausted: bool,
    /// C18, H17: it may have taken effect, and must not twice.
    harmful: bool,
    /// R11.
    budget: bool,
    /// Decision 4: the least and most that the backoff may be.
    low: u128,
    high: u128,
    /// Decision 7.
    asked: u128,
    obeyed: u128,
    /// From now until the total timeout (Decision 8).
    left: Option<u128>,
    /// From now until a truncated last attempt starts (X5); none where that is now or past.
    last: Option<u128>,
    /// The rule that governs, by its place.
    place: Option<usize>,
}

/// What a task has been through, by its events alone.
pub(crate) struct Past<'t> {
    /// The attempt that failed.
    pub(crate) attempt: u32,
    /// Retries caused by timeouts.
    pub(crate) timeouts: u32,
    /// Whether the action's declaration says that running it twice does harm.
    pub(crate) harmful: bool,
    /// For each retry so far, the place of the rule that caused it.
    pub(crate) causes: &'t [usize],
    /// The last backoff.
    pub(crate) previous: Option<u64>,
    /// When the first attempt started, and now.
    pub(crate) first: u64,
    pub(crate) now: u64,
}

pub(crate) fn expected(policy: &Policy, failure: &Failure, past: &Past<'_>) -> Expected {
    let mut found = Expected {
        unmatched: true,
        exhausted: false,
        harmful: false,
        budget: false,
        low: 0,
        high: 0,
        asked: failure.retry_after().map_or(0, |n| u128::from(n.get())),
        obeyed: u128::from(policy.max_retry_after().get()),
        left: policy.total_timeout().map(|total| {
            let end = (u128::from(past.first) + u128::from(total.get())).min(MOST);
            end.saturating_sub(u128::from(past.now))
        }),
        last: None,
        place: None,
    };
    let Some((place, rule)) = rule(policy, failure) else { return found };
    found.unmatched = false;
    found.place = Some(place);
    // X4: the retries made, or those that this rule made.
    let own = past.causes.iter().filter(|cause| **cause == place).count();
    let own = u32::try_from(own).unwrap_or(u32::MAX);
    let (made, in_all) = match policy.counting() {
        Counting::Shared => (past.attempt - 1, None),
        Counting::PerRule { total } => (own, Some(total)),
    };
    let used_up = |limit: Limit, made: u32| match limit {
        // Retried if and only if the retries made are fewer than those allowed.
        Limit::Attempts(most) => made >= most.get() - 1,
        Limit::Unlimited => false,
    };
    found.exhausted =
        used_up(rule.limit, made) || in_all.is_some_and(|total| used_up(total, past.attempt - 1));
    // X5: the last attempt starts one attempt timeout before the end, without one the reserve.
    if let (Some(left), AtDeadline::Truncate { reserve }) = (found.left, policy.at_deadline()) {
        let before = policy.attempt_timeout().unwrap_or(reserve);
        found.last = left.checked_sub(u128::from(before.get())).filter(|n| *n > 0);
    }
    found.harmful = past.harmful && !policy.retries_unknown_outcome() && unknown(failure);
    let timed_out = failure.code().as_str() == "TIMEOUT";
    found.budget = timed_out && policy.timeout_retries().is_some_and(|n| past.timeouts >= n);
    (found.low, found.high) = range(rule, made + 1, past.previous);
    found
}

impl Expected {
    fn crosses(&self, now: u64, backoff: u128) -> bool {
        let wait = backoff.max(self.asked).min(MOST - u128::from(now));
        self.left.is_some_and(|left| wait >= left)
    }

    /// Checks a retry after `delay`, of which `backoff` is the policy's own.
    pub(crate) fn check_retry(&self, now: u64, delay: u64, backoff: u64) -> Result<(), String> {
        let (delay, backoff) = (u128::from(delay), u128::from(backoff));
        let refused = self.asked > self.obeyed && self.asked > backoff;
        if self.unmatched || self.exhausted || self.harmful || self.budget || refused {
            return Err(format!("retried where it may not: {self:?}"));
        }
        if backoff < self.low || backoff > self.high {
            return Err(format!("backoff {backoff} is out of its range: {self:?}"));
        }
        if self.crosses(now, backoff) {
            // The only way on is a delay cut short, and never below what was asked for.
            let cut = self.last.filter(|last| *last >= self.asked);
            return match cut {
                Some(last) if last == delay => Ok(()),
                _ => Err(format!("delay {delay} crosses the total timeout: {self:?}")),
            };
        }
        if delay != backoff.max(self.asked) {
            return Err(format!(
                "delay {delay} is not the backoff raised by Retry-After: {self:?}"
            ));
        }
        Ok(())
    }

    /// Checks that the retry counts against the rule that governs, where each has its own count.
    pub(crate) fn check_rule(&self, policy: &Policy, rule: Option<u32>) -> Result<(), String> {
        let own = match policy.counting() {
            Counting::Shared => None,
            Counting::PerRule { .. } => self.place.and_then(|at| u32::try_from(at).ok()),
        };
        if rule == own { Ok(()) } else { Err(format!("counted against {rule:?}, not {own:?}")) }
    }

    /// The place of the rule that governs.
    pub(crate) fn place(&self) -> Option<usize> {
        self.place
    }

    /// Checks that the task may be given up for `reason`.
    pub(crate) fn check_give_up(&self, now: u64, reason: GiveUp) -> Result<(), String> {
        let holds = match reason {
            GiveUp::NotRetryable => self.unmatched,
            GiveUp::Exhausted => self.exhausted,
            GiveUp::OutcomeUnknown => self.harmful,
            GiveUp::TimeoutBudget => self.budget,
            GiveUp::RetryAfter => self.asked > self.obeyed && self.asked > self.low,
            // No policy here has a budget.
            GiveUp::RetryBudget => false,
            GiveUp::ByHand => false,
            GiveUp::TotalTimeout => {
                let cut = self.last.filter(|last| *last >= self.asked);
                !self.unmatched && self.crosses(now, self.high) && cut.is_none()
            }
        };
        if holds { Ok(()) } else { Err(format!("given up for {reason:?} without cause: {self:?}")) }
    }
}

/// A lost lease, an attempt that ran out of time, and what the action says itself.
fn unknown(failure: &Failure) -> bool {
    let by_code = ["LEASE_LOST", "HEARTBEAT_TIMEOUT"].contains(&failure.code().as_str());
    let by_engine = failure.message().starts_with("timed out after ");
    by_code || by_engine || failure.message() == draw::UNKNOWN
}

/// Attempts in all that any rule allows (Decision 1), or all rules together up to the total (X4);
/// none when unlimited.
pub(crate) fn most_attempts(policy: &Policy) -> Option<u32> {
    let count = |limit: Limit| match limit {
        Limit::Attempts(n) => Some(n.get()),
        Limit::Unlimited => None,
    };
    let mut counts = policy.rules().iter().map(|r| count(r.limit));
    match policy.counting() {
        Counting::Shared => counts.try_fold(1, |most, n| Some(most.max(n?))),
        Counting::PerRule { total } => {
            let all = counts.try_fold(1_u32, |sum, n| Some(sum.saturating_add(n? - 1)));
            [all, count(total)].into_iter().flatten().min()
        }
    }
}

/// W8, Decisions 5 and 12.
fn rule<'p>(policy: &'p Policy, failure: &Failure) -> Option<(usize, &'p Rule)> {
    let class = class(policy, failure);
    let all: Vec<(usize, &Rule)> = policy.rules().iter().enumerate().collect();
    let matching: Vec<(usize, &Rule)> =
        all.iter().filter(|(_, r)| matches(&r.matcher, failure, class)).copied().collect();
    let lost = failure.code().as_str() == "LEASE_LOST";
    let among = if matching.is_empty() && lost { all } else { matching };
    let size = |r: &Rule| match r.limit {
        Limit::Attempts(n) => u64::from(n.get()),
        Limit::Unlimited => u64::MAX,
    };
    let most = among.iter().map(|(_, r)| size(r)).max()?;
    among.into_iter().find(|(_, r)| size(r) == most)
}

fn is(failure: &Failure, name: &str) -> bool {
    let code = failure.code().as_str();
    let among: Vec<String> = match name {
        "4xx" => (400..500).map(|n: u16| n.to_string()).collect(),
        "429-503" => (429..504).map(|n: u16| n.to_string()).collect(),
        name => vec![name.to_owned()],
    };
    among.iter().any(|name| name == code) || failure.lineage().iter().any(|t| t == name)
}

/// H3, R3.
fn matches(matcher: &Matcher, failure: &Failure, class: Class) -> bool {
    let named = |names: &std::collections::BTreeSet<String>| names.iter().any(|n| is(failure, n));
    !named(&matcher.except)
        && match &matcher.scope {
            Scope::Any => true,
            Scope::Retryable(names) => class == Class::Retryable || named(names),
            Scope::Names(names) => named(names),
        }
}

/// Decision 6.
fn class(policy: &Policy, failure: &Failure) -> Class {
    let code = failure.code().as_str();
    if policy.dialect() != Dialect::WorkConfig || code != "429" && code != "408" {
        return failure.class();
    }
    let named = policy.rules().iter().any(|r| match &r.matcher.scope {
        Scope::Any => false,
        Scope::Retryable(names) | Scope::Names(names) => names.iter().any(|n| is(failure, n)),
    });
    if named { Class::Retryable } else { Class::Permanent }
}

/// Decision 4: the least and most backoff before retry `n`.
fn range(rule: &Rule, n: u32, previous: Option<u64>) -> (u128, u128) {
    let backoff = &rule.backoff;
    let cap = backoff.cap.map_or(MOST, |c| u128::from(c.get()));
    let (least, exact) = raw(&backoff.shape, n);
    let (least, exact) = (least.min(cap), exact.min(cap));
    let (low, high) = match backoff.jitter {
        Jitter::None => (least, exact),
        Jitter::Proportional(p) => {
            let p = u128::from(p.millionths());
            let part = |d: u128| d * p / 1_000_000;
            (least - part(least), (exact + part(exact)).min(cap).min(MOST))
        }
        Jitter::Full => (0, exact),
        Jitter::Equal => (least / 2, exact),
        Jitter::Decorrelated => {
            let base = raw(&backoff.shape, 1).1.min(cap);
            let previous = previous.map_or(base, u128::from);
            (base, (previous * 3).min(cap).min(MOST).max(base))
        }
    };
    let drawn = backoff.jitter != Jitter::None || matches!(backoff.shape, Shape::Custom { .. });
    if rule.limit == Limit::Unlimited && drawn {
        (low.max(TIGHTEST), high.max(TIGHTEST))
    } else {
        (low, high)
    }
}

/// The nominal delay before retry `n` (H1, R1, Decisions 2 and 3), and how low rounding to whole
/// nanoseconds at each step may bring it.
fn raw(shape: &Shape, n: u32) -> (u128, u128) {
    let exact = |d: u128| (d.min(MOST), d.min(MOST));
    let n128 = u128::from(n);
    match shape {
        Shape::None => (0, 0),
        Shape::Fixed { base } => exact(u128::from(base.get())),
        Shape::Linear { base, step } => {
            exact(u128::from(base.get()) + u128::from(step.get()) * (n128 - 1))
        }
        Shape::Fibonacci { base } => exact(u128::from(base.get()) * fibonacci(n)),
        // X3: integers, and past its end the list stays at its last.
        Shape::Polynomial { base, degree } => {
            let powered = (0..*degree).map(|_| n128).fold(1_u128, u128::saturating_mul);
            exact(u128::from(base.get()).saturating_mul(powered))
        }
        Shape::List { delays } => {
            let mut left = delays.as_slice().to_vec();
            while left.len() > 1
                && left.len() > delays.as_slice().len().saturating_sub(n as usize - 1)
            {
                left.remove(0);
            }
            exact(left.first().map_or(0, |d| u128::from(d.get())))
        }
        Shape::Custom { .. } => exact(u128::from(draw::sevens(n).get())),
        Shape::Exponential { base, multiplier } => {
            let value = power(base.get(), multiplier.millionths(), n - 1);
            if multiplier.millionths() % 1_000_000 == 0 {
                return (value, value);
            }
            // Each of the n - 1 steps may lose a nanosecond, which then grows with the rest.
            let lost: u128 =
                (0..n - 1).map(|k| power(1, multiplier.millionths(), k) + 1).sum::<u128>();
            (value.saturating_sub(lost), value)
        }
    }
}

fn fibonacci(n: u32) -> u128 {
    if n <= 2 { 1 } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// `base * (millionths / 10^6)^exponent`, rounded down once, at most [`MOST`]. A number is a list
/// of digits of base 10^6, the lowest first, so that dividing by 10^6 drops a digit.
fn power(base: u64, millionths: u64, exponent: u32) -> u128 {
    let mut digits: Vec<u128> = vec![u128::from(base)];
    for _ in 0..exponent {
        digits.iter_mut().for_each(|d| *d *= u128::from(millionths));
        carry(&mut digits);
    }
    carry(&mut digits);
    let whole = digits.into_iter().skip(exponent as usize);
    let parts = whole.enumerate().map(|(place, digit)| {
        let unit = 1_000_000_u128.checked_pow(u32::try_from(place).unwrap_or(u32::MAX));
        unit.and_then(|u| digit.checked_mul(u)).unwrap_or(if digit == 0 { 0 } else { MOST })
    });
    parts.fold(0, u128::saturating_add).min(MOST)
}

fn carry(digits: &mut Vec<u128>) {
    let mut place = 0;
    while place < digits.len() {
        let over = digits[place] / 1_000_000;
        digits[place] %= 1_000_000;
        if over > 0 && place + 1 == digits.len() {
            digits.push(0);
        }
        if over > 0 {
            digits[place + 1] += over;
        }
        place += 1;
    }
}

#[test]
fn c2_h1_the_model_knows_the_documents_sequences() {
    // C2, H1, R1.
    let seconds = |n: u64| retrial_core::time::Nanos::from_secs(n);
    let sequence = |shape: Shape| [1, 2, 3, 4, 5].map(|n| raw(&shape, n).1 / 1_000_000_000);
    assert_eq!(sequence(Shape::None), [0; 5]);
    let base = seconds(1);
    assert_eq!(sequence(Shape::Linear { base, step: base }), [1, 2, 3, 4, 5]);
    let multiplier = retrial_core::policy::Multiplier::TWO;
    assert_eq!(sequence(Shape::Exponential { base, multiplier }), [1, 2, 4, 8, 16]);
    assert_eq!(sequence(Shape::Fibonacci { base }), [1, 1, 2, 3, 5]);
    assert_eq!(power(1_000, 1_500_000, 3), 3_375);
    assert_eq!(power(u64::MAX, 9_000_000, 60), MOST);
}
