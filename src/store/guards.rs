//! The guards of actions, as a store keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ledger::{Ledger, Shelf};
use super::seam::{Commit, CommitId, Committed, StoreError};
use crate::guard::{Bucket, Ended, GuardInput, GuardRules, GuardState, HeldBy, Refusal};
use crate::run::{RunId, TaskId, Token};
use crate::time::Timestamp;

/// One attempt, as the guards know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Its run.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
    /// Its token.
    pub token: Token,
}

/// What a commit means to the guards of one action. Folded when the commit lands, at its time, so
/// that each attempt counts exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarding {
    /// The action.
    pub action: String,
    /// Its rules, as the run's workflow has them.
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
    /// When it is to be asked again, store time.
    pub until: Timestamp,
}

/// An action's guards.
pub(super) type State = GuardState<Holder>;

/// Every action's guards. They are small and few, so a store has them in memory too.
#[derive(Debug, Default)]
pub(super) struct Guards {
    pub(super) states: BTreeMap<String, State>,
    /// What each writer was last told to be held of a run, told again when it asks again. Nothing
    /// of this is durable: what is not known any more is judged anew, and what was held then has no
    /// reservation any more.
    told: BTreeMap<(RunId, u64), (CommitId, Vec<Hold>)>,
}

/// What the guards come to if a commit lands.
pub(super) type Folded<'c> = BTreeMap<&'c str, Change<'c>>;

/// What one action's guards come to.
#[derive(Debug)]
pub(super) struct Change<'c> {
    pub(super) state: State,
    pub(super) rules: &'c GuardRules,
    /// Whether an attempt ended, so that others may be let through.
    pub(super) frees: bool,
}

impl Guards {
    /// What the guards come to if `commit` lands at `now`, or what they hold back. `may_run` says
    /// whether another run's attempt may still be in progress; one that can't be is forgotten
    /// before anything is held back on its account. `held` is how many wait for an action already.
    pub(super) fn fold<'c>(
        &self,
        commit: &'c Commit,
        now: Timestamp,
        may_run: impl Fn(&Holder) -> bool,
        held: impl Fn(&str) -> u64,
    ) -> Judged<'c> {
        let (mut folded, mut holds) = (Folded::new(), Vec::new());
        for Guarding { action, rules, inputs } in &commit.guards {
            let change = folded.entry(action.as_str()).or_insert_with(|| Change {
                state: self.states.get(action).cloned().unwrap_or_default(),
                rules,
                frees: false,
            });
            change.rules = rules;
            for input in inputs {
                let lost = |holder: &Holder| holder.run != commit.run && !may_run(holder);
                if let Err(refusal) = change.take(input, now, lost) {
                    let ahead = holds.iter().filter(|(other, _)| other == action).count() as u64;
                    let until = turn(refusal, rules, held(action) + ahead);
                    let hold = Hold { attempt: input.attempt(), by: refusal.by, until };
                    holds.push((action.as_str(), hold));
                }
            }
        }
        if holds.is_empty() { Ok(folded) } else { Err(holds) }
    }
}

impl Change<'_> {
    fn take(
        &mut self,
        input: &GuardInput<Holder>,
        now: Timestamp,
        lost: impl Fn(&Holder) -> bool,
    ) -> Result<(), Refusal> {
        self.frees |= matches!(input, GuardInput::Ended { .. });
        let Err(refusal) = self.state.take(self.rules, input, now) else { return Ok(()) };
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

/// When it is the turn of the one that has so many before it: a rate lets one through each interval,
/// and there is no use in all asking at once.
fn turn(refusal: Refusal, rules: &GuardRules, ahead: u64) -> Timestamp {
    match (refusal.by, &rules.rate) {
        (HeldBy::Rate, Some(pace)) => refusal.until.after(pace.interval().saturating_mul(ahead)),
        // First attempts may refill it any time, so nobody waits for all of them before it.
        (HeldBy::RetryBudget, _) => {
            refusal.until.after(Bucket::TRICKLE.saturating_mul(ahead.min(9)))
        }
        _ => refusal.until,
    }
}

/// What the guards come to, or what they hold back.
type Judged<'c> = Result<Folded<'c>, Vec<(&'c str, Hold)>>;

impl<S: Shelf> Ledger<'_, S> {
    /// What `commit` means to guards, kept where they hold nothing back.
    pub(super) fn guard<'c>(&mut self, commit: &'c Commit) -> Result<Judged<'c>, StoreError> {
        for Guarding { action, .. } in &commit.guards {
            self.shelf.check_guard(action)?;
        }
        let (queue, now) = (&*self.queue, self.now);
        let may_run = |h: &Holder| queue.may_run(h.run, h.task, h.token, now);
        let judged = self.guards.fold(commit, now, may_run, |action| queue.held(action));
        for (action, change) in judged.iter().flatten() {
            let is_new = !self.guards.states.contains_key(*action);
            self.shelf.keep_guard(action, &change.state, is_new)?;
        }
        Ok(judged)
    }

    /// Attempts that ended make room for tasks that wait.
    pub(super) fn let_through(&mut self, folded: Folded<'_>) {
        for (action, change) in folded {
            if change.frees {
                let room = change.state.room(change.rules, self.now);
                self.queue.let_through(action, room, self.now);
            }
            self.guards.states.insert(action.to_owned(), change.state);
        }
    }

    /// Ends the reservations of what is held.
    pub(super) fn hold(&mut self, commit: &Commit, holds: Vec<(&str, Hold)>) -> Committed {
        for (action, hold) in &holds {
            self.queue.hold((commit.run, hold.attempt.task), action, hold.until);
        }
        let (at, holds) = (self.now, holds.into_iter().map(|(_, hold)| hold).collect::<Vec<_>>());
        self.guards.told.retain(|_, (_, holds)| holds.iter().any(|hold| hold.until > at));
        let told = (commit.id, holds.clone());
        self.guards.told.insert((commit.run, commit.id.writer), told);
        Committed::Held { holds, at }
    }

    /// What was held of the same commit, if it is sent again.
    pub(super) fn held_before(&self, commit: &Commit) -> Option<Committed> {
        let (id, holds) = self.guards.told.get(&(commit.run, commit.id.writer))?;
        (*id == commit.id).then(|| Committed::Held { holds: holds.clone(), at: self.now })
    }
}
