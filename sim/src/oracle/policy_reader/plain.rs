//! A policy in the widest and simplest types.

use std::collections::{BTreeMap, BTreeSet};

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
