use serde::{Deserialize, Serialize};

use crate::policy::{Budget, Denied};
use crate::time::{Nanos, Timestamp};

const TOKEN: u64 = 1_000_000;

/// A retry budget's state: a bucket of tokens, as in Finagle's `RetryBudget` and gRPC's retry
/// throttling. In millionths of a token, so that a share of a first attempt is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Absent before anything touched it: then it holds what it holds at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    millionths: Option<u64>,
    /// When time last refilled it.
    #[serde(default)]
    at: Timestamp,
}

impl Bucket {
    /// The time in which one retry becomes possible again where retries wait: without it, those of
    /// an action that nobody calls for the first time would never start. (Ours. Finagle lets ten
    /// retries a second through.)
    pub const TRICKLE: Nanos = Nanos::from_secs(1);

    /// Whether nothing has touched it.
    #[must_use]
    pub fn is_new(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn millionths(&self) -> Option<u64> {
        self.millionths
    }

    fn holds(&self, budget: &Budget) -> u64 {
        let most = u64::from(budget.capacity) * TOKEN;
        self.millionths.unwrap_or(u64::from(budget.initial) * TOKEN).min(most)
    }

    /// Adds tokens, and what time gave since the last time where retries wait.
    fn add(&mut self, budget: &Budget, millionths: u64, now: Timestamp) {
        let before = self.holds(budget);
        let passed = match (budget.on_denied, self.millionths) {
            (Denied::Wait, Some(_)) => now.since(self.at),
            _ => Nanos::ZERO,
        };
        let share = u128::from(passed.get()) * u128::from(budget.cost) * u128::from(TOKEN);
        let share = u64::try_from(share / u128::from(Self::TRICKLE.get())).unwrap_or(u64::MAX);
        let most = u64::from(budget.capacity) * TOKEN;
        let all = self.holds(budget).saturating_add(share).saturating_add(millionths);
        (self.millionths, self.at) = (Some(all.min(most)), now);
        invariant!(self.holds(budget) >= before, "adding takes nothing out");
    }

    /// A first attempt starts.
    pub fn first_attempt(&mut self, budget: &Budget, now: Timestamp) {
        self.add(budget, u64::from(budget.refill.ratio.millionths()), now);
    }

    /// Tokens come back.
    pub fn refill(&mut self, budget: &Budget, tokens: u32, now: Timestamp) {
        self.add(budget, u64::from(tokens) * TOKEN, now);
    }

    /// Takes a retry's tokens out.
    ///
    /// # Errors
    /// When there are too few: then nothing is taken, and the time says when there will be enough
    /// if nothing but time refills it.
    pub fn withdraw(
        &mut self,
        budget: &Budget,
        tokens: u32,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let mut filled = *self;
        filled.add(budget, 0, now);
        let (holds, wanted) = (filled.holds(budget), u64::from(tokens) * TOKEN);
        match holds.checked_sub(wanted) {
            Some(rest) => {
                filled.millionths = Some(rest);
                *self = filled;
                invariant_eq!(self.holds(budget) + wanted, holds, "each token is taken once");
                Ok(())
            }
            None => {
                let missing = u128::from(wanted - holds) * u128::from(Self::TRICKLE.get());
                let wait = missing.div_ceil(u128::from(budget.cost.max(1)) * u128::from(TOKEN));
                Err(now.after(Nanos::new(u64::try_from(wait).unwrap_or(u64::MAX))))
            }
        }
    }
}
