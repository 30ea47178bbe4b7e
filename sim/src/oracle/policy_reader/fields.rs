//! The keys of a table, each read once; lengths of time; the settings that every dialect takes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::plain::{MILLION, MILLISECOND, PlainBudget, PlainPolicy, SECOND};

/// rh_agents' jitter: a quarter up and down.
pub(super) const USUAL_JITTER: (&str, u128) = ("proportional", MILLION / 4);

/// A table whose keys are taken one by one. What is left over at the end was not understood.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_object().cloned().map(Self)
    }

    pub(super) fn from_pairs(pairs: Map<String, Value>) -> Self {
        Self(pairs)
    }

    /// Takes a key; `Some(None)` where it is absent, `None` where `read` does not understand it.
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.0.remove(key) {
            None | Some(Value::Null) => Some(None),
            Some(value) => read(&value).map(Some),
        }
    }

    /// A length; a number without a unit counts `unit`.
    pub(super) fn length(&mut self, key: &str, unit: u128) -> Option<Option<u128>> {
        self.take(key, |value| length(value, unit))
    }

    pub(super) fn number(&mut self, key: &str) -> Option<Option<u128>> {
        self.take(key, |value| value.as_u64().map(u128::from))
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<Option<bool>> {
        self.take(key, Value::as_bool)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<Option<String>> {
        self.take(key, |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn names(&mut self, key: &str) -> Option<Option<BTreeSet<String>>> {
        self.take(key, |value| {
            value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
        })
    }

    pub(super) fn lengths(&mut self, key: &str, unit: u128) -> Option<Option<Vec<u128>>> {
        self.take(key, |value| value.as_array()?.iter().map(|one| length(one, unit)).collect())
    }

    /// A form by name, a share, or whether there is the usual one.
    pub(super) fn jitter(&mut self) -> Option<Option<(&'static str, u128)>> {
        self.take("jitter", |value| match value {
            Value::Bool(true) => Some(USUAL_JITTER),
            Value::Bool(false) => Some(("none", 0)),
            Value::Number(share) => Some(("proportional", decimal(&share.to_string(), MILLION)?)),
            Value::String(form) => match form.as_str() {
                "proportional" => Some(USUAL_JITTER),
                form => ["none", "full", "equal", "decorrelated"]
                    .into_iter()
                    .find(|known| *known == form)
                    .map(|known| (known, 0)),
            },
            _ => None,
        })
    }

    /// `read`, if every key was taken.
    pub(super) fn finish<T>(self, read: T) -> Option<T> {
        self.0.is_empty().then_some(read)
    }

    /// The settings of every dialect. Lengths are seconds unless they have a unit.
    pub(super) fn settings(&mut self, policy: &mut PlainPolicy) -> Option<()> {
        let attempt = self.length("attempt_timeout", SECOND)?;
        policy.attempt_timeout = attempt.or(policy.attempt_timeout);
        policy.total_timeout = self.length("total_timeout", SECOND)?.or(policy.total_timeout);
        policy.timeout_retries = self.number("timeout_retries")?.or(policy.timeout_retries);
        if let Some(longest) = self.length("max_retry_after", SECOND)? {
            policy.max_retry_after = longest;
        }
        policy.per_rule = match self.text("counting")?.as_deref() {
            None | Some("shared") => false,
            Some("per_rule") => true,
            Some(_) => return None,
        };
        policy.total_attempts = self.number("total_attempts")?;
        // Without an attempt timeout the last attempt starts a second before the end.
        let reserve = self.length("last_attempt_reserve", SECOND)?.unwrap_or(SECOND);
        policy.truncate = match self.text("at_deadline")?.as_deref() {
            None | Some("give_up") => None,
            Some("truncate") => Some(reserve),
            Some(_) => return None,
        };
        policy.retries_unknown_outcome = self.flag("retry_unknown_outcome")?.unwrap_or(false);
        if let Some(budget) = self.take("retry_budget", budget)? {
            policy.budget = Some(budget);
        }
        Some(())
    }
}

/// A share of first attempts. A table is not read.
fn budget(value: &Value) -> Option<PlainBudget> {
    let Value::Number(share) = value else { return None };
    decimal(&share.to_string(), MILLION).map(PlainBudget::of_first_attempts)
}

/// A number counts `unit`; a text has a unit of its own.
fn length(value: &Value, unit: u128) -> Option<u128> {
    match value {
        Value::Number(number) => decimal(&number.to_string(), unit),
        Value::String(text) => {
            let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
            let unit = match &text[end..] {
                "ms" => MILLISECOND,
                "s" => SECOND,
                "m" => 60 * SECOND,
                "h" => 3_600 * SECOND,
                "d" => 86_400 * SECOND,
                _ => return None,
            };
            decimal(text[..end].trim_end(), unit)
        }
        _ => None,
    }
}

/// `text` times `unit`, exact; `None` where the product is no whole number.
pub(super) fn decimal(text: &str, unit: u128) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok());
    let (whole, places): (u128, u128) = (digits(whole)??, digits(part)??);
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let product = places.checked_mul(unit)?;
    (product % scale == 0).then_some(())?;
    whole.checked_mul(unit)?.checked_add(product / scale)
}
