use std::collections::VecDeque;

use retrial_core::guard::{
    BreakerStanding, Ended, GuardInput, GuardRules, GuardState, HeldBy, Refusal,
};
use retrial_core::time::{Nanos, Timestamp};

use super::slab::Id;
use crate::model::{Edge, Tokens};

/// What one caller keeps of a callee: the core's guards, the bucket of tokens, and the calls that
/// wait for either.
#[derive(Debug)]
pub(super) struct Gate {
    guards: GuardState<u64>,
    bucket: Bucket,
    held: VecDeque<Id>,
    /// Retries that wait for the budget do not hold up first attempts.
    short: VecDeque<Id>,
    /// When it is looked at again.
    pub(super) wake: Option<Timestamp>,
}

impl Gate {
    pub(super) fn new(edge: &Edge) -> Self {
        Self {
            guards: GuardState::default(),
            bucket: Bucket::new(edge.tokens.unwrap_or_default()),
            held: VecDeque::new(),
            short: VecDeque::new(),
            wake: None,
        }
    }

    /// Whether a call that has not waited has to.
    pub(super) fn has_line(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn admit(
        &mut self,
        rules: &GuardRules,
        call: Id,
        first: bool,
        tokens: u32,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let input = GuardInput::Admit { attempt: call.number(), first, tokens };
        self.guards.take(rules, &input, now).map(drop)
    }

    pub(super) fn withdraw(
        &mut self,
        rules: &GuardRules,
        call: Id,
        tokens: u32,
        now: Timestamp,
    ) -> bool {
        let input = GuardInput::Withdraw { attempt: call.number(), tokens };
        self.guards.take(rules, &input, now).is_ok()
    }

    pub(super) fn end(
        &mut self,
        rules: &GuardRules,
        call: Id,
        how: Ended,
        refill: u32,
        now: Timestamp,
    ) {
        let input = GuardInput::Ended { attempt: call.number(), how, refill };
        // The end of an attempt is never refused; alerts hold nothing back.
        let _ = self.guards.take(rules, &input, now);
    }

    /// Lets `call` wait for what refused it.
    pub(super) fn hold(&mut self, call: Id, by: HeldBy) {
        self.line(by).push_back(call);
    }

    /// Puts a call back that was refused again.
    pub(super) fn hold_first(&mut self, call: Id, by: HeldBy) {
        self.line(by).push_front(call);
    }

    pub(super) fn next_held(&mut self, by: HeldBy) -> Option<Id> {
        self.line(by).pop_front()
    }

    fn line(&mut self, by: HeldBy) -> &mut VecDeque<Id> {
        if by == HeldBy::RetryBudget { &mut self.short } else { &mut self.held }
    }

    pub(super) fn waiting(&self) -> usize {
        self.held.len() + self.short.len()
    }

    pub(super) fn bucket(&mut self) -> &mut Bucket {
        &mut self.bucket
    }

    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        matches!(self.guards.standing(now).breaker, BreakerStanding::Open { .. })
    }

    /// What the policy's budget and the bucket hold, in tokens.
    pub(super) fn tokens(&self, edge: &Edge, now: Timestamp) -> Option<f64> {
        let own = edge.tokens.map(|t| self.bucket.holds as f64 - t.debt as f64);
        let budget = edge.guards.retry_budget.as_ref();
        let of_budget = budget.map(|b| {
            let held = self.guards.standing(now).tokens_millionths;
            held.unwrap_or(u64::from(b.initial) * 1_000_000) as f64
        });
        own.or(of_budget).map(|millionths| millionths / 1e6)
    }
}

/// The state of [`Tokens`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rules: Tokens,
    /// Counted from the lowest that it may hold, so `debt` stands for an empty bucket.
    holds: u64,
    at: Timestamp,
}

impl Bucket {
    pub(super) fn new(rules: Tokens) -> Self {
        Self {
            rules,
            holds: rules.debt + rules.initial.min(rules.capacity),
            at: Timestamp::default(),
        }
    }

    fn add(&mut self, millionths: u64, now: Timestamp) {
        let passed = u128::from(now.since(self.at).get()) * u128::from(self.rules.per_second);
        let by_time = u64::try_from(passed / 1_000_000_000).unwrap_or(u64::MAX);
        // The time that gave less than a millionth counts the next time.
        if self.rules.per_second > 0 {
            let used = u128::from(by_time) * 1_000_000_000;
            let used = used.div_ceil(u128::from(self.rules.per_second));
            self.at = self.at.after(Nanos::new(u64::try_from(used).unwrap_or(u64::MAX)));
        }
        let all = self.holds.saturating_add(by_time).saturating_add(millionths);
        self.holds = all.min(self.rules.debt + self.rules.capacity);
    }

    pub(super) fn first(&mut self, now: Timestamp) {
        self.add(self.rules.per_first, now);
    }

    pub(super) fn succeeded(&mut self, now: Timestamp) {
        self.add(self.rules.per_success, now);
    }

    pub(super) fn failed(&mut self, now: Timestamp) {
        self.add(0, now);
        self.holds = self.holds.saturating_sub(self.rules.per_failure);
    }

    /// Whether a retry may be made; then it is paid for.
    pub(super) fn retry(&mut self, now: Timestamp) -> bool {
        self.add(0, now);
        let Tokens { debt, per_retry, threshold, .. } = self.rules;
        let enough = self.holds >= debt + per_retry
            && threshold.is_none_or(|threshold| self.holds > debt + threshold);
        if enough {
            self.holds -= per_retry;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gRPC's retry throttling, as its proposal A6 gives it: `maxTokens` 10, `tokenRatio` 0.1. A
    /// failure takes one token, a success adds the ratio, and nothing is retried at half of the
    /// maximum or less. (github.com/grpc/proposal, A6-client-retries.md, "Throttling Retry Attempts
    /// and Hedged RPCs".)
    #[test]
    fn grpc_allows_no_retry_after_the_fifth_failure_and_again_after_51_successes() {
        let rules = Tokens {
            capacity: 10_000_000,
            initial: 10_000_000,
            per_failure: 1_000_000,
            per_success: 100_000,
            threshold: Some(5_000_000),
            ..Tokens::default()
        };
        let (mut bucket, now) = (Bucket::new(rules), Timestamp::default());
        let allowed: Vec<bool> = (0..10)
            .map(|_| {
                bucket.failed(now);
                bucket.retry(now)
            })
            .collect();
        assert_eq!(allowed, [[true; 4].as_slice(), &[false; 6]].concat());
        for n in 1..=51 {
            assert!(!bucket.retry(now), "after {} successes", n - 1);
            bucket.succeeded(now);
        }
        assert!(bucket.retry(now));
    }

    #[test]
    fn time_refills_exactly() {
        let rules = Tokens {
            capacity: 5_000_000,
            per_retry: 1_000_000,
            per_second: 300_000,
            ..Tokens::default()
        };
        let mut bucket = Bucket::new(rules);
        // Each look brings one and a half millionths.
        let granted =
            (0..4_000_000_u64).filter(|n| bucket.retry(Timestamp::from_nanos(n * 5_000))).count();
        // The sixth token comes at 20 s, just after the last look.
        assert_eq!(granted, 5);
    }
}
