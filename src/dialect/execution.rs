//! Capability 5's `execution` block (C1 to C4).

use std::collections::BTreeSet;

use super::number::MILLISECOND;
use super::tree::Node;
use super::{Diagnostic, settings};
use crate::failure::ErrorCode;
use crate::policy::{
    Backoff, Dialect, Jitter, Limit, Matcher, Multiplier, Parts, Policy, Rule, Scope, Shape,
};
use crate::time::Nanos;

/// The block's own keys.
pub(super) const KEYS: [&str; 2] = ["timeout_ms", "retry_policy"];

/// The keys of its `retry_policy`.
pub(super) const POLICY_KEYS: [&str; 6] =
    ["max_attempts", "backoff", "initial_delay_ms", "max_delay_ms", "retryable_errors", "jitter"];

/// What is retried without `retryable_errors` (spec decision 17).
pub const DEFAULT_RETRYABLE: [&str; 5] =
    ["503", "429", "500", ErrorCode::TIMEOUT, ErrorCode::NETWORK_ERROR];

/// The first delay without `initial_delay_ms`: C2's sequences start at 1 s.
const INITIAL_DELAY: Nanos = Nanos::from_secs(1);

#[derive(Clone, Copy, PartialEq)]
enum Strategy {
    None,
    Linear,
    Exponential,
}

const STRATEGIES: [(&str, Strategy); 3] = [
    ("none", Strategy::None),
    ("linear", Strategy::Linear),
    ("exponential", Strategy::Exponential),
];

/// Reads an `execution` table. Without `retry_policy` there is one attempt (spec decision 1).
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    let known: Vec<&str> = KEYS.into_iter().chain(settings::KEYS).collect();
    let fields = node.fields(&known)?;
    let mut parts = Parts::new(Dialect::Execution);
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
    let mut parts = Parts::new(Dialect::Execution);
    parts.rules.push(rule(node)?);
    super::policy_from(parts, &node.place)
}

fn rule(node: &Node) -> Result<Rule, Diagnostic> {
    let fields = node.fields(&POLICY_KEYS)?;
    let help = "say how many attempts there may be in all, the first included";
    let attempts = fields.require("max_attempts", help)?.count(1, u32::MAX)?;
    let names = match fields.get("retryable_errors") {
        Some(list) => list.names()?,
        None => DEFAULT_RETRYABLE.map(str::to_owned).into(),
    };
    let cap = fields.get("max_delay_ms").map(|n| n.duration(MILLISECOND)).transpose()?;
    let jitter = fields.get("jitter").map_or(Ok(Jitter::None), settings::jitter)?;
    Ok(Rule {
        matcher: Matcher { scope: Scope::Names(names), except: BTreeSet::new() },
        limit: Limit::attempts(attempts).unwrap_or(Limit::ONE),
        backoff: Backoff {
            shape: shape(fields.get("backoff"), fields.get("initial_delay_ms"))?,
            jitter,
            cap,
        },
    })
}

fn shape(backoff: Option<&Node>, initial: Option<&Node>) -> Result<Shape, Diagnostic> {
    let base = initial.map_or(Ok(INITIAL_DELAY), |n| n.duration(MILLISECOND))?;
    let strategy = match (backoff, initial) {
        (Some(node), _) => node.choice(&STRATEGIES)?,
        (None, None) => Strategy::None,
        (None, Some(initial)) => {
            return Err(initial
                .place
                .error("a delay without `backoff` means nothing")
                .help_with("add backoff: none, linear or exponential"));
        }
    };
    Ok(match strategy {
        Strategy::None => Shape::None,
        Strategy::Linear => Shape::Linear { base, step: base },
        Strategy::Exponential => Shape::Exponential { base, multiplier: Multiplier::TWO },
    })
}
