//! The trait through which requests read and write a store's records.

use bytes::Bytes;

use super::definitions::StoredDefinition;
use super::guards::State;
use super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::reports::StoredReport;
use super::requests::Record;
use super::seam::{QueueRow, ResultRow, Snapshot, StoreError};
use crate::run::{LetterId, RunId, TaskId, Version};

/// A store's records. Every read checks what it reads. A method that writes reads nothing stored, so
/// a request notices a damaged record before it changes anything.
pub(super) trait Records {
    fn record(&self, run: RunId) -> Result<Option<Record>, StoreError>;
    fn put_record(&mut self, run: RunId, record: Record) -> Result<(), StoreError>;
    /// Counts a new run and stores its submission key.
    fn add_run(&mut self, run: RunId, key: Option<&str>) -> Result<(), StoreError>;
    /// The run that was first submitted under `key`.
    fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StoreError>;
    fn put_events(&mut self, run: RunId, from: Version, events: &[Bytes])
    -> Result<(), StoreError>;
    /// Stores results with the run's version after their commit, and with their place in the run: the
    /// first has `before` results before it.
    fn put_results(
        &mut self,
        run: RunId,
        at: Version,
        before: u64,
        results: &[ResultRow],
    ) -> Result<(), StoreError>;
    fn put_snapshot(&mut self, run: RunId, snapshot: Snapshot) -> Result<(), StoreError>;
    fn put_row(
        &mut self,
        run: RunId,
        task: TaskId,
        row: Option<&QueueRow>,
    ) -> Result<(), StoreError>;
    /// Stores an action's guards, and counts them if they are new.
    fn put_guard(&mut self, action: &str, state: &State, is_new: bool) -> Result<(), StoreError>;
    fn remove_events(&mut self, run: RunId, from: Version, to: Version) -> Result<(), StoreError>;
    /// Exactly the events from `from` to the record's version.
    fn events(&self, run: RunId, record: &Record, from: Version) -> Result<Vec<Bytes>, StoreError>;
    /// The results of commits after the version `after`, or all.
    fn results(
        &self,
        run: RunId,
        record: &Record,
        after: Option<Version>,
    ) -> Result<Vec<ResultRow>, StoreError>;
    fn snapshot(&self, run: RunId, record: &Record) -> Result<Option<Snapshot>, StoreError>;
    fn put_letter(&mut self, letter: &StoredLetter, is_new: bool) -> Result<(), StoreError>;
    fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError>;
    /// The tasks of a run that have letters.
    fn tasks_with_letters(&self, run: RunId) -> Result<Vec<TaskId>, StoreError>;
    /// The heads of letters that match `filter`, from the one after `after`; damaged letters apart.
    fn letters(
        &self,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), StoreError>;
    fn definition(&self, name: &str) -> Result<Option<StoredDefinition>, StoreError>;
    /// Stores a definition in place of the one of its name, and counts it if it is new.
    fn put_definition(&mut self, stored: &StoredDefinition, is_new: bool)
    -> Result<(), StoreError>;
    /// Definitions by name, from the one after `after`.
    fn definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError>;
    /// Stores a report in place of the node's last one.
    fn put_report(&mut self, stored: &StoredReport) -> Result<(), StoreError>;
    fn remove_report(&mut self, node: &str) -> Result<(), StoreError>;
    /// The reports by node, without damaged ones.
    fn reports(&self) -> Result<Vec<StoredReport>, StoreError>;
    /// Removes a run and all that belongs to it, but for its queue rows.
    fn remove_run(&mut self, run: RunId, record: &Record) -> Result<(), StoreError>;
    /// Records by run, from the one after `after`; damaged runs apart.
    fn page(&self, after: Option<RunId>, limit: usize) -> Result<Page, StoreError>;
}

/// A page of records.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) records: Vec<(RunId, Record)>,
    pub(super) damaged: Vec<RunId>,
}
