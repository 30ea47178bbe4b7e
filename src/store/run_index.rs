//! The runs of a store by age, with what a list is filtered by: in memory, so that neither a list
//! nor a count reads every record.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use super::interner::Interner;
use super::listing::{AskRuns, Heads, Listed, Marks, RunCursor, RunFilter, Stranded, Tally};
use super::records::Records;
use super::requests::{Record, Requests};
use super::seam::{RunPhase, StoreError};
use crate::run::RunId;

/// Every undamaged run, by age.
#[derive(Debug, Default)]
pub(super) struct RunIndex {
    runs: BTreeMap<RunCursor, Entry>,
    /// Of each workflow's name one is kept, for all its runs.
    workflows: Interner<str>,
    /// A phase without runs is absent.
    phases: BTreeMap<RunPhase, u64>,
    /// Dead letters that wait.
    waiting: u64,
    /// Runs that were damaged when the store was opened.
    damaged: BTreeSet<RunId>,
}

/// Small, for a store may have millions of runs: what few of them have is apart.
#[derive(Debug)]
struct Entry {
    phase: RunPhase,
    workflow: Arc<str>,
    rare: Option<Box<Rare>>,
}

/// What few runs have.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rare {
    waiting: u64,
    code: Option<Box<str>>,
    fields: Arc<BTreeMap<String, String>>,
}

/// What most runs have of that: nothing.
static NOTHING: LazyLock<Rare> = LazyLock::new(Rare::default);

impl Entry {
    fn of(record: &Record, workflows: &mut Interner<str>) -> Self {
        let Record { phase, waiting, ref workflow, ref code, ref fields, .. } = *record;
        let rare = Rare { waiting, code: code.clone(), fields: Arc::clone(fields) };
        let workflow = workflows.get(workflow, || Arc::clone(workflow));
        Self { phase, workflow, rare: (rare != *NOTHING).then(|| Box::new(rare)) }
    }

    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING)
    }

    fn marks(&self, at: RunCursor) -> Marks<'_> {
        let Rare { waiting, code, fields } = self.rare();
        let (workflow, phase, code) = (&self.workflow, self.phase, code.as_deref());
        Marks { at, workflow, phase, letters: *waiting, code, fields }
    }
}

/// The index of a store that is opened. A map that is made of all entries at once has no room left over
/// in its nodes.
#[cfg(feature = "redb")]
#[derive(Debug, Default)]
pub(super) struct Listing {
    runs: Vec<(RunCursor, Entry)>,
    index: RunIndex,
}

#[cfg(feature = "redb")]
impl Listing {
    /// Adds a run.
    pub(super) fn add(&mut self, run: RunId, record: &Record) {
        let entry = Entry::of(record, &mut self.index.workflows);
        self.runs.push((RunCursor { created: record.created, run }, entry));
        self.index.add(record);
    }

    pub(super) fn into_index(self) -> RunIndex {
        RunIndex { runs: self.runs.into_iter().collect(), ..self.index }
    }
}

impl RunIndex {
    fn add(&mut self, record: &Record) {
        *self.phases.entry(record.phase).or_default() += 1;
        self.waiting += record.waiting;
    }

    /// Adds a run or replaces its entry.
    pub(super) fn put(&mut self, run: RunId, record: &Record) {
        let entry = Entry::of(record, &mut self.workflows);
        let before = self.runs.insert(RunCursor { created: record.created, run }, entry);
        self.add(record);
        self.subtract(before);
    }

    /// Removes a run.
    pub(super) fn remove(&mut self, run: RunId, record: &Record) {
        let gone = self.runs.remove(&RunCursor { created: record.created, run });
        self.subtract(gone);
    }

    /// Removes damaged runs from the list and reports them apart.
    #[cfg(feature = "redb")]
    pub(super) fn mark_damaged(&mut self, damaged: &BTreeSet<RunId>) {
        self.damaged.clone_from(damaged);
        let known = |at: &&RunCursor| damaged.contains(&at.run);
        let gone: Vec<_> = self.runs.keys().filter(known).copied().collect();
        for at in gone {
            let entry = self.runs.remove(&at);
            self.subtract(entry);
        }
    }

    fn subtract(&mut self, gone: Option<Entry>) {
        let Some(gone) = gone else { return };
        self.waiting -= gone.rare().waiting;
        if let Some(count) = self.phases.get_mut(&gone.phase) {
            *count -= 1;
            if *count == 0 {
                self.phases.remove(&gone.phase);
            }
        }
    }

    /// The places of the runs that match, the newest first.
    fn wanted(
        &self,
        before: Option<RunCursor>,
        filter: &RunFilter,
    ) -> impl Iterator<Item = RunCursor> {
        let first = |created| RunCursor { created, run: RunId::from_bytes([0; 16]) };
        let since = first(filter.since.unwrap_or_default());
        let until = filter.until.map(first).into_iter().chain(before).min();
        let older = match until {
            // A range whose end lies before its start would panic.
            Some(until) => self.runs.range(since.min(until)..until),
            None => self.runs.range(since..),
        };
        let ids = filter.ids();
        let fits =
            move |(at, entry): &(&RunCursor, &Entry)| filter.fits(ids.as_ref(), entry.marks(**at));
        older.rev().filter(fits).map(|(at, _)| *at)
    }
}

impl<S: Records> Requests<'_, S> {
    /// Writes a run's record and its entry in the index.
    pub(super) fn put_record(&mut self, run: RunId, record: Record) -> Result<(), StoreError> {
        if let Some(index) = &mut self.run_index {
            index.put(run, &record);
        }
        self.records.put_record(run, record)
    }

    /// A page of runs, by id.
    pub(super) fn heads(&self, after: Option<RunId>, limit: usize) -> Result<Heads, StoreError> {
        let page = self.records.page(after, limit)?;
        let runs = page.records.iter().map(|(run, record)| record.head(*run)).collect();
        Ok(Heads { at: self.now, runs, damaged: page.damaged })
    }

    /// Of the next runs by age those that recovery takes up.
    pub(super) fn stranded(
        &self,
        after: Option<RunCursor>,
        limit: usize,
    ) -> Result<Stranded, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked_at = self.index()?.runs.range((from, Bound::Unbounded));
        let (mut runs, mut last) = (Vec::new(), None);
        for (at, entry) in looked_at.by_ref().take(limit.max(1)) {
            last = Some(*at);
            if entry.phase.is_active() && self.queue.count(at.run) == 0 {
                runs.extend(self.undamaged(at.run)?.map(|record| record.head(at.run)));
            }
        }
        Ok(Stranded { runs, next: last.filter(|_| looked_at.next().is_some()) })
    }

    /// A page of runs, the newest first.
    pub(super) fn list(&self, ask: &AskRuns) -> Result<Listed, StoreError> {
        let index = self.index()?;
        let all_damaged = index.damaged.iter().copied();
        let damaged = if ask.before.is_none() { all_damaged.collect() } else { Vec::new() };
        let mut page = Listed { at: self.now, runs: Vec::new(), next: None, damaged };
        if let Some(key) = &ask.filter.key {
            let run = self.records.run_with_key(key)?;
            if let Some(run) = run.filter(|run| !index.damaged.contains(run))
                && let Some(record) = self.undamaged(run)?
            {
                let (at, head) = (RunCursor { created: record.created, run }, record.head(run));
                if ask.before.is_none_or(|before| at < before) && ask.filter.wants(&head) {
                    page.runs.push(head);
                }
            }
            return Ok(page);
        }
        let mut last = None;
        for at in index.wanted(ask.before, &ask.filter) {
            if page.runs.len() >= ask.limit.max(1) {
                page.next = last;
                break;
            }
            last = Some(at);
            match self.undamaged(at.run)? {
                Some(record) => page.runs.push(record.head(at.run)),
                None => page.damaged.push(at.run),
            }
        }
        Ok(page)
    }

    /// A run's record; none if it is damaged, as it may have become since the store was opened.
    fn undamaged(&self, run: RunId) -> Result<Option<Record>, StoreError> {
        match self.existing(run) {
            Err(StoreError::Broken(_)) => Ok(None),
            record => record.map(Some),
        }
    }

    /// How many runs there are.
    pub(super) fn tally(&self) -> Result<Tally, StoreError> {
        let RunIndex { phases, waiting, .. } = self.index()?;
        Ok(Tally { at: self.now, phases: phases.clone(), letters: *waiting })
    }

    fn index(&self) -> Result<&RunIndex, StoreError> {
        let without = || StoreError::NotDone("this store lists and counts in another way".into());
        self.run_index.as_deref().ok_or_else(without)
    }
}
