//! rh_agents' `RetryConfig` (H1 to H8).

use std::collections::BTreeSet;

use super::number::SECOND;
use super::tree::{Fields, Node, did_you_mean};
use super::{Diagnostic, settings};
use crate::policy::{
    ActionKind, Backoff, Dialect, Jitter, Limit, Matcher, Multiplier, Parts, Policy, Rule, Scope,
    Shape, Share,
};
use crate::time::Nanos;

/// The dialect's own keys.
pub(super) const KEYS: [&str; 10] = [
    "max_attempts",
    "backoff_strategy",
    "initial_delay",
    "max_delay",
    "backoff_multiplier",
    "jitter",
    "retry_on_exceptions",
    "exclude_exceptions",
    "retry_timeout",
    "enabled",
];

#[derive(Clone, Copy)]
enum Strategy {
    Constant,
    Linear,
    Exponential,
    Fibonacci,
}

const STRATEGIES: [(&str, Strategy); 4] = [
    ("constant", Strategy::Constant),
    ("linear", Strategy::Linear),
    ("exponential", Strategy::Exponential),
    ("fibonacci", Strategy::Fibonacci),
];

/// What begins the name of a registered backoff function, as in `custom:mine`.
pub(super) const CUSTOM: &str = "custom:";

/// Reads a `RetryConfig`. What is absent is H2's default; `enabled: false` leaves no rule (H6).
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    let known: Vec<&str> = KEYS.into_iter().chain(settings::KEYS).collect();
    let fields = node.fields(&known)?;
    let mut parts = Parts::new(Dialect::RetryConfig);
    if let Some(limit) = fields.get("retry_timeout") {
        parts.total_timeout = Some(limit.timeout(SECOND)?);
    }
    let rule = rule(&fields)?;
    if fields.get("enabled").map_or(Ok(true), Node::boolean)? {
        parts.rules.push(rule);
    }
    settings::read(&fields, &mut parts)?;
    super::policy_from(parts, &node.place)
}

fn rule(fields: &Fields<'_>) -> Result<Rule, Diagnostic> {
    let attempts = fields.get("max_attempts").map_or(Ok(3), |n| n.count(1, u32::MAX))?;
    let cap = fields.get("max_delay").map_or(Ok(Nanos::from_secs(60)), |n| n.duration(SECOND))?;
    let jitter = match fields.get("jitter") {
        Some(node) => settings::jitter(node)?,
        None => Jitter::Proportional(Share::QUARTER),
    };
    Ok(Rule {
        matcher: matcher(fields)?,
        limit: Limit::attempts(attempts).unwrap_or(Limit::ONE),
        backoff: Backoff { shape: shape(fields)?, jitter, cap: Some(cap) },
    })
}

fn shape(fields: &Fields<'_>) -> Result<Shape, Diagnostic> {
    let initial = fields.get("initial_delay");
    let base = initial.map_or(Ok(Nanos::from_secs(1)), |n| n.duration(SECOND))?;
    let multiplier = fields.get("backoff_multiplier").map_or(Ok(Multiplier::TWO), multiplier)?;
    let Some(strategy) = fields.get("backoff_strategy") else {
        return Ok(Shape::Exponential { base, multiplier });
    };
    if let Some(name) = strategy.text()?.strip_prefix(CUSTOM) {
        return custom(strategy, name);
    }
    Ok(match strategy.choice(&STRATEGIES)? {
        Strategy::Constant => Shape::Fixed { base },
        Strategy::Linear => Shape::Linear { base, step: base },
        Strategy::Exponential => Shape::Exponential { base, multiplier },
        Strategy::Fibonacci => Shape::Fibonacci { base },
    })
}

fn custom(node: &Node, name: &str) -> Result<Shape, Diagnostic> {
    if name.trim().is_empty() {
        let help = did_you_mean("", ["custom:NAME, where NAME is a registered function"]);
        return Err(node.place.error("the custom backoff has no name").help_with(help));
    }
    Ok(Shape::Custom { name: name.trim().to_owned() })
}

fn multiplier(node: &Node) -> Result<Multiplier, Diagnostic> {
    Multiplier::from_millionths(node.millionths()?).map_err(|e| node.place.refuse(&e))
}

/// H3: exclusions first, the defaults always among them; then the allow list, else the class. An
/// allow list that is empty allows nothing.
fn matcher(fields: &Fields<'_>) -> Result<Matcher, Diagnostic> {
    let mut except: BTreeSet<String> = ActionKind::PERMANENT_TYPES.map(str::to_owned).into();
    if let Some(list) = fields.get("exclude_exceptions") {
        except.extend(list.names()?);
    }
    let scope = match fields.get("retry_on_exceptions") {
        Some(list) => Scope::Names(list.names()?),
        None => Scope::Retryable(BTreeSet::new()),
    };
    Ok(Matcher { scope, except })
}
