use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::definitions::StoredDefinition;
use super::super::guards::State;
use super::super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::super::records::{Page, Records};
use super::super::reports::StoredReport;
use super::super::requests::Record;
use super::super::seam::{QueueRow, ResultRow, Snapshot, StoreError};
use super::working_set::{Checked, Missing, WorkingSet};
use crate::run::{Digest, LetterId, RunId, TaskId, Version};

/// What was loaded, and what requests have changed. A request that reads what was not loaded fails,
/// and this remembers what was missing. The caller loads that and runs the request again.
pub(super) struct PgRecords<'b> {
    loaded: &'b WorkingSet,
    missing: RefCell<Vec<Missing>>,
    pub(super) changes: Changes,
}

/// What to write.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) new_runs: BTreeSet<RunId>,
    pub(super) records: BTreeMap<RunId, Record>,
    pub(super) keys: BTreeMap<Digest, RunId>,
    /// Those of each commit, by the version of the first.
    pub(super) events: BTreeMap<(RunId, Version), Vec<Bytes>>,
    /// By run and place, with the run's version after their commit.
    pub(super) results: BTreeMap<(RunId, u64), (Version, ResultRow)>,
    pub(super) snapshots: BTreeMap<RunId, Snapshot>,
    pub(super) letters: BTreeMap<LetterId, StoredLetter>,
    pub(super) guards: BTreeMap<String, State>,
    pub(super) definitions: Vec<StoredDefinition>,
    /// Removes a run's events up to the version.
    pub(super) trimmed: Vec<(RunId, Version)>,
    /// Runs to remove, and their submission keys.
    pub(super) removed_runs: BTreeSet<RunId>,
    pub(super) removed_keys: BTreeSet<Digest>,
}

impl<'b> PgRecords<'b> {
    pub(super) fn new(loaded: &'b WorkingSet) -> Self {
        Self { loaded, missing: RefCell::default(), changes: Changes::default() }
    }

    /// What requests read and was not loaded.
    pub(super) fn missing(&self) -> Vec<Missing> {
        self.missing.borrow().clone()
    }

    fn got<'k, T>(&self, kept: Option<&'k Checked<T>>, ask: Missing) -> Result<&'k T, StoreError> {
        match kept {
            Some(Ok(found)) => Ok(found),
            Some(Err(broken)) => Err(StoreError::Broken(broken.clone())),
            None => {
                self.missing.borrow_mut().push(ask);
                Err(StoreError::NotDone("it was not loaded".into()))
            }
        }
    }
}

fn broken(run: RunId, what: &str) -> StoreError {
    StoreError::Broken(format!("run {run}: {what}"))
}

impl Records for PgRecords<'_> {
    fn record(&self, run: RunId) -> Result<Option<Record>, StoreError> {
        if let Some(record) = self.changes.records.get(&run) {
            return Ok(Some(record.clone()));
        }
        self.got(self.loaded.records.get(&run), Missing::Record(run)).cloned()
    }

    fn put_record(&mut self, run: RunId, record: Record) -> Result<(), StoreError> {
        self.changes.records.insert(run, record);
        Ok(())
    }

    fn add_run(&mut self, run: RunId, key: Option<&str>) -> Result<(), StoreError> {
        self.changes.new_runs.insert(run);
        self.changes.keys.extend(key.map(|key| (Digest::of(key.as_bytes()), run)));
        Ok(())
    }

    fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StoreError> {
        let key = Digest::of(key.as_bytes());
        self.got(self.loaded.keys.get(&key), Missing::Key(key)).copied()
    }

    fn put_events(
        &mut self,
        run: RunId,
        from: Version,
        events: &[Bytes],
    ) -> Result<(), StoreError> {
        if !events.is_empty() {
            self.changes.events.insert((run, from), events.to_vec());
        }
        Ok(())
    }

    fn put_results(
        &mut self,
        run: RunId,
        at: Version,
        before: u64,
        results: &[ResultRow],
    ) -> Result<(), StoreError> {
        let placed = (before..).zip(results).map(|(n, row)| ((run, n), (at, row.clone())));
        self.changes.results.extend(placed);
        Ok(())
    }

    fn put_snapshot(&mut self, run: RunId, snapshot: Snapshot) -> Result<(), StoreError> {
        self.changes.snapshots.insert(run, snapshot);
        Ok(())
    }

    /// Rows are written from the queue, which also has their reservations and holds.
    fn put_row(&mut self, _: RunId, _: TaskId, _: Option<&QueueRow>) -> Result<(), StoreError> {
        Ok(())
    }

    fn put_guard(&mut self, action: &str, state: &State, _: bool) -> Result<(), StoreError> {
        self.changes.guards.insert(action.to_owned(), state.clone());
        Ok(())
    }

    fn remove_events(&mut self, run: RunId, _: Version, to: Version) -> Result<(), StoreError> {
        self.changes.trimmed.push((run, to));
        Ok(())
    }

    fn events(&self, run: RunId, record: &Record, from: Version) -> Result<Vec<Bytes>, StoreError> {
        let found = self.loaded.events.get(&run).filter(|(first, _)| *first <= from);
        let events = self.got(found.map(|(_, events)| events), Missing::Events(run, from))?;
        let events: Vec<_> = events.range(from..).map(|(_, event)| event.clone()).collect();
        if events.len() as u64 != record.version.0.saturating_sub(from.0) {
            return Err(broken(run, "its events are not all there"));
        }
        Ok(events)
    }

    fn results(
        &self,
        run: RunId,
        record: &Record,
        after: Option<Version>,
    ) -> Result<Vec<ResultRow>, StoreError> {
        let found = self.loaded.results.get(&run).filter(|(from, _)| *from <= after);
        let rows = self.got(found.map(|(_, rows)| rows), Missing::Results(run, after))?;
        // Results that were not loaded are older than the first that was.
        let is_old = |at: &Version| after.is_some_and(|after| *at <= after);
        let first = rows.first_key_value().filter(|(_, (at, _))| is_old(at));
        let first = first.map_or(0, |(place, _)| *place);
        if !rows.keys().copied().eq(first..record.results) {
            return Err(broken(run, "its results are not all there"));
        }
        let wanted = rows.values().filter(|(at, _)| !is_old(at));
        Ok(wanted.map(|(_, row)| row.clone()).collect())
    }

    fn snapshot(&self, run: RunId, record: &Record) -> Result<Option<Snapshot>, StoreError> {
        let snapshot = self.got(self.loaded.snapshots.get(&run), Missing::Snapshot(run))?;
        match snapshot.as_ref().map(|s| s.version) == record.snapshot {
            true => Ok(snapshot.clone()),
            false => Err(broken(run, "its snapshot is not the one that was written")),
        }
    }

    fn put_letter(&mut self, letter: &StoredLetter, _: bool) -> Result<(), StoreError> {
        self.changes.letters.insert(letter.head.id, letter.clone());
        Ok(())
    }

    fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        self.got(self.loaded.letters.get(&id), Missing::Letter(id)).cloned()
    }

    fn tasks_with_letters(&self, run: RunId) -> Result<Vec<TaskId>, StoreError> {
        self.got(self.loaded.tasks_with_letters.get(&run), Missing::TasksWithLetters(run)).cloned()
    }

    fn letters(
        &self,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), StoreError> {
        let ask = (after, limit, filter.clone());
        let page = self.loaded.letter_pages.iter().find(|(missing, _)| *missing == ask);
        let missing = Missing::Letters(after, limit, filter.clone());
        self.got(page.map(|(_, page)| page), missing).cloned()
    }

    fn definition(&self, name: &str) -> Result<Option<StoredDefinition>, StoreError> {
        let found = self.loaded.definitions.get(name);
        self.got(found, Missing::Definition(name.to_owned())).cloned()
    }

    fn put_definition(&mut self, stored: &StoredDefinition, _: bool) -> Result<(), StoreError> {
        self.changes.definitions.push(stored.clone());
        Ok(())
    }

    /// SQL of their own writes and reads reports.
    fn put_report(&mut self, _: &StoredReport) -> Result<(), StoreError> {
        Err(StoreError::NotDone("reports are written apart".into()))
    }

    fn remove_report(&mut self, _: &str) -> Result<(), StoreError> {
        Err(StoreError::NotDone("reports are removed apart".into()))
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        Err(StoreError::NotDone("reports are read apart".into()))
    }

    fn definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        let ask = (after.map(str::to_owned), limit);
        let page = self.loaded.definition_pages.get(&ask);
        self.got(page, Missing::Definitions(ask.0, limit)).cloned()
    }

    fn remove_run(&mut self, run: RunId, record: &Record) -> Result<(), StoreError> {
        // The rows are gone from the queue already, and so is the run.
        self.changes.records.remove(&run);
        self.changes.removed_runs.insert(run);
        let key = record.key.as_ref().map(|key| Digest::of(key.as_bytes()));
        self.changes.removed_keys.extend(key);
        Ok(())
    }

    fn page(&self, after: Option<RunId>, limit: usize) -> Result<Page, StoreError> {
        let page = self.loaded.pages.get(&(after, limit));
        self.got(page, Missing::Records(after, limit))
            .map(|page| Page { records: page.records.clone(), damaged: page.damaged.clone() })
    }
}
