//! The dialects that are tables: Argyll's `work_config` (A5 to A9), Capability 5's `execution` (C1 to
//! C4) and rh_agents' `retry_config` (H1 to H6).

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{Fields, USUAL_JITTER, decimal};
use super::plain::{Growth, MILLION, MILLISECOND, PlainPolicy, PlainRule, SECOND};

/// rh_agents never retries these, whatever else a text says.
const PERMANENT: [&str; 5] =
    ["ValidationError", "ValueError", "TypeError", "KeyError", "AttributeError"];
/// Capability 5 retries these where a text names none.
const TRANSIENT: [&str; 5] = ["503", "429", "500", "TIMEOUT", "NETWORK_ERROR"];

fn owned<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// How a dialect spells what backoffs need, and what it means by a number.
struct Words {
    unit: u128,
    step: &'static str,
    list: &'static str,
}

/// Argyll: milliseconds; `max_retries` counts the attempts after the first, -1 is without limit.
pub(super) fn work_config(value: &Value) -> Option<PlainPolicy> {
    let mut fields = Fields::of(value)?;
    let mut policy = PlainPolicy::new("work_config");
    let retries = fields.take("max_retries", Value::as_i64)?.unwrap_or(0);
    let words = Words { unit: MILLISECOND, step: "backoff_step", list: "delays" };
    let base = fields.length("backoff", MILLISECOND)?.unwrap_or(0);
    let cap = fields.length("max_backoff", MILLISECOND)?;
    let kind = fields.text("backoff_type")?;
    let growth = growth(&mut fields, kind.as_deref().unwrap_or("fixed"), base, None, &words)?;
    let names = fields.names("retryable_errors")?.unwrap_or_default();
    let jitter = fields.jitter()?.unwrap_or(("none", 0));
    fields.settings(&mut policy)?;
    let rule = PlainRule {
        scope: "retryable",
        names,
        except: BTreeSet::new(),
        attempts: if retries == -1 { None } else { Some(u128::try_from(retries).ok()? + 1) },
        growth,
        cap,
        jitter,
    };
    policy.rules.push(rule);
    fields.finish(policy)
}

/// Capability 5: milliseconds; `max_attempts` counts the first one too. Delays begin at 1 s unless
/// the text says otherwise (C2).
pub(super) fn execution(value: &Value) -> Option<PlainPolicy> {
    let mut fields = Fields::of(value)?;
    let mut policy = PlainPolicy::new("execution");
    policy.attempt_timeout = fields.length("timeout_ms", MILLISECOND)?;
    if let Some(rule) = fields.take("retry_policy", execution_rule)? {
        policy.rules.push(rule);
    }
    fields.settings(&mut policy)?;
    fields.finish(policy)
}

fn execution_rule(value: &Value) -> Option<PlainRule> {
    let mut fields = Fields::of(value)?;
    let words = Words { unit: MILLISECOND, step: "step_delay_ms", list: "delays_ms" };
    let attempts = fields.number("max_attempts")??;
    let base = fields.length("initial_delay_ms", MILLISECOND)?.unwrap_or(SECOND);
    let cap = fields.length("max_delay_ms", MILLISECOND)?;
    let kind = fields.text("backoff")?;
    let growth = growth(&mut fields, kind.as_deref().unwrap_or("none"), base, None, &words)?;
    let names = fields.names("retryable_errors")?.unwrap_or_else(|| owned(TRANSIENT));
    let jitter = fields.jitter()?.unwrap_or(("none", 0));
    fields.finish(PlainRule {
        scope: "names",
        names,
        except: BTreeSet::new(),
        attempts: Some(attempts),
        growth,
        cap,
        jitter,
    })
}

/// rh_agents: seconds; `max_attempts` counts the first one too.
pub(super) fn retry_config(value: &Value) -> Option<PlainPolicy> {
    let mut fields = Fields::of(value)?;
    let mut policy = PlainPolicy::new("retry_config");
    let words = Words { unit: SECOND, step: "backoff_step", list: "delays" };
    let attempts = fields.number("max_attempts")?.unwrap_or(3);
    let base = fields.length("initial_delay", SECOND)?.unwrap_or(SECOND);
    let cap = fields.length("max_delay", SECOND)?;
    let factor = fields.take("backoff_multiplier", |factor| {
        let Value::Number(factor) = factor else { return None };
        decimal(&factor.to_string(), MILLION)
    })?;
    let kind = fields.text("backoff_strategy")?;
    let kind = kind.as_deref().unwrap_or("exponential");
    let growth = growth(&mut fields, kind, base, factor, &words)?;
    // A list has no cap unless the text sets one.
    let usual_cap = (growth.kind != "list").then_some(60 * SECOND);
    let jitter = fields.jitter()?.unwrap_or(USUAL_JITTER);
    let allowed = fields.names("retry_on_exceptions")?;
    let excluded = fields.names("exclude_exceptions")?.unwrap_or_default();
    policy.total_timeout = fields.length("retry_timeout", SECOND)?;
    let enabled = fields.flag("enabled")?.unwrap_or(true);
    fields.settings(&mut policy)?;
    let rule = PlainRule {
        cap: cap.or(usual_cap),
        jitter,
        ..usual_rule(allowed, excluded, attempts, growth)
    };
    policy.rules.extend(enabled.then_some(rule));
    fields.finish(policy)
}

fn usual_rule(
    allowed: Option<BTreeSet<String>>,
    excluded: BTreeSet<String>,
    attempts: u128,
    growth: Growth,
) -> PlainRule {
    PlainRule {
        scope: if allowed.is_some() { "names" } else { "retryable" },
        names: allowed.unwrap_or_default(),
        except: owned(PERMANENT).union(&excluded).cloned().collect(),
        attempts: Some(attempts),
        growth,
        cap: Some(30 * SECOND),
        jitter: USUAL_JITTER,
    }
}

/// What applies to a step without a policy (H8): an agent handles its own failures; other calls have
/// 3 attempts, doubling from 1 s to 30 s.
pub(super) fn built_in(kind: &str) -> PlainPolicy {
    let mut policy = PlainPolicy::new("retry_config");
    if kind != "agent_call" {
        let growth = Growth::new("exponential", [("base", SECOND), ("multiplier", 2 * MILLION)]);
        policy.rules.push(usual_rule(None, BTreeSet::new(), 3, growth));
    }
    policy
}

/// A kind of growth. Linear grows by the base unless a step is given; a list is a list whatever the
/// kind says.
fn growth(
    fields: &mut Fields,
    kind: &str,
    base: u128,
    factor: Option<u128>,
    words: &Words,
) -> Option<Growth> {
    let step = fields.length(words.step, words.unit)?.unwrap_or(base);
    let degree = fields.number("backoff_degree")?.unwrap_or(2);
    if let Some(delays) = fields.lengths(words.list, words.unit)? {
        return Some(Growth::list(delays));
    }
    Some(match kind {
        "none" => Growth::new("none", []),
        "fixed" | "constant" => Growth::new("fixed", [("base", base)]),
        "linear" => Growth::new("linear", [("base", base), ("step", step)]),
        "exponential" => {
            let factor = factor.unwrap_or(2 * MILLION);
            Growth::new("exponential", [("base", base), ("multiplier", factor)])
        }
        "fibonacci" => Growth::new("fibonacci", [("base", base)]),
        "polynomial" => Growth::new("polynomial", [("base", base), ("degree", degree)]),
        kind => Growth::custom(kind.strip_prefix("custom:")?),
    })
}
