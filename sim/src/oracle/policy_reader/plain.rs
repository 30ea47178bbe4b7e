//! A policy in the widest and simplest types, and what the engine holds in the same form.

use std::collections::{BTreeMap, BTreeSet};

use retrial::policy::{
    AtDeadline, Backoff, Budget, BudgetScope, Counting, Denied, Jitter, Policy, Rule, Scope, Shape,
};
use retrial::time::Nanos;

/// Nanoseconds of a second.
pub(super) const SECOND: u128 = 1_000_000_000;
/// Nanoseconds of a millisecond.
pub(super) const MILLISECOND: u128 = 1_000_000;
/// Millionths of a whole.
pub(super) const MILLION: u128 = 1_000_000;

/// A policy. Lengths are nanoseconds, shares and factors millionths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPolicy {
    /// The dialect's name.
    pub dialect: &'static str,
    /// The rules in text order.
    pub rules: Vec<PlainRule>,
    /// The most time of one attempt.
    pub attempt_timeout: Option<u128>,
    /// The most time of all attempts and delays.
    pub total_timeout: Option<u128>,
    /// The most retries that timeouts may cause.
    pub timeout_retries: Option<u128>,
    /// The longest `Retry-After` that is obeyed.
    pub max_retry_after: u128,
    /// Whether each rule counts the retries that it caused.
    pub per_rule: bool,
    /// With `per_rule`: the most attempts in all; `None` is unlimited.
    pub total_attempts: Option<u128>,
    /// How long before the deadline a truncated last attempt starts; `None` gives up.
    pub truncate: Option<u128>,
    /// Whether an unknown outcome is retried.
    pub retries_unknown_outcome: bool,
    /// The retry budget.
    pub budget: Option<PlainBudget>,
}

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRule {
    /// `any`, `retryable` or `names`.
    pub scope: &'static str,
    /// The names of the scope; with `retryable` they are retryable besides.
    pub names: BTreeSet<String>,
    /// What never matches.
    pub except: BTreeSet<String>,
    /// Attempts in all; `None` is unlimited.
    pub attempts: Option<u128>,
    /// How delays grow.
    pub growth: Growth,
    /// The longest delay.
    pub cap: Option<u128>,
    /// The form of jitter and, where it has one, its share.
    pub jitter: (&'static str, u128),
}

/// How delays grow: the kind, and the numbers that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The kind.
    pub kind: &'static str,
    /// Its lengths, factor or degree, by name.
    pub numbers: BTreeMap<&'static str, u128>,
    /// The delays of a list.
    pub delays: Vec<u128>,
    /// The name of a registered function.
    pub function: String,
}

impl Growth {
    /// Of this kind, with these numbers.
    #[must_use]
    pub fn new<const N: usize>(kind: &'static str, numbers: [(&'static str, u128); N]) -> Self {
        Self { kind, numbers: numbers.into(), delays: Vec::new(), function: String::new() }
    }

    /// A registered function.
    #[must_use]
    pub fn custom(function: &str) -> Self {
        Self { function: function.to_owned(), ..Self::new("custom", []) }
    }

    /// A list.
    #[must_use]
    pub fn list(delays: Vec<u128>) -> Self {
        Self { delays, ..Self::new("list", []) }
    }
}

/// A retry budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainBudget {
    /// Its tokens, costs and refills, by name; a flag is 0 or 1.
    pub numbers: BTreeMap<&'static str, u128>,
    /// Who shares it: `action` or `group`.
    pub scope: &'static str,
    /// What a denied retry does: `fail` or `wait`.
    pub on_denied: &'static str,
}

impl PlainBudget {
    /// A retry takes a token, each first attempt adds a share of one, and there are ten at first.
    #[must_use]
    pub fn of_first_attempts(share: u128) -> Self {
        let numbers = [
            ("capacity", 10),
            ("initial", 10),
            ("cost", 1),
            ("throttling_cost", 1),
            ("ratio", share),
            ("first_success", 0),
            ("refund", 0),
        ];
        Self { numbers: numbers.into(), scope: "action", on_denied: "fail" }
    }
}

impl PlainPolicy {
    /// No rules, no limits of time, `Retry-After` obeyed up to an hour.
    #[must_use]
    pub fn new(dialect: &'static str) -> Self {
        Self {
            dialect,
            rules: Vec::new(),
            attempt_timeout: None,
            total_timeout: None,
            timeout_retries: None,
            max_retry_after: 3_600 * SECOND,
            per_rule: false,
            total_attempts: None,
            truncate: None,
            retries_unknown_outcome: false,
            budget: None,
        }
    }

    /// Every field with its value, as a finding shows them.
    #[must_use]
    pub fn fields(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::from([
            ("dialect".to_owned(), self.dialect.to_owned()),
            ("rules".to_owned(), self.rules.len().to_string()),
            ("attempt timeout".to_owned(), shown(self.attempt_timeout)),
            ("total timeout".to_owned(), shown(self.total_timeout)),
            ("timeout retries".to_owned(), shown(self.timeout_retries)),
            ("max_retry_after".to_owned(), self.max_retry_after.to_string()),
            ("counting per rule".to_owned(), self.per_rule.to_string()),
            ("total attempts".to_owned(), shown(self.total_attempts)),
            ("truncated at the deadline".to_owned(), shown(self.truncate)),
            ("retries unknown outcome".to_owned(), self.retries_unknown_outcome.to_string()),
            ("retry budget".to_owned(), format!("{:?}", self.budget)),
        ]);
        for (at, rule) in self.rules.iter().enumerate() {
            rule.add_to(at + 1, &mut fields);
        }
        fields
    }
}

impl PlainRule {
    fn add_to(&self, place: usize, fields: &mut BTreeMap<String, String>) {
        let Growth { kind, numbers, delays, function } = &self.growth;
        let mut add =
            |name: &str, value: String| fields.insert(format!("{name} of rule {place}"), value);
        add("scope", self.scope.to_owned());
        add("names", format!("{:?}", self.names));
        add("exclusions", format!("{:?}", self.except));
        add("attempts", shown(self.attempts));
        add("backoff", [kind, function.as_str()].join(" ").trim_end().to_owned());
        add("delays", format!("{delays:?}"));
        add("cap", shown(self.cap));
        add("jitter", format!("{} {}", self.jitter.0, self.jitter.1));
        for (name, value) in numbers {
            add(name, value.to_string());
        }
    }
}

fn shown(value: Option<u128>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn wide(length: Nanos) -> u128 {
    u128::from(length.get())
}

/// What the engine holds.
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
