//! The explanation as JSON, for programs.

use serde_json::{Value, json};

use super::{Delay, Explained, Explanation};
use crate::policy::{Matcher, Preset, Rule, Scope};
use crate::time::Nanos;
use crate::workflow::Webhook;

impl Explained {
    /// One policy's object, or `workflow` and one such object a step, with its `step` and `origin`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::One(explanation) => explanation.to_json(),
            Self::Steps { workflow, steps } => json!({
                "workflow": workflow,
                "steps": steps.iter().map(Explanation::to_json).collect::<Value>(),
            }),
        }
    }
}

impl Explanation {
    /// `matches` holds codes and types, `*` for all, `retryable` for the retryable class, and
    /// `!NAME` for what is out all the same. Delays are milliseconds, the least rounded down, the
    /// most rounded up.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rules = self.policy.rules().iter().zip(&self.delays);
        let mut object = json!({
            "dialect": self.policy.dialect().name(),
            "preset": Preset::of(&self.policy).map(|p| json!({ "name": p.name(), "source": p.source() })),
            "retry_unknown_outcome": self.policy.retries_unknown_outcome(),
            "rules": rules.map(|(rule, delays)| rule_json(rule, delays)).collect::<Value>(),
            "attempt_timeout_ms": self.policy.attempt_timeout().map(Nanos::as_millis),
            "total_timeout_ms": self.policy.total_timeout().map(Nanos::as_millis),
            "max_attempts": self.policy.limit().count(),
            "counting": self.policy.counting(),
            "at_deadline": self.policy.at_deadline(),
            "retry_budget": self.policy.budget(),
            "warnings": self.warnings.iter().map(ToString::to_string).collect::<Value>(),
        });
        if let (Some(step), Some(map)) = (&self.step, object.as_object_mut()) {
            map.insert("step".into(), json!(step.step));
            map.insert("origin".into(), json!(step.origin));
            let action = step.action.as_ref();
            if let Some(budget) = action.and_then(|a| a.guard.error_budget.as_ref()) {
                map.insert("error_budget".into(), json!(budget));
                let webhook = action.and_then(|a| a.webhook.as_ref()).map(Webhook::name);
                map.insert("webhook".into(), json!(webhook));
            }
        }
        object
    }
}

fn rule_json(rule: &Rule, delays: &[Delay]) -> Value {
    json!({
        "matches": matches(&rule.matcher),
        "max_attempts": rule.limit.count(),
        "delays_ms": delays.iter().map(delay_json).collect::<Value>(),
    })
}

fn delay_json(delay: &Delay) -> Value {
    json!({
        "retry": delay.retry,
        "min": delay.earliest.as_millis(),
        "max": delay.latest.as_millis_ceil(),
    })
}

fn matches(matcher: &Matcher) -> Vec<String> {
    let scope: Vec<String> = match &matcher.scope {
        Scope::Any => vec!["*".into()],
        Scope::Retryable(also) => {
            std::iter::once("retryable".to_owned()).chain(also.iter().cloned()).collect()
        }
        Scope::Names(names) => names.iter().cloned().collect(),
    };
    scope.into_iter().chain(matcher.except.iter().map(|name| format!("!{name}"))).collect()
}
