//! What a ledger writes on: where a store keeps its records, and how it finds them again.

use bytes::Bytes;

use super::definitions::StoredDefinition;
use super::guards::State;
use super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::requests::Record;
use super::seam::{QueueRow, ResultRow, Snapshot, StoreError};
use crate::run::{LetterId, RunId, TaskId, Version};

/// Where records are kept. Every read checks what it reads; a method that writes reads nothing
/// stored, so a damaged record is noticed before anything is changed.
pub(super) trait Records {
    fn record(&self, run: RunId) -> Result<Option<Record>, StoreError>;
    fn keep_record(&mut self, run: RunId, record: &Record) -> Result<(), StoreError>;
    /// Counts a run that is new.
    fn keep_new(&mut self, run: RunId, key: Option<&str>) -> Result<(), StoreError>;
    /// The run that was first submitted under `key`.
    fn first(&self, key: &str) -> Result<Option<RunId>, StoreError>;
    fn keep_events(
        &mut self,
        run: RunId,
        from: Version,
        events: &[Bytes],
    ) -> Result<(), StoreError>;
    /// Results by the version after the commit that brought them and their place among the run's.
    fn keep_results(
        &mut self,
        run: RunId,
        at: Version,
        before: u64,
        results: &[ResultRow],
    ) -> Result<(), StoreError>;
    fn keep_snapshot(&mut self, run: RunId, snapshot: Snapshot) -> Result<(), StoreError>;
    fn keep_row(
        &mut self,
        run: RunId,
        task: TaskId,
        row: Option<&QueueRow>,
    ) -> Result<(), StoreError>;
    /// An action's guards, counted where they are the first of that action.
    fn keep_guard(&mut self, action: &str, state: &State, is_new: bool) -> Result<(), StoreError>;
    fn forget_events(&mut self, run: RunId, from: Version, to: Version) -> Result<(), StoreError>;
    /// Exactly the events from `from` to the record's version.
    fn events(&self, run: RunId, record: &Record, from: Version) -> Result<Vec<Bytes>, StoreError>;
    /// The results of commits that ended after `after`, or all.
    fn results(
        &self,
        run: RunId,
        record: &Record,
        after: Option<Version>,
    ) -> Result<Vec<ResultRow>, StoreError>;
    fn snapshot(&self, run: RunId, record: &Record) -> Result<Option<Snapshot>, StoreError>;
    fn keep_letter(&mut self, letter: &StoredLetter, is_new: bool) -> Result<(), StoreError>;
    fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError>;
    /// The tasks of a run that have letters.
    fn lettered(&self, run: RunId) -> Result<Vec<TaskId>, StoreError>;
    /// The heads of letters that `filter` wants, from the one after `after`; the damaged ones apart.
    fn letters(
        &self,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), StoreError>;
    fn definition(&self, name: &str) -> Result<Option<StoredDefinition>, StoreError>;
    /// A definition in the place of the one of its name, counted where there was none.
    fn keep_definition(
        &mut self,
        stored: &StoredDefinition,
        is_new: bool,
    ) -> Result<(), StoreError>;
    /// Definitions by name, from the one after `after`.
    fn definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError>;
    /// Forgets a run whole.
    fn forget(&mut self, run: RunId, record: &Record) -> Result<(), StoreError>;
    /// Records by run, from the one after `after`; the runs whose record is damaged apart.
    fn records(&self, after: Option<RunId>, limit: usize) -> Result<Page, StoreError>;
}

/// A page of records.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) records: Vec<(RunId, Record)>,
    pub(super) damaged: Vec<RunId>,
}
