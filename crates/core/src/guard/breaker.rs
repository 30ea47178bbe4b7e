use std::mem::discriminant;

use serde::{Deserialize, Serialize};

use super::RECHECK;
use super::rules::{Breaker, FailureRate};
use super::standing::BreakerStanding;
use super::window::{Counts, Window};
use crate::time::Timestamp;

/// A circuit breaker's state, after Hystrix and resilience4j.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Circuit {
    /// Counts the changes of phase. Only attempts that were admitted in a phase speak about it.
    pub(super) epoch: u64,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Closed { in_a_row: u32, window: Window },
    Open { until: Timestamp },
    HalfOpen { successes: u32 },
}

impl Default for Circuit {
    fn default() -> Self {
        Self { epoch: 0, phase: Phase::closed() }
    }
}

impl Phase {
    fn closed() -> Self {
        Self::Closed { in_a_row: 0, window: Window::default() }
    }
}

impl Circuit {
    /// How many attempts may start at `now`. `probing` attempts that were admitted in this phase are
    /// in progress.
    pub(super) fn room(&self, rules: &Breaker, probing: usize, now: Timestamp) -> usize {
        let probes = rules.probes().get() as usize;
        match self.phase {
            Phase::Closed { .. } => usize::MAX,
            Phase::Open { until } if now < until => 0,
            Phase::Open { .. } => probes,
            Phase::HalfOpen { successes } => probes.saturating_sub(successes as usize + probing),
        }
    }

    /// Whether no attempt may start without being a probe.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// When to look again where there is no room: while it is open, that is before its time is over.
    pub(super) fn again(&self, now: Timestamp) -> Timestamp {
        match self.phase {
            Phase::Open { until } => until,
            _ => now.after(RECHECK),
        }
    }

    /// An attempt starts that was not refused: the first after the open time is the first probe.
    pub(super) fn admit(&mut self) {
        if self.is_open() {
            self.change(Phase::HalfOpen { successes: 0 });
        }
        invariant!(!self.is_open(), "an attempt that starts is a probe or the breaker is closed");
    }

    /// An attempt that was admitted in this phase has spoken.
    pub(super) fn hear(&mut self, rules: &Breaker, failed: bool, now: Timestamp) {
        let before = self.epoch;
        match &mut self.phase {
            Phase::Closed { in_a_row, window } => {
                *in_a_row = if failed { in_a_row.saturating_add(1) } else { 0 };
                if let Some(rate) = rules.rate() {
                    window.note(failed, rate.window, now);
                }
                let row = rules.failures().is_some_and(|most| *in_a_row >= most.get());
                let rate = rules.rate().is_some_and(|rate| reached(&rate, window.counts(now)));
                if failed && (row || rate) {
                    self.open(rules, now);
                }
            }
            Phase::HalfOpen { .. } if failed => self.open(rules, now),
            Phase::HalfOpen { successes } => {
                *successes += 1;
                if *successes >= rules.probes().get() {
                    self.change(Phase::closed());
                }
            }
            Phase::Open { .. } => {}
        }
        invariant!(self.epoch.wrapping_sub(before) <= 1, "one outcome changes the phase once");
    }

    pub(super) fn standing(&self, now: Timestamp) -> BreakerStanding {
        match &self.phase {
            Phase::Closed { in_a_row, window } => {
                BreakerStanding::Closed { in_a_row: *in_a_row, recent: window.counts(now).into() }
            }
            Phase::Open { until } => BreakerStanding::Open { until: *until },
            Phase::HalfOpen { successes } => BreakerStanding::HalfOpen { successes: *successes },
        }
    }

    fn open(&mut self, rules: &Breaker, now: Timestamp) {
        self.change(Phase::Open { until: now.after(rules.open()) });
    }

    fn change(&mut self, phase: Phase) {
        invariant!(discriminant(&self.phase) != discriminant(&phase), "a phase follows another");
        self.epoch = self.epoch.wrapping_add(1);
        self.phase = phase;
    }
}

fn reached(rate: &FailureRate, counts: Counts) -> bool {
    let share = u128::from(rate.share.millionths()) * u128::from(counts.calls);
    counts.calls >= u64::from(rate.min_calls.get())
        && u128::from(counts.failures) * 1_000_000 >= share
}
