//! What was loaded for some requests: the ground on which they are decided.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::definitions::StoredDefinition;
use super::super::guards::{Guards, State};
use super::super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::super::queue::{Queue, Standing};
use super::super::records::Page;
use super::super::requests::Record;
use super::super::seam::{Commit, Create, Holding, Request, ResultRow, Snapshot};
use super::layout::Place;
use crate::guard::GuardInput;
use crate::run::{Digest, LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;

/// Turns that were given here and not yet by the database begin at this one.
pub(super) const FRESH: u64 = 1 << 62;

/// Something loaded, or in what way it is damaged.
pub(super) type Kept<T> = Result<T, String>;

/// What a request is known to read before it is tried.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// Runs, which are locked.
    pub(super) runs: BTreeSet<RunId>,
    pub(super) rows: BTreeSet<Place>,
    /// Whether the run is active afterwards: all its rows are wanted where that changes.
    pub(super) active: BTreeMap<RunId, bool>,
    pub(super) keys: BTreeSet<Digest>,
    pub(super) guards: BTreeMap<String, Touch>,
    /// Names of definitions.
    pub(super) definitions: BTreeSet<String>,
    /// A page of runs that may all go.
    pub(super) page: Option<(Option<RunId>, usize)>,
}

/// What is asked of an action's guards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touch {
    /// Something may be held back.
    pub(super) admits: bool,
    /// What is held back may be let through.
    pub(super) frees: bool,
}

/// What a request asked for and found missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Record(RunId),
    Key(Digest),
    /// From this version on.
    Events(RunId, Version),
    /// Of the commits that ended after this version, or all.
    Results(RunId, Option<Version>),
    Snapshot(RunId),
    Letter(LetterId),
    Lettered(RunId),
    Letters(Option<LetterId>, usize, LetterFilter),
    Records(Option<RunId>, usize),
    Definition(String),
    Definitions(Option<String>, usize),
}

pub(super) type AskedLetters = (Option<LetterId>, usize, LetterFilter);
pub(super) type LettersPage = (Vec<LetterHead>, Vec<LetterId>);

/// What was loaded.
#[derive(Debug, Default)]
pub(super) struct Base {
    pub(super) now: Timestamp,
    /// The latest time at which one of the runs was written.
    pub(super) updated: Timestamp,
    pub(super) records: BTreeMap<RunId, Kept<Option<Record>>>,
    pub(super) keys: BTreeMap<Digest, Kept<Option<RunId>>>,
    pub(super) guards: BTreeMap<String, Kept<Option<State>>>,
    pub(super) rows: BTreeMap<Place, Standing>,
    /// Runs all of whose rows were loaded.
    pub(super) whole: BTreeSet<RunId>,
    /// How many tasks the guard of an action holds back.
    pub(super) held: BTreeMap<String, u64>,
    /// With the version from which on.
    pub(super) events: BTreeMap<RunId, (Version, Kept<BTreeMap<Version, Bytes>>)>,
    /// With the version after which.
    pub(super) results: BTreeMap<RunId, (Option<Version>, Kept<Results>)>,
    pub(super) snapshots: BTreeMap<RunId, Kept<Option<Snapshot>>>,
    pub(super) letters: BTreeMap<LetterId, Kept<Option<StoredLetter>>>,
    pub(super) lettered: BTreeMap<RunId, Kept<Vec<TaskId>>>,
    pub(super) letter_pages: Vec<(AskedLetters, Kept<LettersPage>)>,
    pub(super) pages: BTreeMap<(Option<RunId>, usize), Kept<Page>>,
    pub(super) definitions: BTreeMap<String, Kept<Option<StoredDefinition>>>,
    pub(super) definition_pages: BTreeMap<(Option<String>, usize), Kept<Vec<StoredDefinition>>>,
}

/// Results with the version after the commit that brought each, by place.
pub(super) type Results = BTreeMap<u64, (Version, ResultRow)>;

impl Wants {
    /// What `request`, which changes something, is known to read.
    pub(super) fn of(request: &Request) -> Self {
        let mut wants = Self::default();
        match request {
            Request::Create(create) => wants.create(create),
            Request::Commit(commit) => wants.commit(commit),
            Request::Renew(held) => wants.renew(held),
            Request::Trim { run, .. }
            | Request::Archive(run)
            | Request::Discard { id: LetterId { run, .. }, .. } => wants.runs = [*run].into(),
            Request::Prune(prune) => wants.page = Some((prune.after, prune.limit)),
            Request::Define(definition) => wants.definitions = [definition.name.clone()].into(),
            // What only reads is loaded as it is found to be missing.
            _ => {}
        }
        wants
    }

    fn create(&mut self, create: &Create) {
        self.runs.insert(create.run);
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

    /// Whether another request wants some of the same, so that both can't be decided on one ground.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let alone = self.page.is_some() || other.page.is_some();
        alone
            || !self.runs.is_disjoint(&other.runs)
            || !self.keys.is_disjoint(&other.keys)
            || !self.definitions.is_disjoint(&other.definitions)
    }

    pub(super) fn join(&mut self, mut other: Self) {
        self.runs.append(&mut other.runs);
        self.rows.append(&mut other.rows);
        self.active.append(&mut other.active);
        self.keys.append(&mut other.keys);
        self.definitions.append(&mut other.definitions);
        for (action, touch) in other.guards {
            let both = self.guards.entry(action).or_default();
            both.admits |= touch.admits;
            both.frees |= touch.frees;
        }
        self.page = self.page.or(other.page);
    }
}

impl Base {
    /// The runs of which all rows are needed: they come to rest or wake, or go.
    pub(super) fn turning(&self, wants: &Wants) -> Vec<RunId> {
        let turns = |(run, active): (&RunId, &bool)| match self.records.get(run) {
            Some(Ok(Some(record))) if record.phase.is_active() != *active => Some(*run),
            _ => None,
        };
        let turning = wants.active.iter().filter_map(turns);
        let pages = self.pages.values().flatten().flat_map(|page| &page.records);
        turning.chain(pages.map(|(run, _)| *run)).collect()
    }

    /// Other runs' attempts on whose account something may be held back.
    pub(super) fn holders(&self, wants: &Wants) -> Vec<Place> {
        let admitting = wants.guards.iter().filter(|(_, touch)| touch.admits);
        let states = admitting.filter_map(|(action, _)| self.guards.get(action)?.as_ref().ok());
        let holders = states.flatten().flat_map(State::running).map(|h| (h.run, h.task));
        holders.filter(|place| !self.rows.contains_key(place)).collect()
    }

    /// A run is damaged where its rows are.
    pub(super) fn damage(&mut self, run: RunId, what: &str) {
        self.records.insert(run, Err(format!("run {run}: {what}")));
    }

    /// Whether as many rows were loaded as each run has.
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

    /// The queue as far as it was loaded.
    pub(super) fn queue(&self) -> Queue {
        let mut queue = Queue::counting_from(FRESH);
        for (&run, record) in &self.records {
            let Ok(Some(record)) = record else { continue };
            let here = self.rows.range((run, TaskId::FIRST)..=(run, TaskId::LAST)).count() as u64;
            let elsewhere = record.queued.saturating_sub(here);
            queue.elsewhere(run, !record.phase.is_active(), elsewhere);
        }
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(_, standing)| standing.due.map(|(_, turn)| turn));
        let mut beyond = self.held.clone();
        for (place, standing) in rows {
            if let Some(held) = standing.held.as_deref().and_then(|held| beyond.get_mut(held)) {
                *held = held.saturating_sub(1);
            }
            let at_rest = match self.records.get(&place.0) {
                Some(Ok(Some(record))) => !record.phase.is_active(),
                _ => standing.at_rest,
            };
            queue.stand(*place, Standing { at_rest, ..standing.clone() });
        }
        beyond.into_iter().for_each(|(action, rows)| queue.line_beyond(&action, rows));
        queue
    }

    /// Puts the states of the guards in.
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
