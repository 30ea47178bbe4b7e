//! rh_agents' `RetryConfig`.

use std::collections::BTreeSet;

use super::growth::{Growth, Terms};
use super::number::SECOND;
use super::tree::{Fields, Node, did_you_mean};
use super::{Diagnostic, settings};
use crate::policy::{
    ActionKind, Backoff, Dialect, Jitter, Limit, Matcher, Multiplier, Policy, PolicyParts, Rule,
    Scope, Shape, Share,
};
use crate::time::Nanos;

/// The dialect's own keys.
pub(super) const KEYS: [&str; 13] = [
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
    // Not rh_agents'.
    "backoff_step",
    "backoff_degree",
    "delays",
];

const STRATEGIES: [(&str, Growth); 6] = [
    ("constant", Growth::Fixed),
    ("linear", Growth::Linear),
    ("exponential", Growth::Exponential),
    ("fibonacci", Growth::Fibonacci),
    ("polynomial", Growth::Polynomial),
    ("list", Growth::List),
];

/// What begins the name of a registered backoff function, as in `custom:mine`.
pub(super) const CUSTOM: &str = "custom:";

/// Reads a `RetryConfig`. An absent key takes rh_agents' default; `enabled: false` leaves no rule.
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    let known: Vec<&str> = KEYS.into_iter().chain(settings::KEYS).collect();
    let fields = node.fields(&known)?;
    let mut parts = PolicyParts::new(Dialect::RetryConfig);
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
    let shape = shape(fields)?;
    // The default cap is for delays that grow; a list sets each delay.
    let usual = (!matches!(shape, Shape::List { .. })).then_some(Nanos::from_secs(60));
    let cap = fields.get("max_delay").map_or(Ok(usual), |n| n.duration(SECOND).map(Some))?;
    let jitter = match fields.get("jitter") {
        Some(node) => settings::jitter(node)?,
        None => Jitter::Proportional(Share::QUARTER),
    };
    Ok(Rule {
        matcher: matcher(fields)?,
        limit: Limit::attempts(attempts).unwrap_or(Limit::ONE),
        backoff: Backoff { shape, jitter, cap },
    })
}

fn shape(fields: &Fields<'_>) -> Result<Shape, Diagnostic> {
    let initial = fields.get("initial_delay");
    let base = initial.map_or(Ok(Nanos::from_secs(1)), |n| n.duration(SECOND))?;
    let multiplier = fields.get("backoff_multiplier").map_or(Ok(Multiplier::TWO), multiplier)?;
    let terms = Terms {
        first: initial,
        base,
        multiplier,
        step: fields.get("backoff_step"),
        degree: fields.get("backoff_degree"),
        delays: fields.get("delays"),
        unit: SECOND,
    };
    match (fields.get("backoff_strategy"), terms.delays) {
        (Some(strategy), _) => match strategy.text()?.strip_prefix(CUSTOM) {
            Some(name) => custom(strategy, name),
            None => terms.shape(strategy.choice(&STRATEGIES)?, strategy),
        },
        (None, Some(delays)) => terms.shape(Growth::List, delays),
        (None, None) => match terms.step.or(terms.degree) {
            Some(stray) => terms.shape(Growth::Exponential, stray),
            None => Ok(Shape::Exponential { base, multiplier }),
        },
    }
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

/// Exclusions take precedence, the default ones always among them; then the allow list, else the
/// class. An empty allow list allows nothing.
fn matcher(fields: &Fields<'_>) -> Result<Matcher, Diagnostic> {
    let mut except: BTreeSet<String> = ActionKind::PERMANENT_TYPES.map(str::to_owned).into();
    if let Some(list) = fields.get("exclude_exceptions") {
        except.extend(list.failures()?);
    }
    let scope = match fields.get("retry_on_exceptions") {
        Some(list) => Scope::Names(list.failures()?),
        None => Scope::Retryable(BTreeSet::new()),
    };
    Ok(Matcher { scope, except })
}
