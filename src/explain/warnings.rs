//! What a policy says that may not be meant.

use super::delays;
use crate::policy::{Functions, Limit, Policy, Rule, Scope, Shape};
use crate::time::Nanos;

pub(super) fn of(policy: &Policy, functions: &Functions) -> Vec<String> {
    let rules = policy.rules();
    let of_rules = rules.iter().enumerate().flat_map(|(at, rule)| {
        [
            never_retries(rule),
            names_nothing(rule),
            never_governs(rules, at),
            grows_without_cap(rule),
            capped_from_start(rule, functions),
            unknown_function(rule, functions),
            cut_short(policy, rule, functions),
        ]
        .into_iter()
        .flatten()
        .map(move |what| format!("rule {}: {what}", at + 1))
    });
    of_rules.chain(attempt_beyond_total(policy)).collect()
}

fn never_retries(rule: &Rule) -> Option<String> {
    let waits = !rule.backoff.is_always_zero();
    (rule.limit == Limit::ONE && waits)
        .then(|| "it has a delay but allows no retry; say how many retries there may be".into())
}

fn names_nothing(rule: &Rule) -> Option<String> {
    let Scope::Names(names) = &rule.matcher.scope else { return None };
    names.is_empty().then(|| "its list of errors is empty, so it matches nothing".into())
}

/// W8: of the rules that match, the one with the most attempts governs, on a tie the first.
fn never_governs(rules: &[Rule], at: usize) -> Option<String> {
    let rule = &rules[at];
    let beats = |(other, r): (usize, &Rule)| {
        let covers = r.matcher.scope == Scope::Any && r.matcher.except.is_empty()
            || r.matcher == rule.matcher;
        let wins = r.limit > rule.limit || (r.limit == rule.limit && other < at);
        (other != at && covers && wins).then_some(other + 1)
    };
    let other = rules.iter().enumerate().find_map(beats)?;
    Some(format!(
        "it never governs: rule {other} matches the same failures with as many attempts or more"
    ))
}

fn grows_without_cap(rule: &Rule) -> Option<String> {
    let grows = !matches!(rule.backoff.shape, Shape::None | Shape::Fixed { .. });
    (rule.limit == Limit::Unlimited && grows && rule.backoff.cap.is_none())
        .then(|| "it retries without limit and its delay grows without a cap; set a cap".into())
}

fn capped_from_start(rule: &Rule, functions: &Functions) -> Option<String> {
    let cap = rule.backoff.cap?;
    let uncapped = crate::policy::Backoff { cap: None, ..rule.backoff.clone() };
    let first = uncapped.nominal(1, functions);
    (first > cap && rule.limit > Limit::ONE)
        .then(|| format!("its first delay of {first} is above the cap: every delay is {cap}"))
}

fn unknown_function(rule: &Rule, functions: &Functions) -> Option<String> {
    let Shape::Custom { name } = &rule.backoff.shape else { return None };
    functions.get(name).is_none().then(|| {
        format!("its backoff function `{name}` is not registered here; its delays are shown as 0")
    })
}

/// Whether the total timeout comes before the rule's last attempt, even if attempts took no time.
fn cut_short(policy: &Policy, rule: &Rule, functions: &Functions) -> Option<String> {
    let (total, attempts) = (policy.total_timeout()?, rule.limit.count()?);
    let listed = delays(rule, (attempts - 1).min(super::MOST), functions);
    let late = listed.iter().find(|d| d.earliest_sum >= total)?;
    Some(format!(
        "the total timeout of {total} leaves room for at most {} of its {attempts} attempts",
        late.retry
    ))
}

fn attempt_beyond_total(policy: &Policy) -> Option<String> {
    let (attempt, total): (Nanos, Nanos) = (policy.attempt_timeout()?, policy.total_timeout()?);
    (attempt >= total).then(|| {
        format!("the attempt timeout of {attempt} is not below the total timeout of {total}: the first attempt may take it all")
    })
}
