//! A naive model of one action's guards, from `docs/guards.md`: whole histories, wide integers.

use retrial::guard::HeldBy;
use retrial::policy::Denied;
use retrial::run::{Event, RunId, TaskId};
use retrial::store::Hold;
use retrial::time::Timestamp;

use super::attempt_ends::says;
use super::state::{Moment, Phase, Running, SECOND, State, TOKEN};
use super::{
    HELD_TOO_LONG, HELD_WITHOUT_NEED, OVER_BUDGET, Rules, STARTED_WHILE_OPEN, TOO_FAST,
    TOO_MANY_AT_ONCE, TOO_MANY_PROBES, cost,
};

/// A finding.
#[derive(Debug)]
pub(super) struct Breach {
    pub(super) reason: &'static str,
    pub(super) text: String,
}

impl State {
    /// The states that may follow an event. An error if the event may not happen, or if a hold of
    /// it has no reason.
    pub(super) fn take(
        mut self,
        rules: &Rules,
        run: RunId,
        event: &Event,
        holds: &[Hold],
        moment: Moment,
    ) -> Result<Vec<Self>, Breach> {
        match event {
            Event::AttemptStarted { task, attempt, token, .. } => {
                let tokens = self.tokens_of(rules, (run, *task), *attempt);
                if let Some(hold) = holds.iter().find(|hold| hold.attempt.token == *token) {
                    self.held(rules, hold, tokens, moment)?;
                } else {
                    self.start(rules, *attempt, tokens, moment)?;
                    let running = Running { token: *token, phase: self.number, forgotten: false };
                    self.running.insert((run, *task), running);
                }
            }
            Event::AttemptFailed { task, failure, .. } => {
                if let Some(budget) = &rules.budget {
                    self.costs.insert((run, *task), cost(budget, failure));
                }
                return Ok(self.end(rules, (run, *task), says(failure), 0, moment));
            }
            Event::TaskSucceeded { task, attempt, .. } => {
                let back = self.refill(rules, (run, *task), *attempt);
                return Ok(self.end(rules, (run, *task), Some(false), back, moment));
            }
            Event::RetryScheduled { task, .. } => {
                let held = |h: &&Hold| h.attempt.task == *task && h.by == HeldBy::RetryBudget;
                self.grant(rules, (run, *task), holds.iter().any(|hold| held(&hold)))?;
            }
            Event::TaskCancelled { task } => {
                self.running.remove(&(run, *task));
            }
            // Either calls off what is in progress.
            Event::RunEnded { .. } | Event::RollbackStarted { .. } => {
                self.running.retain(|(of, _), _| *of != run)
            }
            Event::RunDeactivated => {
                for ((of, _), running) in &mut self.running {
                    running.forgotten |= *of == run;
                }
            }
            _ => {}
        }
        Ok(vec![self])
    }

    /// The tokens that a start takes from a budget with waiting retries.
    fn tokens_of(&self, rules: &Rules, place: (RunId, TaskId), attempt: u32) -> u128 {
        let waits = rules.budget.is_some_and(|budget| budget.on_denied == Denied::Wait);
        let cost = self.costs.get(&place).copied().filter(|_| waits && attempt > 1);
        u128::from(cost.unwrap_or(0)) * TOKEN
    }

    /// Attempts in progress, less those that may have been forgotten: at least so many are left.
    fn surely(&self, which: impl Fn(&Running) -> bool) -> usize {
        self.running.values().filter(|r| !r.forgotten && which(r)).count()
    }

    fn possibly(&self, which: impl Fn(&Running) -> bool) -> usize {
        self.running.values().filter(|r| which(r)).count()
    }

    fn start(
        &mut self,
        rules: &Rules,
        attempt: u32,
        tokens: u128,
        moment: Moment,
    ) -> Result<(), Breach> {
        let now = moment.from;
        self.fill(rules, now);
        if moment.exact {
            self.may_start(rules, tokens, now)?;
        }
        if rules.breaker.is_some() {
            if let Phase::Open { .. } = self.phase {
                self.turn(Phase::HalfOpen { well: 0 });
            }
            self.probes += u64::from(matches!(self.phase, Phase::HalfOpen { .. }));
        }
        if let Some(rate) = rules.rate.filter(|_| moment.exact) {
            self.pace.holds = self.pace.holds.saturating_sub(u128::from(rate.per().get()));
        }
        if let Some(budget) = &rules.budget {
            self.tokens.holds = self.tokens.holds.saturating_sub(tokens);
            let share = u128::from(budget.refill.ratio.millionths()) * SECOND;
            if attempt == 1 {
                self.give(budget, share, now);
            }
        }
        Ok(())
    }

    fn may_start(&self, rules: &Rules, tokens: u128, now: Timestamp) -> Result<(), Breach> {
        let breach = |reason, text| Err(Breach { reason, text });
        if let Some(breaker) = &rules.breaker {
            let probes = breaker.probes().get() as usize;
            match self.phase {
                Phase::Open { from, .. } if now < from => {
                    let text = format!("an attempt started at {now}, open until {from}");
                    return breach(STARTED_WHILE_OPEN, text);
                }
                Phase::HalfOpen { well } => {
                    let out = well as usize + self.surely(|r| r.phase == self.number);
                    if out >= probes {
                        let text = format!("another started at {now} after {out} probes");
                        return breach(TOO_MANY_PROBES, text);
                    }
                }
                _ => {}
            }
        }
        let running = self.surely(|_| true);
        if rules.concurrency.is_some_and(|most| running >= most) {
            let text = format!("another started at {now} beside {running}");
            return breach(TOO_MANY_AT_ONCE, text);
        }
        // Its parts are whole nanoseconds, so it may be a few early.
        if let Some(rate) = rules.rate {
            let (calls, per) = (u128::from(rate.calls().get()), u128::from(rate.per().get()));
            if self.pace.holds + calls * calls < per && !self.vague {
                return breach(TOO_FAST, format!("another started at {now}"));
            }
        }
        if self.tokens.holds < tokens && !self.vague {
            return breach(OVER_BUDGET, format!("a retry started at {now} without its tokens"));
        }
        Ok(())
    }

    /// Whether the named guard had to hold a start back.
    fn held(
        &mut self,
        rules: &Rules,
        hold: &Hold,
        tokens: u128,
        moment: Moment,
    ) -> Result<(), Breach> {
        let now = moment.from;
        self.fill(rules, now);
        let until = hold.until;
        // Whether something else may have taken from the buckets.
        let unknown = self.vague || !moment.exact;
        let need = match hold.by {
            HeldBy::Breaker => {
                let probes = rules.breaker.map_or(usize::MAX, |b| b.probes().get() as usize);
                match self.phase {
                    Phase::Closed { .. } => false,
                    Phase::Open { until: latest, .. } if until > latest && now < latest => {
                        let text = format!("held until {until}, open until {latest}");
                        return Err(Breach { reason: HELD_TOO_LONG, text });
                    }
                    Phase::Open { until: latest, .. } => now < latest,
                    Phase::HalfOpen { well } => {
                        well as usize + self.possibly(|r| r.phase == self.number) >= probes
                    }
                }
            }
            HeldBy::Concurrency => {
                rules.concurrency.is_some_and(|most| self.possibly(|_| true) >= most)
            }
            HeldBy::Rate => rules.rate.is_some_and(|rate| {
                let per = u128::from(rate.per().get());
                unknown || self.pace.holds < per + per / 1_000
            }),
            HeldBy::RetryBudget => {
                tokens > 0 && (unknown || self.tokens.holds < tokens + TOKEN / 1_000)
            }
        };
        if need && until > now {
            return Ok(());
        }
        let text = format!("held by its {} at {now} until {until}", hold.by);
        Err(Breach { reason: HELD_WITHOUT_NEED, text })
    }

    /// A retry that does not wait for its budget is granted, or denied, when it is scheduled.
    fn grant(&mut self, rules: &Rules, place: (RunId, TaskId), denied: bool) -> Result<(), Breach> {
        let Some(budget) = rules.budget.filter(|b| b.on_denied == Denied::Fail) else {
            return Ok(());
        };
        let wanted = u128::from(self.costs.get(&place).copied().unwrap_or(budget.cost)) * TOKEN;
        let (holds, task) = (self.tokens.holds / SECOND, place.1);
        let affords = self.tokens.holds >= wanted;
        if affords == denied {
            let reason = if denied { HELD_WITHOUT_NEED } else { OVER_BUDGET };
            let word = if denied { "denied" } else { "granted" };
            let text = format!("a retry of task {task} was {word} with {holds} millionths left");
            return Err(Breach { reason, text });
        }
        if !denied {
            self.tokens.holds -= wanted;
        }
        Ok(())
    }
}
