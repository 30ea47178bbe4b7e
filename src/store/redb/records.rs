use std::cell::RefCell;
use std::collections::BTreeSet;

use bytes::Bytes;
use redb::{StorageError, TableError, WriteTransaction};
use serde::Serialize;

use super::super::definitions::StoredDefinition;
use super::super::guards::State;
use super::super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::super::records::{Page, Records};
use super::super::reports::StoredReport;
use super::super::requests::Record;
use super::super::seam::{QueueRow, ResultRow, Snapshot, StoreError};
use super::checked_table::{CheckedTable, Fault, Row};
use super::error::{before_commit, broken, parse};
use super::layout::{
    FORMAT, Totals, event_key, headed, letter_key, letter_of, read_letter, read_result,
    read_snapshot, result_key, result_value, row_key, run_of, snapshot_value,
};
use super::mark::{Touched, key_sum};
use crate::run::{LetterId, RunId, TaskId, Version};

const LAST: Version = Version(u64::MAX);
const LETTER: &str = "a dead letter is not what was written";
pub(super) const RECORD: &str = "its record is not what was written";
const RESULT: &str = "a result is not what was written";
const LOST_RESULT: &str = "its results are not all there";
const SNAPSHOT: &str = "its snapshot is not what was written";

/// The records of one transaction.
pub(super) struct RedbRecords<'txn> {
    pub(super) txn: &'txn WriteTransaction,
    pub(super) meta: CheckedTable<'txn>,
    pub(super) heads: CheckedTable<'txn>,
    pub(super) keys: CheckedTable<'txn>,
    pub(super) rows: CheckedTable<'txn>,
    pub(super) guards: CheckedTable<'txn>,
    events: CheckedTable<'txn>,
    results: CheckedTable<'txn>,
    snapshots: CheckedTable<'txn>,
    pub(super) letters: CheckedTable<'txn>,
    pub(super) totals: Totals,
    pub(super) known: &'txn KnownDamage,
    /// Whether anything was written.
    pub(super) written: bool,
    /// What was written of runs, keys and definitions, for the mark.
    pub(super) touched: Touched,
    /// The database's own failure, after which the transaction is void.
    failed: RefCell<Option<StoreError>>,
}

/// What opening found damaged.
#[derive(Debug, Default)]
pub(super) struct KnownDamage {
    /// Runs whose record or queue rows are damaged, or of which a commit was lost.
    pub(super) damaged: BTreeSet<RunId>,
    /// What lost commits changed.
    pub(super) lost: Touched,
    /// Whether a submission key was lost.
    pub(super) keys_damaged: bool,
    /// Whether a workflow definition is damaged.
    pub(super) definitions_damaged: bool,
}

impl<'txn> RedbRecords<'txn> {
    /// Opens every table except that of definitions, and creates those that are missing.
    pub(super) fn open(
        txn: &'txn WriteTransaction,
        known: &'txn KnownDamage,
        totals: Totals,
    ) -> Result<Self, TableError> {
        Ok(Self {
            txn,
            meta: CheckedTable::open(txn, "meta")?,
            heads: CheckedTable::open(txn, "heads")?,
            keys: CheckedTable::open(txn, "keys")?,
            rows: CheckedTable::open(txn, "queue")?,
            guards: CheckedTable::open(txn, "guards")?,
            events: CheckedTable::open(txn, "events")?,
            results: CheckedTable::open(txn, "results")?,
            snapshots: CheckedTable::open(txn, "snapshots")?,
            letters: CheckedTable::open(txn, "letters")?,
            totals,
            known,
            written: false,
            touched: Touched::default(),
            failed: RefCell::new(None),
        })
    }

    pub(super) fn write_format(&mut self) -> Result<(), StorageError> {
        self.meta.put(b"format", &FORMAT.to_be_bytes())
    }

    pub(super) fn write_totals(&mut self) -> Result<(), StorageError> {
        let Totals { definitions, commits, .. } = self.totals;
        if definitions > 0 {
            self.meta.put(b"definitions", &definitions.to_be_bytes())?;
        }
        if commits > 0 {
            self.write_commits(commits)?;
        }
        self.meta.put(b"totals", &self.totals.value())
    }

    pub(super) fn write_commits(&mut self, commits: u64) -> Result<(), StorageError> {
        self.meta.put(b"commits", &commits.to_be_bytes())
    }

    /// Why the transaction is void, if it is.
    pub(super) fn failed(&self) -> Option<StoreError> {
        self.failed.borrow().clone()
    }

    /// Marks the transaction as void.
    pub(super) fn fail(&self, error: StorageError) -> StoreError {
        let error = before_commit(error);
        self.failed.borrow_mut().get_or_insert(error).clone()
    }

    fn read<T>(&self, what: &str, got: Result<T, Fault>) -> Result<T, StoreError> {
        got.map_err(|fault| match fault {
            Fault::Rot(key) => broken(run_of(&key), what),
            Fault::Storage(error) => self.fail(error),
        })
    }

    pub(super) fn write(&mut self, done: Result<(), StorageError>) -> Result<(), StoreError> {
        self.written = true;
        done.map_err(|error| self.fail(error))
    }

    pub(super) fn encode(&self, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
        serde_json::to_vec(value).map_err(|e| self.fail(StorageError::Corrupted(e.to_string())))
    }

    fn range(
        &self,
        table: &CheckedTable<'_>,
        what: &str,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<Row>, StoreError> {
        let rows = table.range(from, to).map_err(|error| self.fail(error))?;
        rows.map(|row| self.read(what, row)).collect()
    }
}

impl Records for RedbRecords<'_> {
    fn record(&self, run: RunId) -> Result<Option<Record>, StoreError> {
        if self.known.lost.runs.contains(&run) {
            return Err(broken(run, "its newest commit was lost, because the store's file rotted"));
        }
        if self.known.damaged.contains(&run) {
            return Err(broken(run, "its record or queue rows are not what was written"));
        }
        if let Some(value) = self.read(RECORD, self.heads.get(&run.to_bytes()))? {
            return parse(run, RECORD, &value).map(Some);
        }
        let (from, to) = (event_key(run, Version::START), event_key(run, LAST));
        let mut orphans = self.events.range(&from, &to).map_err(|error| self.fail(error))?;
        match orphans.next() {
            Some(Err(Fault::Storage(error))) => Err(self.fail(error)),
            Some(_) => Err(broken(run, "it has events but no record")),
            None => Ok(None),
        }
    }

    fn put_record(&mut self, run: RunId, record: Record) -> Result<(), StoreError> {
        self.touched.runs.insert(run);
        let done = self.heads.put(&run.to_bytes(), &self.encode(&record)?);
        self.write(done)
    }

    fn add_run(&mut self, run: RunId, key: Option<&str>) -> Result<(), StoreError> {
        self.totals.runs += 1;
        let Some(key) = key else { return Ok(()) };
        self.totals.keys += 1;
        self.touched.names.insert(key_sum(key));
        let done = self.keys.put(key.as_bytes(), &run.to_bytes());
        self.write(done)
    }

    fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StoreError> {
        match self.keys.get(key.as_bytes()) {
            Ok(Some(value)) => Ok(Some(run_of(&value))),
            Ok(None) if self.known.lost.names.contains(&key_sum(key)) => {
                let what = "the store: the run of this submission key was lost, because the \
                            store's file rotted";
                Err(StoreError::Broken(what.into()))
            }
            Ok(None) if !self.known.keys_damaged => Ok(None),
            Ok(None) | Err(Fault::Rot(_)) => {
                let what = "the store: a submission key was lost, and this may be the one";
                Err(StoreError::Broken(what.into()))
            }
            Err(Fault::Storage(error)) => Err(self.fail(error)),
        }
    }

    fn put_events(
        &mut self,
        run: RunId,
        from: Version,
        events: &[Bytes],
    ) -> Result<(), StoreError> {
        for (n, event) in events.iter().enumerate() {
            let done = self.events.put(&event_key(run, from.after(n)), event);
            self.write(done)?;
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
        for (place, row) in (before..).zip(results) {
            let done = self.results.put(&result_key(run, place), &result_value(at, row));
            self.write(done)?;
        }
        Ok(())
    }

    fn put_snapshot(&mut self, run: RunId, snapshot: Snapshot) -> Result<(), StoreError> {
        let done = self.snapshots.put(&run.to_bytes(), &snapshot_value(&snapshot));
        self.write(done)
    }

    fn put_row(
        &mut self,
        run: RunId,
        task: TaskId,
        row: Option<&QueueRow>,
    ) -> Result<(), StoreError> {
        let key = row_key(run, task);
        let done = match row {
            Some(row) => self.rows.put(&key, &self.encode(row)?),
            None => self.rows.remove(&key),
        };
        self.write(done)
    }

    fn put_guard(&mut self, action: &str, state: &State, is_new: bool) -> Result<(), StoreError> {
        self.totals.guards += u64::from(is_new);
        let done = self.guards.put(action.as_bytes(), &self.encode(state)?);
        self.write(done)
    }

    fn remove_events(&mut self, run: RunId, from: Version, to: Version) -> Result<(), StoreError> {
        for version in (from.0..to.0).map(Version) {
            let done = self.events.remove(&event_key(run, version));
            self.write(done)?;
        }
        Ok(())
    }

    fn events(&self, run: RunId, record: &Record, from: Version) -> Result<Vec<Bytes>, StoreError> {
        let (first, last) = (event_key(run, from), event_key(run, LAST));
        let rows = self.range(&self.events, "an event is not what was written", &first, &last)?;
        if rows.len() as u64 != record.version.0.saturating_sub(from.0) {
            return Err(broken(run, "its events are not all there"));
        }
        Ok(rows.into_iter().map(|(_, event)| event.into()).collect())
    }

    fn results(
        &self,
        run: RunId,
        record: &Record,
        after: Option<Version>,
    ) -> Result<Vec<ResultRow>, StoreError> {
        let (first, last) = (result_key(run, 0), result_key(run, u64::MAX));
        let mut stored = self.results.range(&first, &last).map_err(|error| self.fail(error))?;
        let mut rows = Vec::new();
        for place in (0..record.results).rev() {
            let row = stored.next_back().ok_or_else(|| broken(run, LOST_RESULT))?;
            let (key, value) = self.read(RESULT, row)?;
            if key != result_key(run, place) {
                return Err(broken(run, LOST_RESULT));
            }
            let (at, row) = read_result(&value).ok_or_else(|| broken(run, RESULT))?;
            if after.is_some_and(|after| at <= after) {
                break;
            }
            rows.push(row);
        }
        rows.reverse();
        Ok(rows)
    }

    fn snapshot(&self, run: RunId, record: &Record) -> Result<Option<Snapshot>, StoreError> {
        let value = self.read(SNAPSHOT, self.snapshots.get(&run.to_bytes()))?;
        let snapshot = value.and_then(|value| read_snapshot(&value));
        match snapshot.as_ref().map(|s| s.version) == record.snapshot {
            true => Ok(snapshot),
            false => Err(broken(run, SNAPSHOT)),
        }
    }

    fn put_letter(&mut self, letter: &StoredLetter, is_new: bool) -> Result<(), StoreError> {
        self.totals.letters += u64::from(is_new);
        let value = headed(&self.encode(&letter.head)?, &letter.body);
        let done = self.letters.put(&letter_key(letter.head.id), &value);
        self.write(done)
    }

    fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        let Some(value) = self.read(LETTER, self.letters.get(&letter_key(id)))? else {
            return Ok(None);
        };
        read_letter(&value).map(Some).ok_or_else(|| broken(id.run, LETTER))
    }

    fn tasks_with_letters(&self, run: RunId) -> Result<Vec<TaskId>, StoreError> {
        let (first, last) = (row_key(run, TaskId::FIRST), row_key(run, TaskId::LAST));
        let rows = self.letters.range(&first, &last).map_err(|error| self.fail(error))?;
        rows.map(|row| Ok(letter_of(&self.read(LETTER, row)?.0).task)).collect()
    }

    fn letters(
        &self,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), StoreError> {
        self.read_letters(after, limit, filter)
    }

    fn definition(&self, name: &str) -> Result<Option<StoredDefinition>, StoreError> {
        self.read_definition(name)
    }

    fn put_definition(
        &mut self,
        stored: &StoredDefinition,
        is_new: bool,
    ) -> Result<(), StoreError> {
        self.write_definition(stored, is_new)
    }

    fn put_report(&mut self, stored: &StoredReport) -> Result<(), StoreError> {
        self.write_report(stored)
    }

    fn remove_report(&mut self, node: &str) -> Result<(), StoreError> {
        self.delete_report(node)
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        self.read_reports()
    }

    fn definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        self.read_definitions(after, limit)
    }

    fn remove_run(&mut self, run: RunId, record: &Record) -> Result<(), StoreError> {
        self.touched.runs.insert(run);
        let (events, results) = (event_key(run, Version::START), result_key(run, 0));
        let letters = row_key(run, TaskId::FIRST);
        let gone = [
            self.events.remove_range(&events, &event_key(run, LAST)),
            self.results.remove_range(&results, &result_key(run, u64::MAX)),
            self.letters.remove_range(&letters, &row_key(run, TaskId::LAST)),
            self.snapshots.remove(&run.to_bytes()),
            self.heads.remove(&run.to_bytes()),
        ];
        gone.into_iter().try_for_each(|done| self.write(done))?;
        if let Some(key) = &record.key {
            let done = self.keys.remove(key.as_bytes());
            self.write(done)?;
            self.totals.keys -= 1;
        }
        self.totals.runs -= 1;
        self.totals.letters -= record.letters;
        Ok(())
    }

    fn page(&self, after: Option<RunId>, limit: usize) -> Result<Page, StoreError> {
        self.read_page(after, limit)
    }
}
