//! The effect of an attempt's end on its action's guards.

use retrial::failure::{Class, Failure};
use retrial::guard::Breaker;
use retrial::policy::Budget;
use retrial::run::{RunId, TaskId};
use retrial::time::Timestamp;

use super::Rules;
use super::state::{Moment, Phase, State, TOKEN, closed, most};

impl State {
    pub(super) fn refill(&self, rules: &Rules, place: (RunId, TaskId), attempt: u32) -> u128 {
        let Some(budget) = &rules.budget else { return 0 };
        let tokens = match self.costs.get(&place) {
            _ if attempt == 1 => budget.refill.first_success,
            Some(cost) if budget.refill.refund => *cost,
            _ => 0,
        };
        u128::from(tokens) * TOKEN
    }

    pub(super) fn give(&mut self, budget: &Budget, share: u128, now: Timestamp) {
        self.tokens.holds = (self.tokens.holds + share).min(most(budget));
        self.tokens.at = self.tokens.at.max(now);
    }

    /// An attempt ends: `failed` is what it says about the action, if it says anything.
    pub(super) fn end(
        mut self,
        rules: &Rules,
        place: (RunId, TaskId),
        failed: Option<bool>,
        refill: u128,
        moment: Moment,
    ) -> Vec<Self> {
        let Some(running) = self.running.remove(&place) else { return vec![self] };
        // A forgotten attempt has no owner.
        let mut ends = if running.forgotten { vec![self.clone()] } else { Vec::new() };
        if let Some(budget) = rules.budget.filter(|_| refill > 0) {
            self.fill(rules, moment.from);
            self.give(&budget, refill, moment.from);
        }
        match (&rules.breaker, failed) {
            (Some(breaker), Some(failed)) if running.phase == self.number => {
                ends.extend(self.hear(breaker, failed, moment));
            }
            _ => ends.push(self),
        }
        ends
    }

    fn hear(mut self, breaker: &Breaker, failed: bool, moment: Moment) -> Vec<Self> {
        let now = moment.from;
        let open = Phase::Open {
            from: moment.from.after(breaker.open()),
            until: moment.until.after(breaker.open()),
        };
        match &mut self.phase {
            Phase::Closed { row, outcomes } => {
                *row = if failed { *row + 1 } else { 0 };
                outcomes.push((now, failed));
                let full = breaker.failures().is_some_and(|most| *row >= most.get());
                // A success opens nothing.
                let (may, must) =
                    if failed { reached(breaker, outcomes, now) } else { (false, false) };
                let mut after = Vec::new();
                if full || may {
                    let mut opened = self.clone();
                    opened.turn(open);
                    after.push(opened);
                }
                if !full && !must {
                    after.push(self);
                }
                return after;
            }
            Phase::HalfOpen { .. } if failed => self.turn(open),
            Phase::HalfOpen { well } => {
                *well += 1;
                if *well >= breaker.probes().get() {
                    self.turn(closed());
                }
            }
            Phase::Open { .. } => {}
        }
        vec![self]
    }
}

/// Whether the failures may have, and must have, reached the rate that opens the breaker: the
/// window is exact to a tenth of itself.
fn reached(breaker: &Breaker, outcomes: &[(Timestamp, bool)], now: Timestamp) -> (bool, bool) {
    let Some(rate) = breaker.rate() else { return (false, false) };
    let window = rate.window.get();
    let within = |at: Timestamp, span: u64| now.since(at).get() <= span;
    let sure =
        outcomes.iter().rev().take_while(|(at, _)| within(*at, window - window.div_ceil(10)));
    let last = outcomes.iter().rev().take_while(|(at, _)| within(*at, window));
    let (sure, last) = (sure.count(), last.count());
    let opens = |n: usize| {
        let failures = outcomes.iter().rev().take(n).filter(|(_, failed)| *failed).count();
        let share = u128::from(rate.share.millionths()) * n as u128;
        n >= rate.min_calls.get() as usize && failures as u128 * 1_000_000 >= share
    };
    let mut all = (sure..=last).map(opens);
    let must = all.clone().all(|opens| opens);
    (all.any(|opens| opens), must)
}

/// Whether a failed attempt counts against its action: a retryable failure and a timeout do, a
/// permanent failure does not. An attempt that lost its lease counts for neither.
pub(super) fn says(failure: &Failure) -> Option<bool> {
    match failure.class() {
        _ if failure.code().as_str() == "LEASE_LOST" => None,
        Class::Retryable => Some(true),
        Class::Permanent => Some(false),
    }
}
