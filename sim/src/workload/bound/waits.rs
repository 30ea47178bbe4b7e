//! How long retries wait, by policies and by `Retry-After`.

use retrial::policy::{Limit, Policy, Rule};
use retrial::time::Nanos;
use retrial::workflow::Workflow;

use super::{BoundInput, LEFTOVER, START, is_service};
use crate::oracle::delays;
use crate::scenario::{NodeClock, Reply, RetryAfter};

/// How many retries the longest wait is looked for in.
const RETRIES: u32 = 64;

/// The longest wait before any retry: by the policy, or asked for and obeyed.
pub(super) fn wait(scenario: &BoundInput<'_>, policy: &Policy) -> Nanos {
    let by_rule = policy.rules().iter().map(|rule| {
        let longest = longest_of(rule, RETRIES, |n| scenario.custom(rule, n));
        if rule.limit == Limit::Unlimited { longest.min(elapsed(scenario)) } else { longest }
    });
    // The `Retry-After` of a user's service is known only at run time.
    let own = scenario.endpoints.iter().any(is_service).then(|| policy.max_retry_after());
    by_rule.chain(asked(scenario, policy.max_retry_after())).chain(own).max().unwrap_or(Nanos::ZERO)
}

/// The longest delay of the retries that the rule allows, of `endless` where their number has no
/// limit. They grow with n, so a few early ones and the last say it all; a decorrelated one grows
/// from the one before.
fn longest_of(rule: &Rule, endless: u32, custom: impl Fn(u32) -> u64) -> Nanos {
    let retries = rule.limit.count().map_or(endless, |n| n - 1);
    let mut longest = Nanos::ZERO;
    for n in (1..=retries.min(RETRIES)).chain([retries.max(1)]) {
        let high = delays(rule, n, Some(longest)).map_or_else(|| custom(n), |d| saturated(d.high));
        longest = longest.max(Nanos::new(high));
    }
    longest
}

/// The longest that the workflow's policies wait in the first few retries that come after healing,
/// custom backoffs left aside.
pub(crate) fn patience(workflow: &Workflow) -> Nanos {
    let rules = workflow.steps().iter().flat_map(|step| step.policy.rules());
    rules.map(|rule| longest_of(rule, LEFTOVER, |_| 0)).max().unwrap_or(Nanos::ZERO)
}

/// Without a cap an unlimited policy's delays grow for as long as faults last: each is at most a
/// few times the ones that have passed. The factor leaves room for small draws of full jitter.
fn elapsed(scenario: &BoundInput<'_>) -> Nanos {
    START.saturating_add(Nanos::new(scenario.heal_at.as_nanos()).saturating_mul(64))
}

fn saturated(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The `Retry-After` of replies, as far as it is obeyed: a wait longer than `most` ends the task
/// instead. A date without its own `Date` is read against a clock that may be wrong, so it may come
/// out as anything up to its worst.
fn asked(scenario: &BoundInput<'_>, most: Nanos) -> impl Iterator<Item = Nanos> {
    let wrong = scenario.clocks.iter().map(how_wrong).max().unwrap_or(Nanos::ZERO);
    scenario.replies().filter_map(move |reply| match reply.last() {
        Reply::Status { retry_after: Some(after), .. } => match after {
            RetryAfter::Seconds(s) => Some(Nanos::from_secs(*s)).filter(|wait| *wait <= most),
            RetryAfter::Date { secs, own_date } => {
                // Dates are whole seconds, so either end may be rounded.
                let wait = u64::try_from(*secs).unwrap_or(0).saturating_add(2);
                let clock = if *own_date { Nanos::ZERO } else { wrong };
                Some(Nanos::from_secs(wait).saturating_add(clock).min(most))
            }
            RetryAfter::Text(_) => None,
        },
        _ => None,
    })
}

/// The farthest that a wall clock may be from the truth.
fn how_wrong(clock: &NodeClock) -> Nanos {
    let jumps = clock.jumps.iter().map(|j| j.by_ns.unsigned_abs());
    Nanos::new(jumps.fold(clock.skew_ns.unsigned_abs(), u64::saturating_add))
}
