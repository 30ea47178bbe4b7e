use serde::{Deserialize, Serialize};

use super::Share;
use crate::failure::Failure;

/// A retry budget: it limits the retries of many tasks together with a bucket of tokens, from which
/// each retry takes its cost. Plain data; `guard` keeps the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// The most tokens that the bucket holds.
    pub capacity: u32,
    /// The tokens in it at the start.
    pub initial: u32,
    /// The tokens that a retry takes.
    pub cost: u32,
    /// The tokens that a retry takes after a failure that was throttling.
    pub throttling_cost: u32,
    /// How tokens are added.
    pub refill: Refill,
    /// Whose retries share the bucket.
    pub scope: BudgetScope,
    /// What happens to a retry when there are too few tokens.
    pub on_denied: Denied,
}

/// How tokens are added to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refill {
    /// The share of a token that each first attempt adds: 0.1 allows one retry in ten requests.
    #[serde(rename = "ratio_millionths")]
    pub ratio: Share,
    /// The tokens that a success at the first attempt adds.
    pub first_success: u32,
    /// Whether a success after retries returns what the last retry took.
    pub refund: bool,
}

/// Whose retries share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// All tasks of the action, in every run.
    Action,
    /// The tasks of one fanned-out step of one run.
    Group,
}

/// What happens to a retry when there are too few tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denied {
    /// The task fails now.
    Fail,
    /// The retry waits until there are enough.
    Wait,
}

/// Why a budget is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// A bucket that can never hold what a retry costs lets none through.
    #[error(
        "the retry budget holds {capacity} tokens and a retry takes {cost}: no retry could ever be made; raise the capacity or turn retries off"
    )]
    TooSmall {
        /// What the bucket holds.
        capacity: u32,
        /// What a retry takes.
        cost: u32,
    },
    /// A retry that costs nothing is not bounded.
    #[error("a retry that takes no token is not bounded; use a cost of 1 or more")]
    NoCost,
    /// More tokens at first than the bucket holds.
    #[error(
        "the retry budget starts with {initial} tokens but holds only {capacity}; raise the capacity"
    )]
    Overfull {
        /// What it begins with.
        initial: u32,
        /// What it holds.
        capacity: u32,
    },
    /// A bucket that nothing refills stays empty once it is used up.
    #[error(
        "nothing refills the retry budget; set a ratio, a refund or tokens for first successes"
    )]
    NeverRefilled,
    /// All of a group's first attempts start together, so no token would ever arrive.
    #[error(
        "the retries of one fan-out can't wait for their budget: no later first attempt refills it; let them fail, or share the budget by action"
    )]
    GroupWaits,
}

impl Budget {
    /// Retries limited to `ratio` of first attempts, plus ten: a retry takes one token, each
    /// first attempt adds `ratio` of one.
    #[must_use]
    pub fn of_first_attempts(ratio: Share) -> Self {
        Self {
            capacity: 10,
            initial: 10,
            cost: 1,
            throttling_cost: 1,
            refill: Refill { ratio, first_success: 0, refund: false },
            scope: BudgetScope::Action,
            on_denied: Denied::Fail,
        }
    }

    /// The tokens that a retry after `failure` takes.
    #[must_use]
    pub fn cost_of(&self, failure: &Failure) -> u32 {
        if failure.is_throttling() { self.throttling_cost } else { self.cost }
    }

    /// The tokens that are added when the `attempt`-th attempt succeeds, `last` being the failure
    /// before it.
    #[must_use]
    pub fn refill_of_success(&self, attempt: u32, last: Option<&Failure>) -> u32 {
        match last {
            _ if attempt <= 1 => self.refill.first_success,
            Some(failure) if self.refill.refund => self.cost_of(failure),
            _ => 0,
        }
    }

    /// Checks that retries can be made and are bounded.
    ///
    /// # Errors
    /// The reason, and what to change.
    pub fn check(&self) -> Result<(), BudgetError> {
        let Self { capacity, initial, .. } = *self;
        let cost = self.cost.max(self.throttling_cost);
        if self.cost.min(self.throttling_cost) == 0 {
            return Err(BudgetError::NoCost);
        }
        if cost > capacity {
            return Err(BudgetError::TooSmall { capacity, cost });
        }
        if self.scope == BudgetScope::Group && self.on_denied == Denied::Wait {
            return Err(BudgetError::GroupWaits);
        }
        if initial > capacity {
            return Err(BudgetError::Overfull { initial, capacity });
        }
        let Refill { ratio, first_success, refund } = self.refill;
        let refills = ratio.millionths() > 0 || first_success > 0 || refund;
        if refills { Ok(()) } else { Err(BudgetError::NeverRefilled) }
    }
}
