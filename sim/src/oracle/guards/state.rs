//! The state of an action's guards at one time: whole histories, wide integers.

use std::collections::BTreeMap;

use retrial::policy::{Budget, Denied};
use retrial::run::{RunId, TaskId, Token};
use retrial::time::Timestamp;

use super::Rules;

/// A token, in millionths of a token times nanoseconds.
pub(super) const TOKEN: u128 = 1_000_000 * SECOND;
pub(super) const SECOND: u128 = 1_000_000_000;

/// When something happened: between two times, or at one.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) exact: bool,
}

/// The state of an action at one time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Counts the changes of phase.
    pub(super) number: u32,
    /// Counts the attempts that were probes.
    pub(super) probes: u64,
    pub(super) running: BTreeMap<(RunId, TaskId), Running>,
    /// The cost of a task's retry, by its last failed attempt.
    pub(super) costs: BTreeMap<(RunId, TaskId), u32>,
    pub(super) pace: Level,
    pub(super) tokens: Level,
    /// Whether starts were missed, so that what time fills may hold less than it seems.
    pub(super) vague: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Failures in a row, and the outcomes so far.
    Closed {
        row: u32,
        outcomes: Vec<(Timestamp, bool)>,
    },
    /// Until a time between these two.
    Open {
        from: Timestamp,
        until: Timestamp,
    },
    HalfOpen {
        well: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Running {
    pub(super) token: Token,
    /// The phase in which it started.
    pub(super) phase: u32,
    /// Whether its run was left alone since, so that its place may have been given away.
    pub(super) forgotten: bool,
}

/// A bucket that fills with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level {
    pub(super) holds: u128,
    pub(super) at: Timestamp,
}

impl Level {
    fn fill(&mut self, each: u128, most: u128, now: Timestamp) {
        let passed = u128::from(now.since(self.at).get());
        self.holds = self.holds.saturating_add(passed.saturating_mul(each)).min(most);
        self.at = self.at.max(now);
    }
}

impl State {
    pub(super) fn new(rules: &Rules) -> Self {
        let full = rules
            .rate
            .map_or(0, |rate| u128::from(rate.calls().get()) * u128::from(rate.per().get()));
        let initial = rules.budget.map_or(0, |b| u128::from(b.initial.min(b.capacity)) * TOKEN);
        Self {
            phase: closed(),
            number: 0,
            probes: 0,
            running: BTreeMap::new(),
            costs: BTreeMap::new(),
            pace: Level { holds: full, at: Timestamp::default() },
            tokens: Level { holds: initial, at: Timestamp::default() },
            vague: false,
        }
    }

    /// The same where it is not known when something started.
    pub(super) fn vague(mut self) -> Self {
        self.vague = true;
        self
    }

    /// The attempts that were probes.
    pub(super) fn probes(&self) -> u64 {
        self.probes
    }

    pub(super) fn fill(&mut self, rules: &Rules, now: Timestamp) {
        if let Some(rate) = rules.rate {
            let (calls, per) = (u128::from(rate.calls().get()), u128::from(rate.per().get()));
            self.pace.fill(calls, calls * per, now);
        }
        if let Some(budget) = rules.budget.filter(|b| b.on_denied == Denied::Wait) {
            // A retry's cost each second, from the first attempt on.
            let each = if self.tokens.at == Timestamp::default() { 0 } else { budget.cost };
            self.tokens.fill(u128::from(each) * 1_000_000, most(&budget), now);
        }
    }

    pub(super) fn turn(&mut self, phase: Phase) {
        self.number += 1;
        self.phase = phase;
    }
}

pub(super) fn closed() -> Phase {
    Phase::Closed { row: 0, outcomes: Vec::new() }
}

pub(super) fn most(budget: &Budget) -> u128 {
    u128::from(budget.capacity) * TOKEN
}
