use std::fmt;

use serde::{Deserialize, Serialize};

use super::alerts::{Alert, Burning};
use super::breaker::Circuit;
use super::bucket::Bucket;
use super::rate_limit::Meter;
use super::rules::GuardRules;
use super::standing::Standing;
use super::{Breaker, RECHECK};
use crate::time::Timestamp;

/// The guard state of one action. `K` identifies an attempt. Its size is O(attempts in progress).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardState<K> {
    circuit: Circuit,
    meter: Meter,
    #[serde(default, skip_serializing_if = "Bucket::is_new")]
    bucket: Bucket,
    #[serde(default, skip_serializing_if = "Burning::is_new")]
    burning: Burning,
    /// In the order of admission.
    running: Vec<Admitted<K>>,
}

/// An attempt in progress, and the breaker's phase in which it was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Admitted<K> {
    attempt: K,
    epoch: u64,
}

/// An input to the guards of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardInput<K> {
    /// An attempt wants to start.
    Admit {
        /// The attempt.
        attempt: K,
        /// Whether it is its task's first, which the budget counts.
        first: bool,
        /// The tokens that it takes from the budget, where retries wait for them.
        #[serde(default, skip_serializing_if = "is_zero")]
        tokens: u32,
    },
    /// An attempt has failed and its task wants to try again, or fails for good where the budget
    /// denies it.
    Withdraw {
        /// The attempt that failed.
        attempt: K,
        /// The tokens that the retry takes.
        tokens: u32,
    },
    /// An attempt ended. An attempt that is not in progress is ignored.
    Ended {
        /// The attempt.
        attempt: K,
        /// What it says about the action.
        how: Ended,
        /// The tokens that this gives back to the budget.
        #[serde(default, skip_serializing_if = "is_zero")]
        refill: u32,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl<K: Copy> GuardInput<K> {
    /// The attempt that it is about.
    #[must_use]
    pub fn attempt(&self) -> K {
        match *self {
            Self::Admit { attempt, .. }
            | Self::Withdraw { attempt, .. }
            | Self::Ended { attempt, .. } => attempt,
        }
    }
}

/// What the end of an attempt says about the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The action is healthy: a success, or a failure caused by the caller, such as a 4xx.
    Well,
    /// The action is not: a retryable failure, a timeout.
    Badly,
    /// Unknown: the attempt was cancelled or its lease was lost.
    Silently,
}

/// Which guard holds an attempt back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// The circuit breaker is open, or all its probes are in progress.
    Breaker,
    /// As many attempts as may be are in progress.
    Concurrency,
    /// Attempts started too fast.
    Rate,
    /// Too many retries for the first attempts there were.
    RetryBudget,
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Breaker => "circuit breaker",
            Self::Concurrency => "concurrency limit",
            Self::Rate => "rate limit",
            Self::RetryBudget => "retry budget",
        })
    }
}

/// A refused input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// The guard.
    pub by: HeldBy,
    /// When to ask again.
    pub until: Timestamp,
}

impl<K> Default for GuardState<K> {
    fn default() -> Self {
        Self {
            circuit: Circuit::default(),
            meter: Meter::default(),
            bucket: Bucket::default(),
            burning: Burning::default(),
            running: Vec::new(),
        }
    }
}

impl<K: Copy + Eq> GuardState<K> {
    /// Applies `input` at `now` and returns the alerts that it raises.
    ///
    /// # Errors
    /// When a guard holds it back; then nothing has changed.
    pub fn take(
        &mut self,
        rules: &GuardRules,
        input: &GuardInput<K>,
        now: Timestamp,
    ) -> Result<Vec<Alert>, Refusal> {
        match *input {
            GuardInput::Admit { attempt, first, tokens } => {
                self.admit(rules, attempt, first, tokens, now)?;
            }
            GuardInput::Withdraw { tokens, .. } => self.withdraw(rules, tokens, now)?,
            GuardInput::Ended { attempt, how, refill } => {
                return Ok(self.end(rules, attempt, how, refill, now));
            }
        }
        Ok(Vec::new())
    }

    /// The attempts in progress.
    pub fn running(&self) -> impl Iterator<Item = K> {
        self.running.iter().map(|admitted| admitted.attempt)
    }

    /// The state at `now`, for display.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        Standing {
            breaker: self.circuit.standing(now),
            running: self.running.len() as u64,
            unpaced_at: self.meter.full_at(),
            tokens_millionths: self.bucket.millionths(),
            errors: self.burning.counts(now).into(),
            alerts_millionths: self.burning.raised().to_vec(),
        }
    }

    /// How many attempts could start at `now` as far as breaker and concurrency go.
    #[must_use]
    pub fn room(&self, rules: &GuardRules, now: Timestamp) -> usize {
        let most = rules.concurrency.map_or(usize::MAX, |n| n.get() as usize);
        let by_breaker = rules.breaker.map_or(usize::MAX, |b| self.room_of_breaker(&b, now));
        most.saturating_sub(self.running.len()).min(by_breaker)
    }

    fn room_of_breaker(&self, breaker: &Breaker, now: Timestamp) -> usize {
        let epoch = self.circuit.epoch;
        let probing = self.running.iter().filter(|admitted| admitted.epoch == epoch).count();
        self.circuit.room(breaker, probing, now)
    }

    fn withdraw(&mut self, rules: &GuardRules, tokens: u32, now: Timestamp) -> Result<(), Refusal> {
        let Some(budget) = rules.retry_budget.as_ref().filter(|_| tokens > 0) else {
            return Ok(());
        };
        let denied = |until| Refusal { by: HeldBy::RetryBudget, until };
        let before = self.bucket;
        let withdrawn = self.bucket.withdraw(budget, tokens, now).map_err(denied);
        invariant!(withdrawn.is_ok() || self.bucket == before, "a refusal changes nothing");
        withdrawn
    }

    fn admit(
        &mut self,
        rules: &GuardRules,
        attempt: K,
        first: bool,
        tokens: u32,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let held = |by| move |until| Refusal { by, until };
        let broken = rules.breaker.is_some_and(|b| self.room_of_breaker(&b, now) == 0);
        let full = rules.concurrency.is_some_and(|n| self.running.len() >= n.get() as usize);
        let rate = rules.rate.and_then(|pace| self.meter.refuses(&pace, now));
        let refusal = broken
            .then(|| self.circuit.again(now))
            .map(held(HeldBy::Breaker))
            .or_else(|| full.then(|| now.after(RECHECK)).map(held(HeldBy::Concurrency)))
            .or_else(|| rate.map(held(HeldBy::Rate)));
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        self.withdraw(rules, tokens, now)?;
        if let Some(budget) = rules.retry_budget.as_ref().filter(|_| first) {
            self.bucket.first_attempt(budget, now);
        }
        if rules.breaker.is_some() {
            self.circuit.admit();
        }
        if let Some(pace) = &rules.rate {
            let (before, most) = (self.meter.full_at(), now.after(pace.per()));
            self.meter.admit(pace, now);
            invariant!(self.meter.full_at() >= before.min(most), "a start refills nothing");
        }
        invariant!(
            rules.breaker.is_none() || !self.circuit.is_open(),
            "no attempt starts while the breaker is open"
        );
        self.running.push(Admitted { attempt, epoch: self.circuit.epoch });
        Ok(())
    }

    fn end(
        &mut self,
        rules: &GuardRules,
        attempt: K,
        how: Ended,
        refill: u32,
        now: Timestamp,
    ) -> Vec<Alert> {
        let Some(at) = self.running.iter().position(|a| a.attempt == attempt) else {
            return Vec::new();
        };
        if let Some(budget) = rules.retry_budget.as_ref().filter(|_| refill > 0) {
            self.bucket.refill(budget, refill, now);
        }
        let running = self.running.len();
        let epoch = self.running.remove(at).epoch;
        invariant_eq!(self.running.len() + 1, running, "one attempt ends, no other");
        let failed = match how {
            Ended::Well => false,
            Ended::Badly => true,
            Ended::Silently => return Vec::new(),
        };
        if let Some(breaker) = &rules.breaker
            && epoch == self.circuit.epoch
        {
            self.circuit.hear(breaker, failed, now);
        }
        let budget = rules.error_budget.as_ref();
        budget.map_or_else(Vec::new, |budget| self.burning.hear(budget, failed, now))
    }
}
