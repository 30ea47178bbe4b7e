//! What one call has used up, and what follows a failure.

use crate::failure::{Class, Failure, RetryKind};
use crate::policy::{Dialect, Functions, GiveUp, Policy, Scope, Used, Verdict};
use crate::run::TaskId;
use crate::time::{Mono, Nanos, Timestamp};

/// One attempt, as the work sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// Retries left after it; `None` when unlimited.
    pub retries_left: Option<u32>,
    /// The time it may take; `None` when unlimited.
    pub timeout: Option<Nanos>,
    /// The failure of the previous attempt.
    pub last: Option<Failure>,
}

/// What decides of one call beside its policy.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) idempotent: bool,
    pub(super) retries_permanent: bool,
    pub(super) functions: Functions,
}

/// The retry that follows a failure.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) delay: Nanos,
    backoff: Nanos,
    rule: u32,
}

/// The progress of one call.
#[derive(Debug)]
pub(super) struct Progress {
    first_started: Mono,
    attempt: u32,
    timeout_retries: u32,
    by_rule: Vec<u32>,
    previous: Option<Nanos>,
    last: Option<Failure>,
    /// What jitter is drawn from.
    seed: u64,
}

impl Progress {
    pub(super) fn new(now: Mono, seed: u64) -> Self {
        Self {
            first_started: now,
            attempt: 1,
            timeout_retries: 0,
            by_rule: Vec::new(),
            previous: None,
            last: None,
            seed,
        }
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempt
    }

    /// The failure of the previous attempt.
    #[cfg(any(feature = "reqwest-middleware", feature = "tower"))]
    pub(super) fn last(&self) -> Option<&Failure> {
        self.last.as_ref()
    }

    /// The time that an attempt which begins now may take.
    pub(super) fn limit(&self, policy: &Policy, now: Mono) -> Option<Nanos> {
        let limits = [policy.attempt_timeout(), self.time_left(policy, now)];
        limits.into_iter().flatten().min()
    }

    /// The attempt that begins now.
    pub(super) fn attempt(&self, policy: &Policy, now: Mono) -> Attempt {
        let most = policy.limit().count();
        Attempt {
            number: self.attempt,
            retries_left: most.map(|most| most.saturating_sub(self.attempt)),
            timeout: self.limit(policy, now),
            last: self.last.clone(),
        }
    }

    /// The retry that follows a failure, or why there is none.
    pub(super) fn after(
        &self,
        policy: &Policy,
        terms: &Terms,
        failure: &Failure,
        now: Mono,
    ) -> Result<Next, GiveUp> {
        let used = Used {
            attempt: self.attempt,
            idempotent: terms.idempotent,
            timeout_retries: self.timeout_retries,
            by_rule: &self.by_rule,
            previous: self.previous,
            first_started: stamp(self.first_started),
        };
        // Drawn as for a run's first task.
        let chance = TaskId::FIRST.chance(self.seed, self.attempt);
        match policy.verdict(failure, &used, stamp(now), chance, &terms.functions) {
            Verdict::GiveUp(reason) => Err(reason),
            Verdict::Retry { delay, backoff, rule } if terms.covers(policy, rule, failure) => {
                Ok(Next { delay, backoff, rule })
            }
            Verdict::Retry { .. } => Err(GiveUp::NotRetryable),
        }
    }

    /// After its delay, the next attempt begins, unless the total timeout has passed meanwhile.
    pub(super) fn begin(
        &mut self,
        policy: &Policy,
        next: &Next,
        failure: &Failure,
        now: Mono,
    ) -> Result<(), GiveUp> {
        if self.time_left(policy, now) == Some(Nanos::ZERO) {
            return Err(GiveUp::TotalTimeout);
        }
        self.attempt = self.attempt.saturating_add(1);
        self.timeout_retries += u32::from(failure.kind() == RetryKind::Timeout);
        let place = usize::try_from(next.rule).unwrap_or(usize::MAX);
        if self.by_rule.len() <= place {
            self.by_rule.resize(place.saturating_add(1), 0);
        }
        if let Some(count) = self.by_rule.get_mut(place) {
            *count = count.saturating_add(1);
        }
        self.previous = Some(next.backoff);
        self.last = Some(failure.clone());
        Ok(())
    }

    /// The rest of the total timeout.
    pub(super) fn time_left(&self, policy: &Policy, now: Mono) -> Option<Nanos> {
        Some(policy.deadline(stamp(self.first_started))?.since(stamp(now)))
    }
}

impl Terms {
    /// Whether a rule covers a failure. A rule of the builder that names no failures is not meant for
    /// those that the classifier calls permanent.
    fn covers(&self, policy: &Policy, rule: u32, failure: &Failure) -> bool {
        let rule = usize::try_from(rule).ok().and_then(|at| policy.rules().get(at));
        let names_none = rule.is_some_and(|rule| rule.matcher.scope == Scope::Any);
        let built = policy.dialect() == Dialect::Builder;
        self.retries_permanent || !(built && names_none && failure.class() == Class::Permanent)
    }
}

/// The process's clock as a timestamp. The policy only compares such times.
pub(super) fn stamp(at: Mono) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos())
}
