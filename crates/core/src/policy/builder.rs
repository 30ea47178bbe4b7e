use super::{
    AtDeadline, Backoff, Budget, Counting, Dialect, Limit, Matcher, Policy, PolicyError,
    PolicyParts, Rule,
};
use crate::time::Nanos;

/// Builds a [`Policy`] in Rust. Without rules nothing is retried.
///
/// ```
/// use retrial_core::policy::{Backoff, Policy};
/// use retrial_core::time::Nanos;
///
/// // Three attempts in all, on network failures only, waiting 60 s and 120 s.
/// let policy = Policy::builder()
///     .attempts(3)
///     .exception_types(["NetworkError"])
///     .backoff(Backoff::exponential(Nanos::from_secs(60)))
///     .attempt_timeout(Nanos::from_secs(120))
///     .build()?;
/// assert_eq!(policy.limit().count(), Some(3));
/// # Ok::<(), retrial_core::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyBuilder {
    parts: PolicyParts,
    limit: Limit,
    matcher: Matcher,
    backoff: Backoff,
}

impl Default for PolicyBuilder {
    fn default() -> Self {
        Self {
            parts: PolicyParts::new(Dialect::Builder),
            limit: Limit::ONE,
            matcher: Matcher::any(),
            backoff: Backoff::NONE,
        }
    }
}

impl PolicyBuilder {
    /// Attempts in all for the rule being built, the first included. Zero counts as one.
    #[must_use]
    pub fn attempts(mut self, n: u32) -> Self {
        self.limit = Limit::attempts(n).unwrap_or(Limit::ONE);
        self
    }

    /// No limit by count for the rule being built.
    #[must_use]
    pub fn unlimited(mut self) -> Self {
        self.limit = Limit::Unlimited;
        self
    }

    /// The codes or types that the rule being built applies to; none means every failure.
    #[must_use]
    pub fn exception_types<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.matcher(Matcher::named(names))
    }

    /// The failures that the rule being built applies to.
    #[must_use]
    pub fn matcher(mut self, matcher: Matcher) -> Self {
        self.matcher = matcher;
        self
    }

    /// The backoff of the rule being built.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Ends the rule being built and begins another.
    #[must_use]
    pub fn or(mut self) -> Self {
        self.parts.rules.push(Rule {
            matcher: self.matcher,
            limit: self.limit,
            backoff: self.backoff,
        });
        Self { parts: self.parts, ..Self::default() }
    }

    /// The most time one attempt may take.
    #[must_use]
    pub fn attempt_timeout(mut self, limit: impl Into<Nanos>) -> Self {
        self.parts.attempt_timeout = Some(limit.into());
        self
    }

    /// The most time all attempts and delays may take together.
    #[must_use]
    pub fn total_timeout(mut self, limit: impl Into<Nanos>) -> Self {
        self.parts.total_timeout = Some(limit.into());
        self
    }

    /// The most retries that timeouts may cause.
    #[must_use]
    pub fn timeout_retries(mut self, n: u32) -> Self {
        self.parts.timeout_retries = Some(n);
        self
    }

    /// The longest `Retry-After` that is accepted; a longer one ends the task.
    #[must_use]
    pub fn max_retry_after(mut self, limit: impl Into<Nanos>) -> Self {
        self.parts.max_retry_after = limit.into();
        self
    }

    /// Each rule counts its own retries; `total` bounds the attempts in all.
    #[must_use]
    pub fn count_per_rule(mut self, total: Limit) -> Self {
        self.parts.counting = Counting::PerRule { total };
        self
    }

    /// What happens to a delay that would cross the total timeout.
    #[must_use]
    pub fn at_deadline(mut self, what: AtDeadline) -> Self {
        self.parts.at_deadline = what;
        self
    }

    /// Retries after an unknown outcome even if the action is not idempotent.
    #[must_use]
    pub fn retry_unknown_outcome(mut self) -> Self {
        self.parts.retry_unknown_outcome = true;
        self
    }

    /// The retry budget that the tasks share.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.parts.budget = Some(budget);
        self
    }

    /// Builds the policy.
    ///
    /// # Errors
    /// When the policy is rejected: see [`PolicyError`].
    pub fn build(mut self) -> Result<Policy, PolicyError> {
        self.parts.rules.push(Rule {
            matcher: self.matcher,
            limit: self.limit,
            backoff: self.backoff,
        });
        Policy::try_from(self.parts)
    }
}
