//! Settings of the call as a whole, in brackets without a matcher.

use std::ops::Range;

use super::setting::Setting;
use crate::dialect::scan::{Fault, Scan};
use crate::dialect::settings::{self, COUNTINGS, DEADLINES};
use crate::policy::{AtDeadline, Budget, Counting, Limit, PolicyParts};
use crate::time::Nanos;

/// The keys: `timeout` and, but for `attempt_timeout`, which means the same, those of every
/// dialect.
pub(super) const KEYS: [&str; 10] = {
    let mut keys = settings::KEYS;
    keys[0] = "timeout";
    keys
};

const BOOLEANS: [(&str, bool); 2] = [("true", true), ("false", false)];

/// What the call as a whole says.
#[derive(Debug, Default)]
pub(super) struct Call {
    attempt_timeout: Option<Nanos>,
    total_timeout: Option<Nanos>,
    timeout_retries: Option<u32>,
    max_retry_after: Option<Nanos>,
    counting: Option<Counting>,
    total_attempts: Option<(Limit, Range<usize>)>,
    at_deadline: Option<AtDeadline>,
    reserve: Option<(Nanos, Range<usize>)>,
    retry_unknown_outcome: Option<bool>,
    budget: Option<Budget>,
}

impl Call {
    /// Takes in a setting whose key is one of [`KEYS`].
    pub(super) fn set(&mut self, s: &Setting<'_>) -> Scan<()> {
        match s.key {
            "timeout" => s.once(&mut self.attempt_timeout, s.timeout()?),
            "total_timeout" => s.once(&mut self.total_timeout, s.timeout()?),
            "max_retry_after" => s.once(&mut self.max_retry_after, s.duration()?),
            "counting" => s.once(&mut self.counting, s.choice(&COUNTINGS)?),
            "total_attempts" => {
                let most = Limit::attempts(s.count(1, u32::MAX)?).unwrap_or(Limit::ONE);
                s.once(&mut self.total_attempts, (most, s.key_span.clone()))
            }
            "at_deadline" => s.once(&mut self.at_deadline, s.choice(&DEADLINES)?),
            "last_attempt_reserve" => s.once(&mut self.reserve, (s.timeout()?, s.key_span.clone())),
            "retry_unknown_outcome" => {
                s.once(&mut self.retry_unknown_outcome, s.choice(&BOOLEANS)?)
            }
            "retry_budget" => s.once(&mut self.budget, Budget::of_first_attempts(s.share()?)),
            _ => s.once(&mut self.timeout_retries, s.count(0, u32::MAX)?),
        }
    }

    /// Whether each setting that needs another has it.
    pub(super) fn check(&self) -> Scan<()> {
        let shared = self.counting.unwrap_or_default().is_shared();
        let gives_up = self.at_deadline.unwrap_or_default().is_give_up();
        let stray = |span: &Range<usize>, key: &str, other: &str| {
            let message = format!("`{key}` has no effect without `{other}`");
            Err(Fault::new(span.clone(), message).help_with(format!("add [{other}]")))
        };
        match (&self.total_attempts, &self.reserve) {
            (Some((_, span)), _) if shared => stray(span, "total_attempts", "counting: per_rule"),
            (_, Some((_, span))) if gives_up => {
                stray(span, "last_attempt_reserve", "at_deadline: truncate")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn into_parts(self, parts: &mut PolicyParts) {
        parts.attempt_timeout = self.attempt_timeout;
        parts.total_timeout = self.total_timeout;
        parts.timeout_retries = self.timeout_retries;
        parts.max_retry_after = self.max_retry_after.unwrap_or(parts.max_retry_after);
        parts.counting = match (self.counting, self.total_attempts) {
            (Some(Counting::PerRule { .. }), Some((total, _))) => Counting::PerRule { total },
            (counting, _) => counting.unwrap_or_default(),
        };
        parts.at_deadline = match (self.at_deadline, self.reserve) {
            (Some(AtDeadline::Truncate { .. }), Some((reserve, _))) => {
                AtDeadline::Truncate { reserve }
            }
            (at_deadline, _) => at_deadline.unwrap_or_default(),
        };
        parts.retry_unknown_outcome = self.retry_unknown_outcome.unwrap_or(false);
        parts.budget = self.budget;
    }
}
