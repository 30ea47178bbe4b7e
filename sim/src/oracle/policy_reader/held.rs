//! What the engine holds, in the same plain form.

use std::collections::{BTreeMap, BTreeSet};

use retrial::policy::{
    AtDeadline, Backoff, Budget, BudgetScope, Counting, Denied, Jitter, Policy, Rule, Scope, Shape,
};
use retrial::time::Nanos;

use super::plain::{Growth, PlainBudget, PlainPolicy, PlainRule};

fn wide(length: Nanos) -> u128 {
    u128::from(length.get())
}

impl From<&Policy> for PlainPolicy {
    fn from(policy: &Policy) -> Self {
        let (per_rule, total_attempts) = match policy.counting() {
            Counting::Shared => (false, None),
            Counting::PerRule { total } => (true, total.count().map(u128::from)),
        };
        let truncate = match policy.at_deadline() {
            AtDeadline::GiveUp => None,
            AtDeadline::Truncate { reserve } => Some(wide(reserve)),
        };
        Self {
            dialect: policy.dialect().name(),
            rules: policy.rules().iter().map(PlainRule::from).collect(),
            attempt_timeout: policy.attempt_timeout().map(wide),
            total_timeout: policy.total_timeout().map(wide),
            timeout_retries: policy.timeout_retries().map(u128::from),
            max_retry_after: wide(policy.max_retry_after()),
            per_rule,
            total_attempts,
            truncate,
            retries_unknown_outcome: policy.retries_unknown_outcome(),
            budget: policy.budget().map(PlainBudget::from),
        }
    }
}

impl From<&Rule> for PlainRule {
    fn from(rule: &Rule) -> Self {
        let Backoff { shape, jitter, cap } = &rule.backoff;
        let (scope, names) = match &rule.matcher.scope {
            Scope::Any => ("any", BTreeSet::new()),
            Scope::Retryable(names) => ("retryable", names.clone()),
            Scope::Names(names) => ("names", names.clone()),
        };
        Self {
            scope,
            names,
            except: rule.matcher.except.clone(),
            attempts: rule.limit.count().map(u128::from),
            growth: Growth::from(shape),
            cap: cap.map(wide),
            jitter: match jitter {
                Jitter::None => ("none", 0),
                Jitter::Proportional(share) => ("proportional", u128::from(share.millionths())),
                Jitter::Full => ("full", 0),
                Jitter::Equal => ("equal", 0),
                Jitter::Decorrelated => ("decorrelated", 0),
            },
        }
    }
}

impl From<&Shape> for Growth {
    fn from(shape: &Shape) -> Self {
        match shape {
            Shape::None => Self::new("none", []),
            Shape::Fixed { base } => Self::new("fixed", [("base", wide(*base))]),
            Shape::Linear { base, step } => {
                Self::new("linear", [("base", wide(*base)), ("step", wide(*step))])
            }
            Shape::Exponential { base, multiplier } => {
                let factor = u128::from(multiplier.millionths());
                Self::new("exponential", [("base", wide(*base)), ("multiplier", factor)])
            }
            Shape::Fibonacci { base } => Self::new("fibonacci", [("base", wide(*base))]),
            Shape::Polynomial { base, degree } => {
                let degree = u128::from(*degree);
                Self::new("polynomial", [("base", wide(*base)), ("degree", degree)])
            }
            Shape::List { delays } => {
                Self::list(delays.as_slice().iter().map(|delay| wide(*delay)).collect())
            }
            Shape::Custom { name } => Self::custom(name),
        }
    }
}

impl From<&Budget> for PlainBudget {
    fn from(budget: &Budget) -> Self {
        let count = |n: u32| u128::from(n);
        Self {
            numbers: BTreeMap::from([
                ("capacity", count(budget.capacity)),
                ("initial", count(budget.initial)),
                ("cost", count(budget.cost)),
                ("throttling_cost", count(budget.throttling_cost)),
                ("ratio", count(budget.refill.ratio.millionths())),
                ("first_success", count(budget.refill.first_success)),
                ("refund", u128::from(budget.refill.refund)),
            ]),
            scope: match budget.scope {
                BudgetScope::Action => "action",
                BudgetScope::Group => "group",
            },
            on_denied: match budget.on_denied {
                Denied::Fail => "fail",
                Denied::Wait => "wait",
            },
        }
    }
}
