//! Requests beside others that are in flight: they pass over what others lock.

use std::collections::BTreeSet;

use retrial::run::{RunId, TaskId};
use retrial::store::{Answer, Claim, Claimed, Create, Prune, Pruned, Request};

use super::super::script::Answered;
use super::{Naive, Row};

/// What requests that are in flight may have locked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locked {
    everything: bool,
    runs: BTreeSet<RunId>,
    tasks: BTreeSet<(RunId, TaskId)>,
}

impl Locked {
    /// By a request and its answer, as far as that is known.
    pub(crate) fn add(&mut self, request: &Request, answer: Option<&Answered>) {
        match (request, answer) {
            (Request::Create(create), _) => self.create(create),
            (Request::Commit(commit), _) => {
                self.runs.insert(commit.run);
                commit.creates.iter().for_each(|create| self.create(create));
            }
            (Request::Renew(held), _) => self.runs.extend(held.iter().map(|held| held.run)),
            (Request::Trim { run, .. } | Request::Archive(run), _) => _ = self.runs.insert(*run),
            (Request::Discard { id, .. }, _) => _ = self.runs.insert(id.run),
            (Request::Claim(_), Some(Ok(Answer::Claim(claimed)))) => {
                self.tasks.extend(claimed.tasks.iter().map(|task| (task.run, task.task)));
            }
            (Request::Claim(_) | Request::Prune(_) | Request::Expired { .. }, _) => {
                self.everything = true;
            }
            _ => {}
        }
    }

    fn create(&mut self, create: &Create) {
        self.runs.insert(create.run);
        self.runs.extend(create.redrives.map(|letter| letter.run));
    }

    fn has(&self, run: RunId, task: TaskId) -> bool {
        self.everything || self.runs.contains(&run) || self.tasks.contains(&(run, task))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        !self.everything && self.runs.is_empty() && self.tasks.is_empty()
    }
}

impl Naive {
    /// A claim. It may take any rows that are due and can be taken, and leave none of them out but
    /// those that are `locked`.
    pub(crate) fn claims(&mut self, claim: &Claim, theirs: &Claimed, locked: &Locked) -> bool {
        if self.claims.iter().any(|(known, answer)| known.id == claim.id && answer == theirs) {
            return true;
        }
        if theirs.tasks.len() > claim.limit {
            return false;
        }
        for task in &theirs.tasks {
            let place = self.rows.iter().position(|row| {
                (row.run, row.shown.task) == (task.run, task.task) && self.can_take(row, claim)
            });
            let Some(place) = place else { return false };
            if self.reserve_row(place, task.token, claim) != *task {
                return false;
            }
        }
        self.remember_claim(claim, theirs);
        let is_full = theirs.tasks.len() == claim.limit;
        let left = |row: &&Row| self.can_take(row, claim) && !locked.has(row.run, row.shown.task);
        let leaves_none = is_full || !self.rows.iter().any(|row| left(&row));
        let mine = self.claimed(claim, theirs.tasks.clone());
        leaves_none && (!locked.is_nothing() || in_short(mine) == in_short(theirs.clone()))
    }

    /// Pruning of which nobody knows how many runs it passed over: the states that may be left.
    pub(crate) fn may_prune(&self, prune: &Prune) -> Vec<Self> {
        let mut states = vec![self.clone()];
        for run in self.all_that_goes(prune) {
            let without = states.iter().cloned().map(|mut state| {
                state.remove(&[run]);
                state
            });
            let without: Vec<_> = without.collect();
            states.extend(without);
        }
        states
    }

    /// What the request would remove, however many it may.
    fn all_that_goes(&self, prune: &Prune) -> Vec<RunId> {
        self.clone().prune(&Prune { limit: usize::MAX, ..*prune }).runs
    }

    /// Pruning passes over runs that are `locked`.
    pub(crate) fn prunes(&mut self, prune: &Prune, theirs: &Pruned, locked: &Locked) -> bool {
        if locked.is_nothing() {
            return self.prune(prune) == *theirs;
        }
        let wanted = self.all_that_goes(prune);
        let holds = theirs.at == self.now
            && theirs.runs.len() <= prune.limit
            && theirs.runs.iter().all(|run| wanted.contains(run));
        self.remove(&theirs.runs);
        holds
    }

    /// The state without what no answer depends on where claims may take any rows: whose turn it is.
    pub(crate) fn without_turns(&self) -> String {
        let mut plain = self.clone();
        (plain.waited, plain.last) = (0, None);
        plain.rows.iter_mut().for_each(|row| row.order = 0);
        plain.rows.sort_by_key(|row| (row.run, row.shown.task));
        plain.claims.sort_by_key(|(claim, _)| claim.id);
        for run in plain.runs.values_mut() {
            run.decided.sort_by_key(|(id, _)| (id.writer, id.counter));
        }
        format!("{plain:?}")
    }
}

/// An answer without since when something is due. A reservation of which nobody heard, and which is
/// over, leaves a row due from then on.
fn in_short(mut claimed: Claimed) -> Claimed {
    claimed.next_due = claimed.next_due.map(|due| due.max(claimed.at));
    claimed.unable.iter_mut().for_each(|(_, due)| *due = claimed.at);
    claimed
}
