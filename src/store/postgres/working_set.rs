//! What was loaded for some requests, and what they are known to read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::definitions::StoredDefinition;
use super::super::guards::{Guards, State};
use super::super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::super::queue::{FullRow, Queue};
use super::super::records::Page;
use super::super::requests::Record;
use super::super::seam::{Commit, Create, Holding, Request, ResultRow, Snapshot};
use super::layout::Place;
use crate::guard::GuardInput;
use crate::run::{Digest, LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;

/// New turns, which the database has not numbered yet, are counted from here.
pub(super) const FRESH: u64 = 1 << 62;

/// A loaded value, or how it is damaged.
pub(super) type Checked<T> = Result<T, String>;

/// What a request is known to read before it is tried.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    /// Runs, which are locked.
    pub(super) runs: BTreeSet<RunId>,
    /// Those of the runs that are created.
    pub(super) created: BTreeSet<RunId>,
    pub(super) rows: BTreeSet<Place>,
    /// Whether the run is active after the request. If that changes, all its rows are loaded.
    pub(super) active: BTreeMap<RunId, bool>,
    pub(super) keys: BTreeSet<Digest>,
    pub(super) guards: BTreeMap<String, Touch>,
    /// Names of definitions.
    pub(super) definitions: BTreeSet<String>,
    /// A page of runs that may be removed.
    pub(super) page: Option<(Option<RunId>, usize)>,
}

/// What a request does with an action's guards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touch {
    /// They may hold something back.
    pub(super) admits: bool,
    /// They may let through what they held back.
    pub(super) frees: bool,
}

/// What a request read and was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Record(RunId),
    Key(Digest),
    /// From this version on.
    Events(RunId, Version),
    /// Those of commits after this version, or all.
    Results(RunId, Option<Version>),
    Snapshot(RunId),
    Letter(LetterId),
    TasksWithLetters(RunId),
    Letters(Option<LetterId>, usize, LetterFilter),
    Records(Option<RunId>, usize),
    Definition(String),
    Definitions(Option<String>, usize),
}

pub(super) type LettersQuery = (Option<LetterId>, usize, LetterFilter);
pub(super) type LettersPage = (Vec<LetterHead>, Vec<LetterId>);

/// What was loaded.
#[derive(Debug, Default)]
pub(super) struct WorkingSet {
    pub(super) now: Timestamp,
    /// The latest time at which one of the loaded runs was written.
    pub(super) updated: Timestamp,
    pub(super) records: BTreeMap<RunId, Checked<Option<Record>>>,
    pub(super) keys: BTreeMap<Digest, Checked<Option<RunId>>>,
    pub(super) guards: BTreeMap<String, Checked<Option<State>>>,
    pub(super) rows: BTreeMap<Place, FullRow>,
    /// Runs all of whose rows were loaded.
    pub(super) whole: BTreeSet<RunId>,
    /// How many tasks the guard of an action holds back.
    pub(super) held: BTreeMap<String, u64>,
    /// With the version of the first.
    pub(super) events: BTreeMap<RunId, (Version, Checked<BTreeMap<Version, Bytes>>)>,
    /// With the version after which they begin.
    pub(super) results: BTreeMap<RunId, (Option<Version>, Checked<Results>)>,
    pub(super) snapshots: BTreeMap<RunId, Checked<Option<Snapshot>>>,
    pub(super) letters: BTreeMap<LetterId, Checked<Option<StoredLetter>>>,
    pub(super) tasks_with_letters: BTreeMap<RunId, Checked<Vec<TaskId>>>,
    pub(super) letter_pages: Vec<(LettersQuery, Checked<LettersPage>)>,
    pub(super) pages: BTreeMap<(Option<RunId>, usize), Checked<Page>>,
    pub(super) definitions: BTreeMap<String, Checked<Option<StoredDefinition>>>,
    pub(super) definition_pages: BTreeMap<(Option<String>, usize), Checked<Vec<StoredDefinition>>>,
}

/// Results with the version after the commit that brought each, by place.
pub(super) type Results = BTreeMap<u64, (Version, ResultRow)>;

impl ReadSet {
    /// What `request`, which changes something, is known to read.
    pub(super) fn of(request: &Request) -> Self {
        let mut reads = Self::default();
        match request {
            Request::Create(create) => reads.create(create),
            Request::Commit(commit) => reads.commit(commit),
            Request::Renew(held) => reads.renew(held),
            Request::Trim { run, .. }
            | Request::Archive(run)
            | Request::Discard { id: LetterId { run, .. }, .. } => reads.runs = [*run].into(),
            Request::Prune(prune) => reads.page = Some((prune.after, prune.limit)),
            Request::Define(definition) => reads.definitions = [definition.name.clone()].into(),
            // What only reads is loaded as it is found to be missing.
            _ => {}
        }
        reads
    }

    fn create(&mut self, create: &Create) {
        self.runs.insert(create.run);
        self.created.insert(create.run);
        self.runs.extend(create.redrives.map(|letter| letter.run));
        self.keys.extend(create.key.as_ref().map(|key| Digest::of(key.as_bytes())));
    }

    fn commit(&mut self, commit: &Commit) {
        let run = commit.run;
        self.runs.insert(run);
        self.active.insert(run, commit.phase.is_active());
        commit.creates.iter().for_each(|create| self.create(create));
        self.rows.extend(commit.fences.iter().map(|fence| (run, fence.task())));
        self.rows.extend(commit.queue.iter().map(|change| (run, change.task())));
        for guarding in &commit.guards {
            let touch = self.guards.entry(guarding.action.clone()).or_default();
            for input in &guarding.inputs {
                match input {
                    GuardInput::Ended { .. } => touch.frees = true,
                    GuardInput::Admit { .. } | GuardInput::Withdraw { .. } => touch.admits = true,
                }
                let holder = input.attempt();
                self.rows.extend((holder.run == run).then_some((run, holder.task)));
            }
        }
    }

    fn renew(&mut self, held: &[Holding]) {
        self.runs.extend(held.iter().map(|holding| holding.run));
        self.rows.extend(held.iter().map(|holding| (holding.run, holding.task)));
    }

    /// Runs that are inactive afterwards: nearly all of them end by it.
    pub(super) fn ending(&self) -> BTreeSet<RunId> {
        self.active.iter().filter(|(_, active)| !**active).map(|(run, _)| *run).collect()
    }

    /// Whether another request reads some of the same, so that both can't share a transaction.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let alone = self.page.is_some() || other.page.is_some();
        alone
            || !self.runs.is_disjoint(&other.runs)
            || !self.keys.is_disjoint(&other.keys)
            || !self.definitions.is_disjoint(&other.definitions)
    }

    /// Takes in what a request reads. `append` would build the sets of all others anew each time.
    pub(super) fn merge(&mut self, other: &Self) {
        self.runs.extend(&other.runs);
        self.created.extend(&other.created);
        self.rows.extend(&other.rows);
        self.active.extend(&other.active);
        self.keys.extend(&other.keys);
        self.definitions.extend(other.definitions.iter().cloned());
        for (action, touch) in &other.guards {
            let both = self.guards.entry(action.clone()).or_default();
            both.admits |= touch.admits;
            both.frees |= touch.frees;
        }
        self.page = self.page.or(other.page);
    }
}

impl WorkingSet {
    /// The runs of which all rows are needed: they become active or inactive, or may be removed.
    pub(super) fn turning(&self, reads: &ReadSet) -> BTreeSet<RunId> {
        let turns = |(run, active): (&RunId, &bool)| match self.records.get(run) {
            Some(Ok(Some(record))) if record.phase.is_active() != *active => Some(*run),
            _ => None,
        };
        let turning = reads.active.iter().filter_map(turns);
        let pages = self.pages.values().flatten().flat_map(|page| &page.records);
        turning.chain(pages.map(|(run, _)| *run)).collect()
    }

    /// Other runs' attempts that may cause something to be held back.
    pub(super) fn holders(&self, reads: &ReadSet) -> Vec<Place> {
        let admitting = reads.guards.iter().filter(|(_, touch)| touch.admits);
        let states = admitting.filter_map(|(action, _)| self.guards.get(action)?.as_ref().ok());
        let holders = states.flatten().flat_map(State::running).map(|h| (h.run, h.task));
        holders.filter(|place| !self.rows.contains_key(place)).collect()
    }

    /// Marks a run as damaged.
    pub(super) fn damage(&mut self, run: RunId, what: &str) {
        self.records.insert(run, Err(format!("run {run}: {what}")));
    }

    /// Marks runs as damaged of which not all rows were found.
    pub(super) fn count_rows(&mut self) {
        for run in self.whole.clone() {
            let Some(Ok(record)) = self.records.get(&run) else { continue };
            let queued = record.as_ref().map_or(0, |record| record.queued);
            let first = (run, TaskId::FIRST);
            if self.rows.range(first..=(run, TaskId::LAST)).count() as u64 != queued {
                self.damage(run, "its queue rows are not all there");
            }
        }
    }

    /// The queue of the loaded rows.
    pub(super) fn queue(&self) -> Queue {
        let mut queue = Queue::counting_from(FRESH);
        for (&run, record) in &self.records {
            let Ok(Some(record)) = record else { continue };
            let here = self.rows.range((run, TaskId::FIRST)..=(run, TaskId::LAST)).count() as u64;
            let elsewhere = record.queued.saturating_sub(here);
            queue.set_not_loaded(run, !record.phase.is_active(), elsewhere);
        }
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(_, full)| full.due.map(|(_, turn)| turn));
        let mut beyond = self.held.clone();
        for (place, full) in rows {
            if let Some(held) = full.held.as_deref().and_then(|held| beyond.get_mut(held)) {
                *held = held.saturating_sub(1);
            }
            let at_rest = match self.records.get(&place.0) {
                Some(Ok(Some(record))) => !record.phase.is_active(),
                _ => full.at_rest,
            };
            queue.insert(*place, FullRow { at_rest, ..full.clone() });
        }
        beyond.into_iter().for_each(|(action, rows)| queue.set_held_not_loaded(&action, rows));
        queue
    }

    /// Replaces the states of `guards` with the loaded ones.
    pub(super) fn fill(&self, guards: &mut Guards) {
        (guards.states, guards.damaged) = Default::default();
        for (action, state) in &self.guards {
            match state {
                Ok(Some(state)) => drop(guards.states.insert(action.clone(), state.clone())),
                Ok(None) => {}
                Err(_) => _ = guards.damaged.insert(action.clone()),
            }
        }
    }
}
