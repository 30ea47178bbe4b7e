//! Capability 5's `execution` block.

use std::collections::BTreeSet;

use super::growth::{Growth, Terms};
use super::number::MILLISECOND;
use super::tree::{Fields, Node};
use super::{Diagnostic, settings};
use crate::failure::ErrorCode;
use crate::policy::{
    Backoff, Dialect, Jitter, Limit, Matcher, Multiplier, Policy, PolicyParts, Rule, Scope, Shape,
};
use crate::time::Nanos;

/// The block's own keys.
pub(super) const KEYS: [&str; 2] = ["timeout_ms", "retry_policy"];

/// The keys of its `retry_policy`.
pub(super) const POLICY_KEYS: [&str; 9] = [
    "max_attempts",
    "backoff",
    "initial_delay_ms",
    "max_delay_ms",
    "retryable_errors",
    "jitter",
    // Not Capability 5's.
    "step_delay_ms",
    "backoff_degree",
    "delays_ms",
];

/// What is retried without `retryable_errors`.
pub(crate) const DEFAULT_RETRYABLE: [&str; 5] =
    ["503", "429", "500", ErrorCode::TIMEOUT, ErrorCode::NETWORK_ERROR];

/// The first delay without `initial_delay_ms`.
const INITIAL_DELAY: Nanos = Nanos::from_secs(1);

const STRATEGIES: [(&str, Growth); 5] = [
    ("none", Growth::None),
    ("linear", Growth::Linear),
    ("exponential", Growth::Exponential),
    ("polynomial", Growth::Polynomial),
    ("list", Growth::List),
];

/// Reads an `execution` table. Without `retry_policy` there is one attempt.
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    let known: Vec<&str> = KEYS.into_iter().chain(settings::KEYS).collect();
    let fields = node.fields(&known)?;
    let mut parts = PolicyParts::new(Dialect::Execution);
    if let Some(limit) = fields.get("timeout_ms") {
        parts.attempt_timeout = Some(limit.timeout(MILLISECOND)?);
    }
    if let Some(policy) = fields.get("retry_policy") {
        parts.rules.push(rule(policy)?);
    }
    settings::read(&fields, &mut parts)?;
    super::policy_from(parts, &node.place)
}

/// Reads a `retry_policy` table that stands alone.
pub(super) fn read_policy(node: &Node) -> Result<Policy, Diagnostic> {
    let mut parts = PolicyParts::new(Dialect::Execution);
    parts.rules.push(rule(node)?);
    super::policy_from(parts, &node.place)
}

fn rule(node: &Node) -> Result<Rule, Diagnostic> {
    let fields = node.fields(&POLICY_KEYS)?;
    let help = "say how many attempts there may be in all, the first included";
    let attempts = fields.require("max_attempts", help)?.count(1, u32::MAX)?;
    let names = match fields.get("retryable_errors") {
        Some(list) => list.failures()?,
        None => DEFAULT_RETRYABLE.map(str::to_owned).into(),
    };
    let cap = fields.get("max_delay_ms").map(|n| n.duration(MILLISECOND)).transpose()?;
    let jitter = fields.get("jitter").map_or(Ok(Jitter::None), settings::jitter)?;
    Ok(Rule {
        matcher: Matcher { scope: Scope::Names(names), except: BTreeSet::new() },
        limit: Limit::attempts(attempts).unwrap_or(Limit::ONE),
        backoff: Backoff { shape: shape(&fields)?, jitter, cap },
    })
}

fn shape(fields: &Fields<'_>) -> Result<Shape, Diagnostic> {
    let initial = fields.get("initial_delay_ms");
    let terms = Terms {
        first: initial,
        base: initial.map_or(Ok(INITIAL_DELAY), |n| n.duration(MILLISECOND))?,
        multiplier: Multiplier::TWO,
        step: fields.get("step_delay_ms"),
        degree: fields.get("backoff_degree"),
        delays: fields.get("delays_ms"),
        unit: MILLISECOND,
    };
    if let Some(node) = fields.get("backoff") {
        return terms.shape(node.choice(&STRATEGIES)?, node);
    }
    match (terms.delays, initial.or(terms.step).or(terms.degree)) {
        (Some(delays), _) => terms.shape(Growth::List, delays),
        (None, None) => Ok(Shape::None),
        (None, Some(stray)) => Err(stray
            .place
            .error("a delay has no effect without `backoff`")
            .help_with("add backoff: none, linear, exponential or polynomial")),
    }
}
