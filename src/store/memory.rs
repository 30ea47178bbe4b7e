//! A store in memory. It loses everything when it is dropped.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::definitions::StoredDefinition;
use super::guards::{Guards, State};
use super::letters::{LetterFilter, LetterHead, StoredLetter};
use super::queue::Queue;
use super::records::{Page, Records};
use super::reports::StoredReport;
use super::requests::{Record, Requests};
use super::run_index::RunIndex;
use super::seam::{Answer, QueueRow, Request, ResultRow, Snapshot, Store, StoreError};
use crate::run::{LetterId, RunId, TaskId, Version};
use crate::runtime::Runtime;
use crate::time::{Mono, Timestamp};

/// A store in memory, for tests and for the simulation's shared store. Its clock starts at a given
/// time and advances with the runtime's monotonic clock.
#[derive(Debug)]
pub struct MemoryStore<R> {
    runtime: R,
    origin: Timestamp,
    since: Mono,
    contents: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    records: MemoryRecords,
    queue: Queue,
    guards: Guards,
    run_index: RunIndex,
}

impl<R: Runtime> MemoryStore<R> {
    /// An empty store whose clock starts at the runtime's wall clock.
    #[must_use]
    pub fn new(runtime: R) -> Self {
        let origin = runtime.wall();
        Self::starting_at(runtime, origin)
    }

    /// An empty store whose clock starts at `origin`.
    #[must_use]
    pub fn starting_at(runtime: R, origin: Timestamp) -> Self {
        let since = runtime.now();
        Self { runtime, origin, since, contents: Mutex::default() }
    }
}

impl<R: Runtime> Store for MemoryStore<R> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.origin.after(self.runtime.now().since(self.since));
        let Contents { records, queue, guards, run_index } = &mut *contents;
        let run_index = Some(run_index);
        Requests { records, queue, guards, run_index, now }.answer(&request)
    }
}

#[derive(Debug, Default)]
struct MemoryRecords {
    runs: BTreeMap<RunId, Run>,
    keys: BTreeMap<String, RunId>,
    letters: BTreeMap<LetterId, StoredLetter>,
    definitions: BTreeMap<String, StoredDefinition>,
    reports: BTreeMap<String, StoredReport>,
}

#[derive(Debug, Default)]
struct Run {
    record: Option<Record>,
    /// Those that are kept, up to the record's version.
    events: Vec<Bytes>,
    results: Vec<(Version, ResultRow)>,
    snapshot: Option<Snapshot>,
}

impl MemoryRecords {
    fn run(&mut self, run: RunId) -> &mut Run {
        self.runs.entry(run).or_default()
    }
}

impl Records for MemoryRecords {
    fn record(&self, run: RunId) -> Result<Option<Record>, StoreError> {
        Ok(self.runs.get(&run).and_then(|r| r.record.clone()))
    }

    fn put_record(&mut self, run: RunId, record: Record) -> Result<(), StoreError> {
        self.run(run).record = Some(record);
        Ok(())
    }

    fn add_run(&mut self, run: RunId, key: Option<&str>) -> Result<(), StoreError> {
        self.keys.extend(key.map(|key| (key.to_owned(), run)));
        Ok(())
    }

    fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StoreError> {
        Ok(self.keys.get(key).copied())
    }

    fn put_events(&mut self, run: RunId, _: Version, events: &[Bytes]) -> Result<(), StoreError> {
        self.run(run).events.extend_from_slice(events);
        Ok(())
    }

    fn put_results(
        &mut self,
        run: RunId,
        at: Version,
        _: u64,
        results: &[ResultRow],
    ) -> Result<(), StoreError> {
        self.run(run).results.extend(results.iter().map(|row| (at, row.clone())));
        Ok(())
    }

    fn put_snapshot(&mut self, run: RunId, snapshot: Snapshot) -> Result<(), StoreError> {
        self.run(run).snapshot = Some(snapshot);
        Ok(())
    }

    fn put_row(&mut self, _: RunId, _: TaskId, _: Option<&QueueRow>) -> Result<(), StoreError> {
        Ok(())
    }

    fn put_guard(&mut self, _: &str, _: &State, _: bool) -> Result<(), StoreError> {
        Ok(())
    }

    fn remove_events(&mut self, run: RunId, from: Version, to: Version) -> Result<(), StoreError> {
        let gone = usize::try_from(to.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
        let events = &mut self.run(run).events;
        events.drain(..gone.min(events.len()));
        Ok(())
    }

    fn events(&self, run: RunId, record: &Record, from: Version) -> Result<Vec<Bytes>, StoreError> {
        let wanted = usize::try_from(record.version.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
        let kept = self.runs.get(&run).map_or(&[][..], |run| &run.events);
        Ok(kept[kept.len().saturating_sub(wanted)..].to_vec())
    }

    fn results(
        &self,
        run: RunId,
        _: &Record,
        after: Option<Version>,
    ) -> Result<Vec<ResultRow>, StoreError> {
        let rows = self.runs.get(&run).into_iter().flat_map(|r| &r.results);
        let rows = rows.filter(|(at, _)| after.is_none_or(|after| *at > after));
        Ok(rows.map(|(_, row)| row.clone()).collect())
    }

    fn snapshot(&self, run: RunId, _: &Record) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.runs.get(&run).and_then(|r| r.snapshot.clone()))
    }

    fn put_letter(&mut self, letter: &StoredLetter, _: bool) -> Result<(), StoreError> {
        self.letters.insert(letter.head.id, letter.clone());
        Ok(())
    }

    fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        Ok(self.letters.get(&id).cloned())
    }

    fn tasks_with_letters(&self, run: RunId) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.letters.keys().filter(|id| id.run == run).map(|id| id.task).collect())
    }

    fn letters(
        &self,
        after: Option<LetterId>,
        limit: usize,
        filter: &LetterFilter,
    ) -> Result<(Vec<LetterHead>, Vec<LetterId>), StoreError> {
        let later = self.letters.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let wanted = later.map(|(_, letter)| &letter.head).filter(|head| filter.wants(head));
        Ok((wanted.take(limit).cloned().collect(), vec![]))
    }

    fn definition(&self, name: &str) -> Result<Option<StoredDefinition>, StoreError> {
        Ok(self.definitions.get(name).cloned())
    }

    fn put_definition(&mut self, stored: &StoredDefinition, _: bool) -> Result<(), StoreError> {
        self.definitions.insert(stored.definition.name.clone(), stored.clone());
        Ok(())
    }

    fn put_report(&mut self, stored: &StoredReport) -> Result<(), StoreError> {
        self.reports.insert(stored.report.node.clone(), stored.clone());
        Ok(())
    }

    fn remove_report(&mut self, node: &str) -> Result<(), StoreError> {
        self.reports.remove(node);
        Ok(())
    }

    fn reports(&self) -> Result<Vec<StoredReport>, StoreError> {
        Ok(self.reports.values().cloned().collect())
    }

    fn definitions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        let after = after.map_or(Unbounded, Excluded);
        let later = self.definitions.range::<str, _>((after, Unbounded));
        Ok(later.take(limit).map(|(_, stored)| stored.clone()).collect())
    }

    fn remove_run(&mut self, run: RunId, record: &Record) -> Result<(), StoreError> {
        self.runs.remove(&run);
        self.letters.retain(|id, _| id.run != run);
        if let Some(key) = &record.key {
            self.keys.remove(&**key);
        }
        Ok(())
    }

    fn page(&self, after: Option<RunId>, limit: usize) -> Result<Page, StoreError> {
        let runs = self.runs.range((after.map_or(Unbounded, Excluded), Unbounded));
        let records = runs.filter_map(|(run, r)| Some((*run, r.record.clone()?)));
        Ok(Page { records: records.take(limit).collect(), damaged: vec![] })
    }
}
