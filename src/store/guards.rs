//! The guards of actions: what a commit does to them, and which commits they hold back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::records::Records;
use super::requests::Requests;
use super::seam::{Commit, CommitId, Committed, QueueChange, StoreError};
use crate::guard::{
    Alert, Bucket, Ended, GuardInput, GuardRules, GuardState, HeldBy, Refusal, Standing,
};
use crate::run::{RunId, TaskId, Token};
use crate::time::{Nanos, Timestamp};

/// One attempt, as guards name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Its run.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
    /// Its token.
    pub token: Token,
}

/// What a commit changes in the guards of one action. The store applies it when the commit lands, at
/// that time, so each attempt counts exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarding {
    /// The action.
    pub action: String,
    /// The rules, from the run's workflow.
    pub rules: Arc<GuardRules>,
    /// What happens, in order.
    pub inputs: Vec<GuardInput<Holder>>,
}

/// Something that a guard holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The attempt that may not start.
    pub attempt: Holder,
    /// The guard.
    pub by: HeldBy,
    /// When to ask the guard again, store time.
    pub until: Timestamp,
}

/// An alert that the end of an attempt raises. The commit that records the end must announce it, so
/// that the store raises an alert exactly where the run's events say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The attempt whose failure raises it.
    pub attempt: Holder,
    /// The alert. The numbers in a commit may be a little old; which alerts it raises may not.
    pub alert: Alert,
}

impl Raised {
    /// The part that a commit must match. The numbers may have changed since it was written.
    fn what(&self) -> (Holder, u64) {
        (self.attempt, self.alert.threshold)
    }
}

/// An action's guards, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRow {
    /// The action.
    pub action: String,
    /// Their state; `None` if the stored state is damaged.
    pub standing: Option<Standing>,
}

/// An action's guards.
pub(super) type State = GuardState<Holder>;

/// Every action's guards. They are small and few, so a store keeps them in memory too.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    pub(super) states: BTreeMap<String, State>,
    /// Why each writer's last commit to a run did not land, to answer the same when the commit is
    /// sent again. This is not durable: a commit whose refusal is forgotten is judged again, and a
    /// start that was held has lost its reservation.
    last_refusals: BTreeMap<(RunId, u64), LastRefusal>,
    /// Actions whose stored guards are damaged.
    pub(super) damaged: BTreeSet<String>,
}

/// Why a commit did not land.
#[derive(Clone, Debug)]
struct LastRefusal {
    id: CommitId,
    why: Refused,
    /// When the store forgets it.
    until: Timestamp,
}

/// Why guards refuse a commit.
#[derive(Clone, Debug)]
pub(super) enum Refused {
    /// They hold these starts back.
    Held(Vec<Hold>),
    /// The commit raises these alerts and announces others.
    Untold(Vec<Raised>),
}

impl Refused {
    fn answer(self, at: Timestamp) -> Committed {
        match self {
            Self::Held(holds) => Committed::Held { holds, at },
            Self::Untold(raised) => Committed::Untold { raised, at },
        }
    }
}

/// How long the store remembers a refusal that carries no time of its own.
const REMEMBERED: Nanos = Nanos::from_secs(60);

/// Every changed action's guards if a commit lands.
pub(super) type Folded<'c> = BTreeMap<&'c str, Change<'c>>;

/// One action's guards if a commit lands.
#[derive(Debug)]
pub(super) struct Change<'c> {
    pub(super) state: State,
    pub(super) rules: &'c GuardRules,
    /// Whether an attempt ended, so that others may be let through.
    pub(super) frees: bool,
}

impl Guards {
    /// Every action's guards by name, for display.
    pub(super) fn rows(&self, now: Timestamp) -> Vec<GuardRow> {
        let whole = self.states.iter().map(|(action, state)| (action, Some(state.standing(now))));
        let damaged = self.damaged.iter().map(|action| (action, None));
        let rows: BTreeMap<_, _> = damaged.chain(whole).collect();
        let row = |(action, standing): (&String, _)| GuardRow { action: action.clone(), standing };
        rows.into_iter().map(row).collect()
    }

    /// The guards if `commit` lands at `now`, or why they refuse it. `may_run` says whether an attempt
    /// that started before may still be in progress; an attempt that can't be is dropped before it
    /// holds anything back. `held` is how many tasks an action's guards hold back already.
    pub(super) fn fold<'c>(
        &self,
        commit: &'c Commit,
        now: Timestamp,
        may_run: impl Fn(&Holder) -> bool,
        held: impl Fn(&str) -> u64,
    ) -> Judged<'c> {
        let (mut folded, mut holds, mut raised) = (Folded::new(), Vec::new(), Vec::new());
        for Guarding { action, rules, inputs } in &commit.guards {
            let change = folded.entry(action.as_str()).or_insert_with(|| Change {
                state: self.states.get(action).cloned().unwrap_or_default(),
                rules,
                frees: false,
            });
            change.rules = rules;
            for input in inputs {
                let lost = |holder: &Holder| !starts(commit, holder) && !may_run(holder);
                let attempt = input.attempt();
                match change.take(input, now, lost) {
                    Ok(alerts) => {
                        raised.extend(alerts.into_iter().map(|alert| Raised { attempt, alert }));
                    }
                    Err(refusal) => {
                        let same = |(other, _): &&(&str, Hold)| other == action;
                        let ahead = holds.iter().filter(same).count() as u64;
                        let until = turn(refusal, rules, held(action) + ahead);
                        holds.push((action.as_str(), Hold { attempt, by: refusal.by, until }));
                    }
                }
            }
        }
        match raised.iter().map(Raised::what).eq(commit.raised.iter().map(Raised::what)) {
            _ if !holds.is_empty() => Judged::Held(holds),
            true => Judged::Lands(folded),
            false => Judged::Untold(raised),
        }
    }
}

impl Change<'_> {
    fn take(
        &mut self,
        input: &GuardInput<Holder>,
        now: Timestamp,
        lost: impl Fn(&Holder) -> bool,
    ) -> Result<Vec<Alert>, Refusal> {
        self.frees |= matches!(input, GuardInput::Ended { .. });
        let refusal = match self.state.take(self.rules, input, now) {
            Err(refusal) => refusal,
            taken => return taken,
        };
        let lost: Vec<Holder> = self.state.running().filter(lost).collect();
        if lost.is_empty() {
            return Err(refusal);
        }
        for attempt in lost {
            let ended = GuardInput::Ended { attempt, how: Ended::Silently, refill: 0 };
            self.state.take(self.rules, &ended, now)?;
        }
        self.state.take(self.rules, input, now)
    }
}

/// Whether `commit` itself starts the attempt, so that the queue does not have its lease yet.
fn starts(commit: &Commit, holder: &Holder) -> bool {
    let is_it = |change: &QueueChange| matches!(change, QueueChange::Lease { token, .. } if *token == holder.token);
    holder.run == commit.run && commit.queue.iter().any(is_it)
}

/// When the task behind `ahead` others asks again. A rate admits one task each interval, so it is of
/// no use that all ask at once.
fn turn(refusal: Refusal, rules: &GuardRules, ahead: u64) -> Timestamp {
    match (refusal.by, &rules.rate) {
        (HeldBy::Rate, Some(pace)) => refusal.until.after(pace.interval().saturating_mul(ahead)),
        // First attempts may refill the budget at any time, so the wait is bounded.
        (HeldBy::RetryBudget, _) => {
            refusal.until.after(Bucket::TRICKLE.saturating_mul(ahead.min(9)))
        }
        _ => refusal.until,
    }
}

/// The guards' decision on a commit.
#[derive(Debug)]
pub(super) enum Judged<'c> {
    /// It lands, and these are the guards after it.
    Lands(Folded<'c>),
    /// They hold these starts back, by action.
    Held(Vec<(&'c str, Hold)>),
    /// The commit raises these alerts and announces others.
    Untold(Vec<Raised>),
}

impl<S: Records> Requests<'_, S> {
    /// Judges `commit` and, if it lands, writes the guards after it.
    pub(super) fn guard<'c>(&mut self, commit: &'c Commit) -> Result<Judged<'c>, StoreError> {
        for Guarding { action, .. } in &commit.guards {
            if self.guards.damaged.contains(action) {
                let what = format!("the store: the guards of action `{action}`");
                return Err(StoreError::Broken(what));
            }
        }
        let (queue, now) = (&*self.queue, self.now);
        let may_run = |h: &Holder| queue.may_run(h.run, h.task, h.token, now);
        let judged = self.guards.fold(commit, now, may_run, |action| queue.held(action));
        if let Judged::Lands(folded) = &judged {
            for (action, change) in folded {
                let is_new = !self.guards.states.contains_key(*action);
                self.records.put_guard(action, &change.state, is_new)?;
            }
        }
        Ok(judged)
    }

    /// Takes over the changed guards. Attempts that ended make room for tasks that are held back.
    pub(super) fn let_through(&mut self, folded: Folded<'_>) {
        for (action, change) in folded {
            if change.frees {
                let room = change.state.room(change.rules, self.now);
                self.queue.let_through(action, room, self.now);
            }
            self.guards.states.insert(action.to_owned(), change.state);
        }
    }

    /// Refuses a commit whose starts are held back, and ends their reservations.
    pub(super) fn hold(&mut self, commit: &Commit, holds: Vec<(&str, Hold)>) -> Committed {
        for (action, hold) in &holds {
            self.queue.hold((commit.run, hold.attempt.task), action, hold.until);
        }
        let holds: Vec<Hold> = holds.into_iter().map(|(_, hold)| hold).collect();
        let until = holds.iter().map(|hold| hold.until).max().unwrap_or_default();
        self.refuse(commit, Refused::Held(holds), until)
    }

    /// Refuses a commit and answers the alerts that it must announce.
    pub(super) fn untold(&mut self, commit: &Commit, raised: Vec<Raised>) -> Committed {
        self.refuse(commit, Refused::Untold(raised), self.now.after(REMEMBERED))
    }

    fn refuse(&mut self, commit: &Commit, why: Refused, until: Timestamp) -> Committed {
        let (id, at, refusals) = (commit.id, self.now, &mut self.guards.last_refusals);
        refusals.retain(|_, last| last.until > at);
        refusals.insert((commit.run, id.writer), LastRefusal { id, why: why.clone(), until });
        why.answer(at)
    }

    /// The answer to a commit that was refused and is sent again.
    pub(super) fn refused_before(&self, commit: &Commit) -> Option<Committed> {
        let last = self.guards.last_refusals.get(&(commit.run, commit.id.writer))?;
        let is_known = last.id == commit.id && last.until > self.now;
        is_known.then(|| last.why.clone().answer(self.now))
    }
}
