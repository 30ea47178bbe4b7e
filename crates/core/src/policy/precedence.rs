//! Which policy a task gets: its own, else its action's, else its kind's, else the global one, else
//! the built-in. The most specific wins whole; nothing is merged.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Backoff, Dialect, Jitter, Limit, Matcher, Policy, PolicyParts, Rule, Share};
use crate::time::Nanos;

/// The kind of an action, which picks its built-in policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// A tool call: 3 attempts, exponential from 1 s, cap 30 s.
    #[default]
    ToolCall,
    /// A call of a language model: as a tool call.
    LlmCall,
    /// A call of an agent, which handles its own failures: no retries.
    AgentCall,
}

/// Where a task's policy came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The step itself.
    Task,
    /// The action that the step invokes.
    Action,
    /// The default for the action's kind.
    Kind,
    /// The global default.
    Global,
    /// Built in.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task => "the step",
            Self::Action => "the action",
            Self::Kind => "the action kind's default",
            Self::Global => "the global default",
            Self::BuiltIn => "the built-in default",
        })
    }
}

/// The policies that apply where a step has none of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// By the action's name.
    pub by_action: BTreeMap<String, Policy>,
    /// By action kind.
    pub by_kind: BTreeMap<ActionKind, Policy>,
    /// For everything else.
    pub global: Option<Policy>,
}

impl Defaults {
    /// The policy of a task whose step sets `own` and invokes `action`, which is of `kind`; and where
    /// it came from.
    #[must_use]
    pub fn resolve(&self, own: Option<Policy>, action: &str, kind: ActionKind) -> (Policy, Origin) {
        if let Some(policy) = own {
            return (policy, Origin::Task);
        }
        if let Some(policy) = self.by_action.get(action) {
            return (policy.clone(), Origin::Action);
        }
        if let Some(policy) = self.by_kind.get(&kind) {
            return (policy.clone(), Origin::Kind);
        }
        match &self.global {
            Some(policy) => (policy.clone(), Origin::Global),
            None => (kind.built_in(), Origin::BuiltIn),
        }
    }
}

impl ActionKind {
    /// The types that `retry_config` never retries.
    pub const PERMANENT_TYPES: [&'static str; 5] =
        ["ValidationError", "ValueError", "TypeError", "KeyError", "AttributeError"];

    /// The built-in policy of the kind.
    #[must_use]
    pub fn built_in(self) -> Policy {
        let mut parts = PolicyParts::new(Dialect::RetryConfig);
        if self != Self::AgentCall {
            let mut matcher = Matcher::retryable();
            matcher.except = Self::PERMANENT_TYPES.map(str::to_owned).into();
            parts.rules.push(Rule {
                matcher,
                limit: Limit::retries(2),
                backoff: Backoff::exponential(Nanos::from_secs(1))
                    .with_cap(Nanos::from_secs(30))
                    .with_jitter(Jitter::Proportional(Share::QUARTER)),
            });
        }
        Policy(parts.into())
    }
}
