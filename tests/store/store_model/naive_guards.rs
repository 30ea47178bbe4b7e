//! When a store asks guards, and what follows from their answers.

use std::collections::BTreeMap;

use retrial::guard::{Ended, GuardInput, GuardState, HeldBy};
use retrial::store::{Commit, Guarding, Hold, Holder, QueueChange, QueueState, Raised};
use retrial::time::{Nanos, Timestamp};

use super::naive::{Naive, Row, Told, Why};

impl Naive {
    /// The guards after the commit, or what they hold back. What a guard decides is the guard
    /// room's own business; this is about when it is asked and what follows.
    pub(super) fn guard(
        &mut self,
        commit: &Commit,
    ) -> Result<BTreeMap<String, GuardState<Holder>>, Why> {
        let mut guards = self.guards.clone();
        let (mut held, mut holds, mut raised) = (vec![], vec![], vec![]);
        for Guarding { action, rules, inputs } in &commit.guards {
            for input in inputs {
                let state = guards.entry(action.clone()).or_default();
                let mut answer = state.take(rules, input, self.now);
                if answer.is_err() {
                    for lost in
                        state.running().filter(|h| self.is_lost(commit, h)).collect::<Vec<_>>()
                    {
                        let how = Ended::Silently;
                        state
                            .take(
                                rules,
                                &GuardInput::Ended { attempt: lost, how, refill: 0 },
                                self.now,
                            )
                            .unwrap();
                    }
                    answer = state.take(rules, input, self.now);
                }
                let attempt = input.attempt();
                let refusal = match answer {
                    Ok(alerts) => {
                        raised.extend(alerts.into_iter().map(|alert| Raised { attempt, alert }));
                        continue;
                    }
                    Err(refusal) => refusal,
                };
                let waiting = self.rows.iter().filter(|r| r.held.as_ref() == Some(action));
                let ahead = (waiting.count() + held.iter().filter(|a| *a == action).count()) as u64;
                let turn = match refusal.by {
                    HeldBy::Rate => rules.rate.unwrap().interval().saturating_mul(ahead),
                    _ => Nanos::ZERO,
                };
                let (by, until) = (refusal.by, refusal.until.after(turn));
                held.push(action.clone());
                holds.push(Hold { attempt, by, until });
            }
        }
        let names =
            |all: &[Raised]| all.iter().map(|r| (r.attempt, r.alert.threshold)).collect::<Vec<_>>();
        if holds.is_empty() && names(&raised) == names(&commit.raised) {
            return Ok(guards);
        }
        if holds.is_empty() {
            let until = self.now.after(Nanos::from_secs(60));
            return Err(self.remember(commit, Why::Untold(raised), until));
        }
        let running = self.is_running(commit.run);
        for (action, hold) in held.into_iter().zip(&holds) {
            let of = (commit.run, hold.attempt.task);
            let row = self.rows.iter_mut().find(|r| (r.run, r.shown.task) == of);
            let waits = |r: &&mut Row| matches!(r.shown.state, QueueState::Due { .. });
            if let Some(row) = row.filter(waits).filter(|_| running) {
                self.waited += 1;
                (row.order, row.reserved) = (self.waited, None);
                (row.held, row.asks) = (Some(action), Some(hold.until));
            }
        }
        let until = holds.iter().map(|hold| hold.until).max().unwrap();
        Err(self.remember(commit, Why::Held(holds), until))
    }

    fn remember(&mut self, commit: &Commit, why: Why, until: Timestamp) -> Why {
        let (id, now) = (commit.id, self.now);
        self.told.retain(|_, told| told.until > now);
        self.told.insert((commit.run, id.writer), Told { id, why: why.clone(), until });
        why
    }

    /// Whether the attempt can't be in progress: it has no lease that holds, and `commit` gives it
    /// none.
    fn is_lost(&self, commit: &Commit, holder: &Holder) -> bool {
        let of = (holder.run, holder.task);
        let row = self.rows.iter().find(|row| (row.run, row.shown.task) == of);
        let runs = row.is_some_and(|row| match row.shown.state {
            QueueState::Leased { token, .. } => {
                let over = row.end().is_some_and(|end| end <= self.now);
                token == holder.token && (self.is_running(row.run) || !over)
            }
            QueueState::Due { .. } => false,
        });
        let starts = |change: &QueueChange| match change {
            QueueChange::Lease { task, token, .. } => {
                (task, token) == (&holder.task, &holder.token)
            }
            _ => false,
        };
        let is_started = holder.run == commit.run && commit.queue.iter().any(starts);
        !(runs || is_started)
    }

    pub(super) fn let_through(
        &mut self,
        commit: &Commit,
        guards: BTreeMap<String, GuardState<Holder>>,
    ) {
        self.guards = guards;
        let mut actions: Vec<_> = commit.guards.iter().map(|g| &g.action).collect();
        actions.sort();
        actions.dedup();
        for action in actions {
            let all = || commit.guards.iter().filter(|g| g.action == *action);
            let ended = |input: &GuardInput<Holder>| matches!(input, GuardInput::Ended { .. });
            if !all().flat_map(|g| &g.inputs).any(ended) {
                continue;
            }
            let rules = &all().next_back().unwrap().rules;
            let room = self.guards[action].room(rules, self.now);
            let mut line: Vec<_> = self.rows.iter_mut().collect();
            line.retain(|r| r.held.as_ref() == Some(action));
            line.sort_by_key(|row| row.order);
            for row in line.into_iter().take(room) {
                self.waited += 1;
                row.order = self.waited;
                (row.held, row.asks) = (None, Some(self.now));
            }
        }
    }
}
