//! Parts of a policy as phrases.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::dialect::{DEFAULT_RETRYABLE, brief, jitter_words};
use crate::guard::ErrorBudget;
use crate::policy::{
    Backoff, Budget, BudgetScope, Denied, Dialect, Jitter, Limit, Matcher, Multiplier, PolicyParts,
    Rule, Scope, Shape,
};
use crate::time::Nanos;
use crate::workflow::Webhook;

/// How long an attempt may take that has no timeout of its own.
pub(super) fn default_timeout() -> String {
    let limit = PolicyParts::DEFAULT_TIMEOUT;
    format!("An attempt may take as long as its node allows, {limit} unless configured.")
}

/// Which failures a rule is for.
pub(super) fn matcher(matcher: &Matcher, dialect: Dialect) -> String {
    let scope = match &matcher.scope {
        Scope::Any => "every failure".to_owned(),
        Scope::Retryable(also) if also.is_empty() => classifier(dialect).to_owned(),
        Scope::Retryable(also) => format!("{}; also {}", classifier(dialect), list(also, "and")),
        Scope::Names(names) if names.is_empty() => "no failure".to_owned(),
        Scope::Names(names) => {
            let default = DEFAULT_RETRYABLE.map(str::to_owned).into();
            let is_default = dialect == Dialect::Execution && *names == default;
            let note = if is_default { " (the dialect's default list)" } else { "" };
            format!("failures whose code, type or ancestor is {}{note}", list(names, "or"))
        }
    };
    match matcher.except.is_empty() {
        true => scope,
        false => format!("{scope}; never {}", list(&matcher.except, "or")),
    }
}

/// What each dialect retries where a policy names nothing.
fn classifier(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::WorkConfig => {
            "failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx; 408 and 429 only when named)"
        }
        _ => {
            "failures of the retryable class (timeouts, transport failures, lost leases, HTTP 5xx and 429)"
        }
    }
}

/// The most names that are shown.
const NAMES: usize = 20;

fn list(names: &BTreeSet<String>, last: &str) -> String {
    let more = names.len().saturating_sub(NAMES);
    let names = names.iter().take(NAMES).map(|name| brief(name));
    let names = names.chain((more > 0).then(|| format!("{more} more").into()));
    let names: Vec<Cow<'_, str>> = names.collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone().into_owned(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}

/// How many executions there may be.
pub(super) fn limit(limit: Limit) -> String {
    match limit.count() {
        None => "Any number of executions: retries are unlimited.".into(),
        Some(1) => "1 execution: no retries.".into(),
        Some(2) => "At most 2 executions: the first attempt and 1 retry.".into(),
        Some(n) => format!("At most {n} executions: the first attempt and {} retries.", n - 1),
    }
}

/// How many retries there may be of a rule with a count of its own.
pub(super) fn own_limit(limit: Limit) -> String {
    match limit.count() {
        None => "Any number of retries.".into(),
        Some(1) => "No retries.".into(),
        Some(2) => "At most 1 retry, by its own count.".into(),
        Some(n) => format!("At most {} retries, by its own count.", n - 1),
    }
}

/// How rules with counts of their own are bounded together.
pub(super) fn total(limit: Limit) -> String {
    match limit.count() {
        None => "Each rule counts its own retries.".into(),
        Some(1) => "Each rule counts its own retries; there may be 1 execution in all.".into(),
        Some(n) => format!("Each rule counts its own retries; there may be {n} executions in all."),
    }
}

/// What happens to a wait that would cross the total timeout.
pub(super) fn at_deadline(reserve: Nanos) -> String {
    format!("A wait that would cross that is cut short: the last attempt starts {reserve} before.")
}

/// Delays of a list that are shown.
const LISTED: usize = 8;

/// How a rule waits.
pub(super) fn backoff(rule: &Rule) -> String {
    let Backoff { shape, jitter, cap } = &rule.backoff;
    let shape = match shape {
        Shape::None => "Retries at once".to_owned(),
        Shape::Fixed { base } => format!("Waits {base} before each retry"),
        Shape::Linear { base, step } if base == step => {
            format!("Waits {base} times the number of the retry")
        }
        Shape::Linear { base, step } => format!("Waits {base}, then {step} more each time"),
        Shape::Exponential { base, .. } if base.is_zero() => "Retries at once".to_owned(),
        Shape::Exponential { base, multiplier } => {
            format!("Waits {base}, then {} as long each time", times(*multiplier))
        }
        Shape::Fibonacci { base } => format!("Waits {base} times 1, 1, 2, 3, 5, 8 and so on"),
        Shape::Polynomial { base, degree } => {
            format!("Waits {base} times the number of the retry to the power of {degree}")
        }
        Shape::List { delays } => {
            let last = delays.last();
            let first = delays.as_slice().iter().take(LISTED).map(Nanos::to_string);
            let first: Vec<String> = first.collect();
            match delays.as_slice().len() {
                1 => format!("Waits {last} before each retry"),
                n if n <= LISTED => format!("Waits {}, then always {last}", first.join(", ")),
                n => {
                    format!("Waits {} and so on, {n} delays, then always {last}", first.join(", "))
                }
            }
        }
        Shape::Custom { name } => format!("Waits as long as the function `{name}` returns"),
    };
    let cap = cap.map_or_else(|| ", without a cap".to_owned(), |cap| format!(", at most {cap}"));
    let cap = if rule.backoff.is_always_zero() { String::new() } else { cap };
    match jitter {
        Jitter::None => format!("{shape}{cap}, without jitter."),
        jitter => format!("{shape}{cap}, with {}.", jitter_words(*jitter)),
    }
}

/// What happens after a failure whose outcome is unknown.
pub(super) fn unknown_outcome(harmful: bool, retried: bool) -> Option<String> {
    let text = match (harmful, retried) {
        (false, false) => return None,
        (true, false) => {
            "The action is not idempotent: it is not retried after an unknown outcome."
        }
        (_, true) => "An unknown outcome is retried even if the action is not idempotent.",
    };
    Some(text.to_owned())
}

/// The retry budget.
pub(super) fn budget(budget: &Budget) -> String {
    let Budget { capacity, initial, cost, throttling_cost, refill, scope, on_denied } = *budget;
    let whose = match scope {
        BudgetScope::Action => "all tasks of the action share",
        BudgetScope::Group => "the tasks of one fan-out share",
    };
    let took = match throttling_cost == cost {
        true => format!("a retry takes {cost}"),
        false => format!("a retry takes {cost}, after throttling {throttling_cost}"),
    };
    let percent = crate::dialect::millionths(u64::from(refill.ratio.millionths()) * 100);
    let gives = [
        (refill.ratio.millionths() > 0)
            .then(|| format!("each first attempt adds {percent} % of a token")),
        (refill.first_success > 0)
            .then(|| format!("a success at the first attempt adds {}", refill.first_success)),
        refill.refund.then(|| "a success after retries returns the last retry's cost".to_owned()),
    ];
    let gives: Vec<String> = gives.into_iter().flatten().collect();
    let denied = match on_denied {
        Denied::Fail => "fails now",
        Denied::Wait => "waits",
    };
    format!(
        "For retries {whose} {initial} tokens, at most {capacity}: {took}, {}; a retry that finds too few {denied}.",
        gives.join(", ")
    )
}

/// When an action's failures raise an alert.
pub(super) fn error_budget(budget: &ErrorBudget, webhook: Option<&Webhook>) -> String {
    let percent = |n: u64| format!("{} %", crate::dialect::millionths(n.saturating_mul(100)));
    let allowed = 1_000_000 - u64::from(budget.target().millionths());
    let alerts: Vec<String> = budget.alerts().iter().map(|share| percent(*share)).collect();
    let whom = webhook.map(|w| format!(" to `{}`", w.name())).unwrap_or_default();
    format!(
        "At most {} of the action's attempts within {} may fail; an alert is raised{whom} when {} of this error budget are used, from {} attempts on.",
        percent(allowed),
        budget.window(),
        alerts.join(", "),
        budget.min_calls(),
    )
}

fn times(multiplier: Multiplier) -> String {
    match multiplier {
        Multiplier::TWO => "twice".into(),
        m => format!("{} times", crate::dialect::millionths(m.millionths())),
    }
}
