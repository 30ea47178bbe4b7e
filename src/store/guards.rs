//! The guards of actions, as a store keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::records::Records;
use super::requests::Requests;
use super::seam::{Commit, CommitId, Committed, StoreError};
use crate::guard::{
    Alert, Bucket, Ended, GuardInput, GuardRules, GuardState, HeldBy, Refusal, Standing,
};
use crate::run::{RunId, TaskId, Token};
use crate::time::{Nanos, Timestamp};

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

/// An alert that the end of an attempt raises. The commit that records the end must tell it: an
/// alert is raised by the store exactly where the run's events say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The attempt whose failure raises it.
    pub attempt: Holder,
    /// What is told. A commit's numbers may be a little old; whether it is raised may not.
    pub alert: Alert,
}

impl Raised {
    /// What must be told: the rest may have changed since it was counted.
    fn what(&self) -> (Holder, u64) {
        (self.attempt, self.alert.threshold)
    }
}

/// An action's guards, for people to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRow {
    /// The action.
    pub action: String,
    /// How they stand; none where what is kept of them is damaged (spec decision 19).
    pub standing: Option<Standing>,
}

/// An action's guards.
pub(super) type State = GuardState<Holder>;

/// Every action's guards. They are small and few, so a store has them in memory too.
#[derive(Clone, Debug, Default)]
pub(super) struct Guards {
    pub(super) states: BTreeMap<String, State>,
    /// Why each writer's last commit to a run did not land, told again when it asks again. Nothing
    /// of this is durable: what is not known any more is judged anew, and what was held then has no
    /// reservation any more.
    told: BTreeMap<(RunId, u64), Told>,
    /// Actions whose guards are not whole.
    pub(super) damaged: BTreeSet<String>,
}

/// Why a commit did not land.
#[derive(Clone, Debug)]
struct Told {
    id: CommitId,
    why: Refused,
    /// Forgotten then.
    until: Timestamp,
}

/// What keeps a commit from landing.
#[derive(Clone, Debug)]
pub(super) enum Refused {
    /// Guards hold these back.
    Held(Vec<Hold>),
    /// It raises these alerts, and tells others.
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

/// How long a writer may ask again why a commit did not land, where no time is told with it.
const REMEMBERED: Nanos = Nanos::from_secs(60);

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
    /// Every action's, by name, for people to see.
    pub(super) fn rows(&self, now: Timestamp) -> Vec<GuardRow> {
        let whole = self.states.iter().map(|(action, state)| (action, Some(state.standing(now))));
        let damaged = self.damaged.iter().map(|action| (action, None));
        let rows: BTreeMap<_, _> = damaged.chain(whole).collect();
        let row = |(action, standing): (&String, _)| GuardRow { action: action.clone(), standing };
        rows.into_iter().map(row).collect()
    }

    /// What the guards come to if `commit` lands at `now`, or what they hold back or it leaves
    /// untold. `may_run` says whether another run's attempt may still be in progress; one that
    /// can't be is forgotten before anything is held back on its account. `held` is how many wait
    /// for an action already.
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
                let lost = |holder: &Holder| holder.run != commit.run && !may_run(holder);
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

/// What guards have to say about a commit.
#[derive(Debug)]
pub(super) enum Judged<'c> {
    /// It lands, and they come to this.
    Lands(Folded<'c>),
    /// They hold this back, by action.
    Held(Vec<(&'c str, Hold)>),
    /// It raises these alerts and tells others.
    Untold(Vec<Raised>),
}

impl<S: Records> Requests<'_, S> {
    /// What `commit` means to guards, kept where it lands.
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
                self.shelf.keep_guard(action, &change.state, is_new)?;
            }
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
        let holds: Vec<Hold> = holds.into_iter().map(|(_, hold)| hold).collect();
        let until = holds.iter().map(|hold| hold.until).max().unwrap_or_default();
        self.refuse(commit, Refused::Held(holds), until)
    }

    /// Says what `commit` must tell.
    pub(super) fn untold(&mut self, commit: &Commit, raised: Vec<Raised>) -> Committed {
        self.refuse(commit, Refused::Untold(raised), self.now.after(REMEMBERED))
    }

    fn refuse(&mut self, commit: &Commit, why: Refused, until: Timestamp) -> Committed {
        let (id, at, told) = (commit.id, self.now, &mut self.guards.told);
        told.retain(|_, told| told.until > at);
        told.insert((commit.run, id.writer), Told { id, why: why.clone(), until });
        why.answer(at)
    }

    /// Why the same commit did not land, if it is sent again.
    pub(super) fn refused_before(&self, commit: &Commit) -> Option<Committed> {
        let told = self.guards.told.get(&(commit.run, commit.id.writer))?;
        (told.id == commit.id).then(|| told.why.clone().answer(self.now))
    }
}
