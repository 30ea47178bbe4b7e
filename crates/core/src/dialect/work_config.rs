//! Argyll's `work_config` and its global default from `RETRY_*`.

use std::collections::BTreeSet;

use super::growth::{Growth, Terms};
use super::number::MILLISECOND;
use super::tree::{Data, Node};
use super::{Diagnostic, Place, Source, settings};
use crate::policy::Policy;
use crate::policy::{
    Backoff, Dialect, Jitter, Limit, Matcher, Multiplier, PolicyParts, Rule, Scope, Shape,
};
use crate::time::Nanos;

/// The dialect's own keys. Argyll has no `retryable_errors`.
pub(super) const KEYS: [&str; 9] = [
    "max_retries",
    "backoff",
    "max_backoff",
    "backoff_type",
    "retryable_errors",
    "jitter",
    // Not Argyll's.
    "backoff_step",
    "backoff_degree",
    "delays",
];

/// How the delay grows.
const TYPES: [(&str, Growth); 5] = [
    ("fixed", Growth::Fixed),
    ("linear", Growth::Linear),
    ("exponential", Growth::Exponential),
    ("polynomial", Growth::Polynomial),
    ("list", Growth::List),
];

/// The fields, and what they are when absent.
struct Config<'n> {
    max_retries: Option<&'n Node>,
    backoff: Option<&'n Node>,
    max_backoff: Option<&'n Node>,
    backoff_type: Option<&'n Node>,
    step: Option<&'n Node>,
    degree: Option<&'n Node>,
    delays: Option<&'n Node>,
    unset_backoff: Nanos,
    unset_cap: Option<Nanos>,
}

/// Reads a `work_config` table. Without `max_retries` retries are off; without `backoff` the
/// delay is 0, without `backoff_type` it is fixed, without `max_backoff` there is no cap.
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    let known: Vec<&str> = KEYS.into_iter().chain(settings::KEYS).collect();
    let fields = node.fields(&known)?;
    let config = Config {
        max_retries: fields.get("max_retries"),
        backoff: fields.get("backoff"),
        max_backoff: fields.get("max_backoff"),
        backoff_type: fields.get("backoff_type"),
        step: fields.get("backoff_step"),
        degree: fields.get("backoff_degree"),
        delays: fields.get("delays"),
        unset_backoff: Nanos::ZERO,
        unset_cap: None,
    };
    let also = fields.get("retryable_errors").map_or(Ok(BTreeSet::new()), Node::failures)?;
    let jitter = fields.get("jitter").map_or(Ok(Jitter::None), settings::jitter)?;
    let mut parts = PolicyParts::new(Dialect::WorkConfig);
    parts.rules.push(config.rule(also, jitter)?);
    settings::read(&fields, &mut parts)?;
    let blamed = config.max_retries.map_or(&node.place, |n| &n.place);
    super::policy_from(parts, blamed)
}

impl Config<'_> {
    fn rule(&self, also: BTreeSet<String>, jitter: Jitter) -> Result<Rule, Diagnostic> {
        let base = self.backoff.map_or(Ok(self.unset_backoff), |n| n.duration(MILLISECOND))?;
        let (step, degree, delays) = (self.step, self.degree, self.delays);
        let multiplier = Multiplier::TWO;
        let first = self.backoff;
        let terms = Terms { first, base, multiplier, step, degree, delays, unit: MILLISECOND };
        let shape = match (self.backoff_type, delays, step.or(degree)) {
            (Some(node), ..) => terms.shape(node.choice(&TYPES)?, node)?,
            (None, Some(delays), _) => terms.shape(Growth::List, delays)?,
            (None, None, Some(stray)) => terms.shape(Growth::Fixed, stray)?,
            (None, None, None) => Shape::Fixed { base },
        };
        let cap = match self.max_backoff {
            Some(node) => Some(node.duration(MILLISECOND)?),
            None => self.unset_cap,
        };
        Ok(Rule {
            matcher: Matcher { scope: Scope::Retryable(also), except: BTreeSet::new() },
            limit: self.max_retries.map_or(Ok(Limit::ONE), retries)?,
            backoff: Backoff { shape, jitter, cap },
        })
    }
}

/// `max_retries`: 0 is none, -1 unlimited, anything below an error.
fn retries(node: &Node) -> Result<Limit, Diagnostic> {
    match node.whole()? {
        -1 => Ok(Limit::Unlimited),
        n => u32::try_from(n).ok().filter(|n| *n < u32::MAX).map(Limit::retries).ok_or_else(|| {
            node.place
                .error(format!("`{n}` is not a number of retries"))
                .help_with("use 0 for none, a number for at most that many, or -1 for unlimited")
                .of_value()
        }),
    }
}

/// The defaults that the process's environment sets for a workflow file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    global: Option<Policy>,
}

impl Environment {
    /// The variables that are read.
    pub const NAMES: [&'static str; 4] =
        ["RETRY_MAX_RETRIES", "RETRY_BACKOFF", "RETRY_MAX_BACKOFF", "RETRY_BACKOFF_TYPE"];

    /// Reads the `RETRY_*` variables through `lookup`. When at least one is set they are the global
    /// default, those unset being 0 retries, 1000 ms, cap 60000 ms, fixed. An
    /// empty variable counts as unset.
    ///
    /// # Errors
    /// When the variables are no valid policy.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Diagnostic> {
        let node =
            |name: &str| lookup(name).filter(|v| !v.trim().is_empty()).map(|v| variable(name, &v));
        let [max_retries, backoff, max_backoff, backoff_type] = Self::NAMES.map(node);
        let set = [&max_retries, &backoff, &max_backoff, &backoff_type];
        let Some(blamed) = set.into_iter().flatten().next() else { return Ok(Self::default()) };
        let config = Config {
            max_retries: max_retries.as_ref(),
            backoff: backoff.as_ref(),
            max_backoff: max_backoff.as_ref(),
            backoff_type: backoff_type.as_ref(),
            step: None,
            degree: None,
            delays: None,
            unset_backoff: Nanos::from_secs(1),
            unset_cap: Some(Nanos::from_secs(60)),
        };
        let mut parts = PolicyParts::new(Dialect::WorkConfig);
        parts.rules.push(config.rule(BTreeSet::new(), Jitter::None)?);
        super::policy_from(parts, &blamed.place).map(|policy| Self { global: Some(policy) })
    }

    /// The global default policy, if the environment gives one.
    #[must_use]
    pub fn global(&self) -> Option<&Policy> {
        self.global.as_ref()
    }
}

/// A variable as a node: what looks like a number is one.
fn variable(name: &str, value: &str) -> Node {
    let value = value.trim();
    let source = Source::new("environment", &format!("{name}={value}"));
    let place = Place::whole(&source).child(name).at(name.len() + 1..source.text.len());
    let is_number = value.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && !value.ends_with(|c: char| c.is_ascii_alphabetic());
    let data = if is_number { Data::Number(value.into()) } else { Data::Text(value.into()) };
    Node { place, data }
}
