//! The requests to a store that are under way. Answers may be seen in another order than the store
//! gave them in, so what an answer proves depends on what else was under way.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::RunId;

/// A request that is under way.
pub(super) struct Underway {
    /// The run that it changes.
    run: Option<RunId>,
    /// How many requests had begun or ended by then; `None` if others were under way.
    alone_since: Option<u64>,
    /// How often the store had failed by then.
    failures: u64,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// No other request was under way, so it follows from all answers before.
    Alone,
    /// Others were under way.
    Beside,
    /// The store failed to do something meanwhile, or another commit to the same run was under way,
    /// so more may have happened since.
    Stale,
}

/// All requests to a world's store.
#[derive(Debug, Default)]
pub(super) struct Requests {
    underway: u64,
    /// How many requests have begun or ended.
    moves: u64,
    failures: u64,
    commits: BTreeMap<RunId, u32>,
    /// The runs to which two commits were under way at once.
    mixed: BTreeSet<RunId>,
}

impl Requests {
    /// The store failed to do something: what it answers to requests that are under way may have been
    /// before that or after.
    pub(super) fn failed(&mut self) {
        self.failures += 1;
    }

    /// A store starts. Requests that were under way have ended with the one before it.
    pub(super) fn restart(&mut self) {
        self.commits.clear();
        self.mixed.clear();
        self.underway = 0;
        self.moves += 1;
    }

    /// A request is sent, to change this run if it changes one.
    pub(super) fn begin(&mut self, run: Option<RunId>) -> Underway {
        let is_alone = self.underway == 0;
        self.underway += 1;
        self.moves += 1;
        if let Some(run) = run {
            let commits = self.commits.entry(run).or_default();
            *commits += 1;
            if *commits > 1 {
                self.mixed.insert(run);
            }
        }
        let alone_since = is_alone.then_some(self.moves);
        Underway { run, alone_since, failures: self.failures }
    }

    /// It has its answer.
    pub(super) fn end(&mut self, request: &Underway) -> Weight {
        let is_mixed = request.run.is_some_and(|run| self.mixed.contains(&run));
        let weight = match request.alone_since {
            _ if is_mixed || request.failures != self.failures => Weight::Stale,
            Some(moves) if moves == self.moves => Weight::Alone,
            _ => Weight::Beside,
        };
        self.underway = self.underway.saturating_sub(1);
        self.moves += 1;
        if let Some(run) = request.run {
            let left = self.commits.get(&run).map_or(0, |commits| commits - 1);
            if left > 0 {
                self.commits.insert(run, left);
            } else {
                self.commits.remove(&run);
                self.mixed.remove(&run);
            }
        }
        weight
    }
}
