//! Policies back to text: each dialect writes what it can express and returns `None` for the rest.
//!
//! Reading a written text gives the same policy again.

use std::collections::BTreeSet;

use super::budget;
use super::execution::DEFAULT_RETRYABLE;
use super::growth::MOST_DEGREE;
use super::ir::MOST_RULES;
use super::number::{millionths, milliseconds, seconds};
use super::scan::quote;
use super::settings::{self, jitter_text};
use super::tree::makes_sense;
use crate::policy::{
    ActionKind, Backoff, Budget, Dialect, Jitter, Multiplier, Policy, PolicyParts, Preset, Rule,
    Scope, Shape,
};
use crate::time::Nanos;

/// The policy's text in its own dialect; `None` for the builder, or where the dialect can't
/// express it.
#[must_use]
pub fn own(policy: &Policy) -> Option<String> {
    match policy.dialect() {
        Dialect::Ir => ir(policy),
        Dialect::WorkConfig => work_config(policy),
        Dialect::Execution => execution(policy),
        Dialect::RetryConfig => retry_config(policy),
        Dialect::Preset => Preset::of(policy).map(|preset| quote(preset.name())),
        Dialect::Builder => None,
    }
}

/// IR brackets.
#[must_use]
pub fn ir(policy: &Policy) -> Option<String> {
    if policy.rules().len() > MOST_RULES {
        return None;
    }
    let mut brackets: Vec<String> = policy.rules().iter().map(ir_rule).collect::<Option<_>>()?;
    let limits = [
        ("timeout", policy.attempt_timeout()),
        ("total_timeout", policy.total_timeout()),
        ("max_retry_after", set_retry_after(policy)),
    ];
    let limits = limits.into_iter().filter_map(|(key, limit)| Some((key, seconds(limit?))));
    brackets.extend(limits.map(|(key, limit)| format!("[{key}: {limit}]")));
    brackets.extend(policy.timeout_retries().map(|n| format!("[timeout_retries: {n}]")));
    let words = settings::texts(policy).into_iter();
    brackets.extend(words.map(|(key, value)| format!("[{key}: {}]", value.trim_matches('"'))));
    if let Some(budget) = policy.budget() {
        brackets.push(ir_budget(budget)?);
    }
    (!brackets.is_empty()).then(|| brackets.join(" "))
}

/// A bracket says the share alone.
fn ir_budget(budget: &Budget) -> Option<String> {
    let ratio = budget.refill.ratio;
    let share = millionths(ratio.millionths().into());
    (*budget == Budget::of_first_attempts(ratio)).then(|| format!("[retry_budget: {share}]"))
}

fn ir_rule(rule: &Rule) -> Option<String> {
    let names = match &rule.matcher.scope {
        _ if !rule.matcher.except.is_empty() => return None,
        Scope::Any => String::new(),
        Scope::Names(names) if names.iter().any(|name| !makes_sense(name)) => return None,
        Scope::Names(names) if !names.is_empty() => {
            let quoted: Vec<String> = names.iter().map(|n| quote(n)).collect();
            format!("({}) -> ", quoted.join(", "))
        }
        _ => return None,
    };
    let Shape::Exponential { base, multiplier: Multiplier::TWO } = rule.backoff.shape else {
        return None;
    };
    let plain = rule.backoff.jitter == Jitter::None && rule.backoff.cap.is_none();
    let retries = rule.limit.count()? - 1;
    plain.then(|| format!("[{names}retry: {retries}, backoff: {}]", seconds(base)))
}

/// `work_config` as a JSON object.
#[must_use]
pub fn work_config(policy: &Policy) -> Option<String> {
    let [rule] = policy.rules() else { return None };
    let Scope::Retryable(also) = &rule.matcher.scope else { return None };
    if !rule.matcher.except.is_empty() || rule.limit.count() == Some(u32::MAX) {
        return None;
    }
    let (kind, base) = match &rule.backoff.shape {
        Shape::Fixed { base } => ("fixed", Some(*base)),
        Shape::Linear { base, .. } => ("linear", Some(*base)),
        Shape::Exponential { base, multiplier: Multiplier::TWO } => ("exponential", Some(*base)),
        Shape::Polynomial { base, .. } => ("polynomial", Some(*base)),
        Shape::List { .. } => ("list", None),
        _ => return None,
    };
    let mut fields = Object::default();
    fields.put("max_retries", rule.limit.count().map_or("-1".into(), |n| (n - 1).to_string()));
    fields.put_some("backoff", base.map(milliseconds));
    fields.put("backoff_type", quote(kind));
    fields.growth(&rule.backoff.shape, ["backoff_step", "delays"], milliseconds)?;
    fields.put_some("max_backoff", rule.backoff.cap.map(milliseconds));
    if !also.is_empty() {
        fields.put("retryable_errors", list(also)?);
    }
    fields.put_some("jitter", jitter_unless(&rule.backoff, Jitter::None));
    fields.put_some("attempt_timeout", policy.attempt_timeout().map(seconds));
    fields.put_some("total_timeout", policy.total_timeout().map(seconds));
    fields.settings(policy);
    Some(fields.close())
}

/// `execution` as a JSON object.
#[must_use]
pub fn execution(policy: &Policy) -> Option<String> {
    let mut fields = Object::default();
    fields.put_some("timeout_ms", policy.attempt_timeout().map(milliseconds));
    match policy.rules() {
        [] => {}
        [rule] => fields.put("retry_policy", retry_policy(rule)?),
        _ => return None,
    }
    fields.put_some("total_timeout", policy.total_timeout().map(seconds));
    fields.settings(policy);
    Some(fields.close())
}

fn retry_policy(rule: &Rule) -> Option<String> {
    let Scope::Names(names) = &rule.matcher.scope else { return None };
    let (kind, base) = match &rule.backoff.shape {
        Shape::None => ("none", None),
        Shape::Linear { base, .. } => ("linear", Some(*base)),
        Shape::Exponential { base, multiplier: Multiplier::TWO } => ("exponential", Some(*base)),
        Shape::Polynomial { base, .. } => ("polynomial", Some(*base)),
        Shape::List { .. } => ("list", None),
        _ => return None,
    };
    let is_default = *names == BTreeSet::from(DEFAULT_RETRYABLE.map(str::to_owned));
    let mut fields = Object::default();
    fields.put("max_attempts", rule.limit.count()?.to_string());
    fields.put("backoff", quote(kind));
    fields.put_some("initial_delay_ms", base.map(milliseconds));
    fields.growth(&rule.backoff.shape, ["step_delay_ms", "delays_ms"], milliseconds)?;
    fields.put_some("max_delay_ms", rule.backoff.cap.map(milliseconds));
    if !is_default {
        fields.put("retryable_errors", list(names)?);
    }
    fields.put_some("jitter", jitter_unless(&rule.backoff, Jitter::None));
    rule.matcher.except.is_empty().then(|| fields.close())
}

/// `RetryConfig` as a JSON object.
#[must_use]
pub fn retry_config(policy: &Policy) -> Option<String> {
    let mut fields = Object::default();
    match policy.rules() {
        [] => fields.put("enabled", "false".into()),
        [rule] => rule_config(&mut fields, rule)?,
        _ => return None,
    }
    fields.put_some("retry_timeout", policy.total_timeout().map(seconds));
    fields.put_some("attempt_timeout", policy.attempt_timeout().map(seconds));
    fields.settings(policy);
    Some(fields.close())
}

fn rule_config(fields: &mut Object, rule: &Rule) -> Option<()> {
    let (kind, base) = match &rule.backoff.shape {
        Shape::Fixed { base } => ("constant".to_owned(), Some(*base)),
        Shape::Linear { base, .. } => ("linear".into(), Some(*base)),
        Shape::Exponential { base, .. } => ("exponential".into(), Some(*base)),
        Shape::Fibonacci { base } => ("fibonacci".into(), Some(*base)),
        Shape::Polynomial { base, .. } => ("polynomial".into(), Some(*base)),
        Shape::List { .. } => ("list".into(), None),
        Shape::Custom { name } if name.trim() != name || name.is_empty() => return None,
        Shape::Custom { name } => (format!("{}{name}", super::retry_config::CUSTOM), None),
        Shape::None => return None,
    };
    let defaults: BTreeSet<String> = ActionKind::PERMANENT_TYPES.map(str::to_owned).into();
    let allowed = match &rule.matcher.scope {
        Scope::Any => return None,
        Scope::Retryable(also) if also.is_empty() => None,
        Scope::Retryable(_) => return None,
        Scope::Names(names) => Some(names),
    };
    if !defaults.is_subset(&rule.matcher.except) {
        return None;
    }
    let excluded: BTreeSet<String> = rule.matcher.except.difference(&defaults).cloned().collect();
    fields.put("max_attempts", rule.limit.count()?.to_string());
    fields.put("backoff_strategy", quote(&kind));
    fields.put_some("initial_delay", base.map(seconds));
    fields.growth(&rule.backoff.shape, ["backoff_step", "delays"], seconds)?;
    if !matches!(rule.backoff.shape, Shape::List { .. }) {
        rule.backoff.cap?;
    }
    fields.put_some("max_delay", rule.backoff.cap.map(seconds));
    if let Shape::Exponential { multiplier, .. } = rule.backoff.shape {
        fields.put("backoff_multiplier", millionths(multiplier.millionths()));
    }
    fields.put("jitter", jitter_text(rule.backoff.jitter));
    if let Some(names) = allowed {
        fields.put("retry_on_exceptions", list(names)?);
    }
    if !excluded.is_empty() {
        fields.put("exclude_exceptions", list(&excluded)?);
    }
    Some(())
}

fn jitter_unless(backoff: &Backoff, usual: Jitter) -> Option<String> {
    (backoff.jitter != usual).then(|| jitter_text(backoff.jitter))
}

fn set_retry_after(policy: &Policy) -> Option<Nanos> {
    let limit = policy.max_retry_after();
    (limit != PolicyParts::MAX_RETRY_AFTER).then_some(limit)
}

/// `None` where a name could not be read back.
fn list(names: &BTreeSet<String>) -> Option<String> {
    if names.iter().any(|name| name.trim().is_empty() || !makes_sense(name)) {
        return None;
    }
    let quoted: Vec<String> = names.iter().map(|n| quote(n)).collect();
    Some(format!("[{}]", quoted.join(", ")))
}

/// A JSON object being written.
#[derive(Default)]
struct Object(Vec<String>);

impl Object {
    fn put(&mut self, key: &str, value: String) {
        self.0.push(format!("\"{key}\": {value}"));
    }

    fn put_some(&mut self, key: &str, value: Option<String>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    /// The keys of one kind of growth alone; `None` where a table can't express it.
    fn growth(&mut self, shape: &Shape, keys: [&str; 2], unit: fn(Nanos) -> String) -> Option<()> {
        let [step_key, delays_key] = keys;
        match shape {
            Shape::Linear { base, step } if base != step => self.put(step_key, unit(*step)),
            Shape::Polynomial { degree, .. } if (1..=MOST_DEGREE).contains(degree) => {
                self.put("backoff_degree", degree.to_string());
            }
            Shape::Polynomial { .. } => return None,
            Shape::List { delays } => {
                let delays: Vec<String> = delays.as_slice().iter().map(|d| unit(*d)).collect();
                self.put(delays_key, format!("[{}]", delays.join(", ")));
            }
            _ => {}
        }
        Some(())
    }

    /// The settings of every dialect, except the timeouts.
    fn settings(&mut self, policy: &Policy) {
        self.put_some("timeout_retries", policy.timeout_retries().map(|n| n.to_string()));
        self.put_some("max_retry_after", set_retry_after(policy).map(seconds));
        settings::texts(policy).into_iter().for_each(|(key, value)| self.put(key, value));
        self.put_some("retry_budget", policy.budget().map(budget::text));
    }

    fn close(self) -> String {
        format!("{{{}}}", self.0.join(", "))
    }
}
