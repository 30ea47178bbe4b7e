//! Loads what requests read. Locks come first and always in the same order: runs by id, their rows by
//! task, guards by name. So no two transactions wait for each other.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::requests::Record;
use super::super::seam::{ResultRow, Snapshot};
use super::error::Failed;
use super::layout::{
    Place, ROW, count, decode, nanos, read_row, run_at, sum, task_at, text, time, untext, uuid,
};
use super::server::NOW;
use super::session::Session;
use super::working_set::{Checked, Missing, ReadSet, WorkingSet};
use crate::run::{Digest, RunId, Version};
use crate::time::Timestamp;

/// The most held tasks of one action that one transaction lets through.
const LET_THROUGH: i64 = 256;

const RUNS: &str = "SELECT run, record, sum, updated FROM runs WHERE run = ANY($1) \
    ORDER BY run FOR NO KEY UPDATE";
const PAGE: &str = "SELECT run, record, sum, updated FROM runs \
    WHERE run >= $1 AND run IS DISTINCT FROM $2 ORDER BY run LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED";
const ORPHANS: &str = "SELECT r.run FROM unnest($1::uuid[]) r(run) \
    WHERE EXISTS (SELECT FROM events e WHERE e.run = r.run) \
    AND NOT EXISTS (SELECT FROM runs k WHERE k.run = r.run)";
const KEYS: &str = "SELECT key, run, sum FROM submissions WHERE key = ANY($1)";
const GUARDS: &str = "SELECT action, state, sum FROM guards WHERE action = ANY($1) ORDER BY action FOR NO KEY UPDATE";
const HELD: &str = "SELECT held, count(*) FROM queue WHERE held = ANY($1) GROUP BY held";
const SNAPSHOTS_OF: &str = "SELECT version, state, sum, run FROM snapshots WHERE run = ANY($1)";
/// From the snapshot on.
const EVENTS_OF: &str = "SELECT e.version, e.event, e.sum, e.run FROM unnest($1::uuid[]) w(run) \
    JOIN events e ON e.run = w.run \
    AND e.version >= coalesce((SELECT version FROM snapshots s WHERE s.run = w.run), 0)";
const RESULTS_OF: &str = "SELECT place, at, step, item, attempt, result, sum, run FROM results \
    WHERE run = ANY($1)";

fn rows_named(lock: &str) -> String {
    format!(
        "SELECT {ROW} FROM unnest($1::uuid[], $2::int[], $3::bigint[]) w(run, step, item) \
         JOIN queue q ON q.run = w.run AND q.step = w.step AND q.item = w.item \
         ORDER BY q.run, q.step, q.item {lock}"
    )
}

fn rows_of_runs(lock: &str) -> String {
    format!("SELECT {ROW} FROM queue q WHERE q.run = ANY($1) ORDER BY q.run, q.step, q.item {lock}")
}

fn lines() -> String {
    format!(
        "SELECT {ROW} FROM unnest($1::text[]) a(action) CROSS JOIN LATERAL \
         (SELECT * FROM queue h WHERE h.held = a.action ORDER BY h.turn LIMIT {LET_THROUGH} \
         FOR UPDATE SKIP LOCKED) q"
    )
}

/// The keys of tasks as columns.
#[derive(Default)]
pub(super) struct TaskColumns {
    pub(super) runs: Vec<Uuid>,
    pub(super) steps: Vec<i32>,
    pub(super) items: Vec<i64>,
}

impl TaskColumns {
    pub(super) fn push(&mut self, (run, task): Place) {
        self.runs.push(uuid(run.to_bytes()));
        self.steps.push(task.step.0.into());
        self.items.push(task.item.into());
    }

    fn of(places: impl IntoIterator<Item = Place>) -> Self {
        let mut all = Self::default();
        places.into_iter().for_each(|place| all.push(place));
        all
    }
}

fn uuids<'r>(runs: impl IntoIterator<Item = &'r RunId>) -> Vec<Uuid> {
    runs.into_iter().map(|run| uuid(run.to_bytes())).collect()
}

impl WorkingSet {
    /// Begins a transaction, locks and loads the read set, and then reads the clock. `floor` is a
    /// time that was answered before.
    pub(super) async fn load(
        session: &Session,
        reads: &ReadSet,
        floor: Timestamp,
    ) -> Result<Self, Failed> {
        let mut loaded = Self::default();
        loaded.lock_runs(session, reads).await?;
        let turning = loaded.turning(reads);
        let rows = reads.rows.iter().filter(|(run, _)| !turning.contains(run));
        let named = TaskColumns::of(rows.copied());
        tokio::try_join!(
            biased;
            select_rows(session, &named, "FOR UPDATE"),
            select_rows_of(session, &turning, "FOR UPDATE"),
        )
        .map(|(named, whole)| loaded.take_rows(named.into_iter().chain(whole)))?;
        loaded.whole.extend(turning);
        loaded.count_rows();
        loaded.load_guards(session, reads).await?;
        loaded.load_keys(session, reads).await?;
        for name in &reads.definitions {
            loaded.load_definition(session, name, "FOR UPDATE").await?;
        }
        let floor = floor.max(loaded.updated);
        let now = session.ask(NOW, [&nanos(floor)]).await?;
        loaded.now = now.first().map_or(floor, |row| time(row.get(0)));
        Ok(loaded)
    }

    async fn lock_runs(&mut self, session: &Session, reads: &ReadSet) -> Result<(), Failed> {
        if let Some((after, limit)) = reads.page {
            session.run("BEGIN").await?;
            return self.load_page(session, after, limit, PAGE).await;
        }
        let runs = uuids(&reads.runs);
        let [lock] = session.prepare([RUNS]).await?;
        let begin = session.run("BEGIN");
        let ((), rows) = tokio::try_join!(biased; begin, session.query(&lock, [&runs]))?;
        self.take_records(&rows);
        self.mark_missing(session, &reads.runs.iter().copied().collect::<Vec<_>>()).await
    }

    fn take_records(&mut self, rows: &[Row]) {
        for row in rows {
            let run = run_at(row, 0);
            self.updated = self.updated.max(time(row.get(3)));
            self.records.insert(run, read_record(run, row).map(Some));
        }
    }

    /// Runs that were not found do not exist, unless they have events: then they are damaged.
    async fn mark_missing(&mut self, session: &Session, runs: &[RunId]) -> Result<(), Failed> {
        let missing: Vec<RunId> =
            runs.iter().filter(|run| !self.records.contains_key(run)).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let orphans = session.ask(ORPHANS, [&uuids(&missing)]).await?;
        self.records.extend(missing.into_iter().map(|run| (run, Ok(None))));
        for row in orphans {
            self.damage(run_at(&row, 0), "it has events but no record");
        }
        Ok(())
    }

    fn take_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            let (place, full) = read_row(&row);
            match full {
                Some(full) => drop(self.rows.insert(place, full)),
                None => self.damage(place.0, "a queue row is not what was written"),
            }
        }
    }

    async fn load_guards(&mut self, session: &Session, reads: &ReadSet) -> Result<(), Failed> {
        if reads.guards.is_empty() {
            return Ok(());
        }
        let chosen = |which: fn(&(&String, &super::working_set::Touch)) -> bool| {
            let chosen = reads.guards.iter().filter(which);
            chosen.map(|(action, _)| text(action).into_owned()).collect::<Vec<_>>()
        };
        let (all, freeing) = (chosen(|_| true), chosen(|(_, touch)| touch.frees));
        let lines = lines();
        let [guards, line, held] = session.prepare([GUARDS, &lines, HELD]).await?;
        let (guards, line, held) = tokio::try_join!(
            biased;
            session.query(&guards, [&all]),
            session.query(&line, [&freeing]),
            session.query(&held, [&all]),
        )?;
        for row in guards {
            let action = untext(row.get(0)).into_owned();
            let state = read_guard(&action, &row);
            self.guards.insert(action, state);
        }
        for row in line {
            // A damaged row of another run is ignored.
            if let (place, Some(full)) = read_row(&row) {
                self.rows.entry(place).or_insert(full);
            }
        }
        let counts = held.iter().map(|row| {
            let n = u64::try_from(row.get::<_, i64>(1)).unwrap_or_default();
            (untext(row.get(0)).into_owned(), n)
        });
        self.held.extend(counts);
        let holders = self.holders(reads);
        let rows = select_rows(session, &TaskColumns::of(holders), "").await?;
        for (place, full) in rows.iter().map(read_row) {
            self.rows.extend(full.map(|full| (place, full)));
        }
        Ok(())
    }

    async fn load_keys(&mut self, session: &Session, reads: &ReadSet) -> Result<(), Failed> {
        if reads.keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = reads.keys.iter().map(Digest::to_string).collect();
        let rows = session.ask(KEYS, [&keys]).await?;
        for key in &reads.keys {
            let name = key.to_string();
            let row = rows.iter().find(|row| row.get::<_, &str>(0) == name);
            let found = row.map(|row| {
                let (run, stored) = (run_at(row, 1), row.get::<_, i32>(2));
                let is_whole = sum("submissions", &[name.as_bytes()], &[&run.to_bytes()]) == stored;
                let why = "the store: a submission key is not what was written";
                is_whole.then_some(run).ok_or_else(|| why.to_owned())
            });
            self.keys.insert(*key, found.transpose());
        }
        Ok(())
    }

    /// Loads what requests read and was not loaded.
    pub(super) async fn load_more(
        &mut self,
        session: &Session,
        missing: &[Missing],
    ) -> Result<(), Failed> {
        for ask in missing {
            match ask {
                Missing::Record(run) => {
                    let text = RUNS.replace("FOR NO KEY UPDATE", "");
                    let rows = session.ask(&text, [&uuids([run])]).await?;
                    self.take_records(&rows);
                    self.mark_missing(session, &[*run]).await?;
                }
                Missing::Key(key) => {
                    let keys = [*key].into();
                    self.load_keys(session, &ReadSet { keys, ..ReadSet::default() }).await?;
                }
                Missing::Events(run, from) => self.load_events(session, *run, *from).await?,
                Missing::Results(run, after) => self.load_results(session, *run, *after).await?,
                Missing::Snapshot(run) => self.load_snapshot(session, *run).await?,
                Missing::Letter(id) => self.load_letter(session, *id).await?,
                Missing::TasksWithLetters(run) => {
                    self.load_tasks_with_letters(session, *run).await?
                }
                Missing::Letters(after, limit, filter) => {
                    self.load_letters(session, *after, *limit, filter).await?;
                }
                Missing::Records(after, limit) => {
                    let text = PAGE.replace("FOR NO KEY UPDATE SKIP LOCKED", "");
                    self.load_page(session, *after, *limit, &text).await?;
                }
                Missing::Definition(name) => self.load_definition(session, name, "").await?,
                Missing::Definitions(after, limit) => {
                    self.load_definitions(session, after.as_deref(), *limit).await?;
                }
            }
        }
        Ok(())
    }

    /// Loads all rows of a run and counts them.
    pub(super) async fn load_whole(&mut self, session: &Session, run: RunId) -> Result<(), Failed> {
        let rows = select_rows_of(session, &[run], "").await?;
        self.take_rows(rows);
        self.whole.insert(run);
        self.count_rows();
        Ok(())
    }

    /// Loads what [`Requests::load`](super::super::requests::Requests::load) reads of `runs`, and all
    /// rows of the runs `queued`, with one statement for each table.
    pub(super) async fn load_runs(
        &mut self,
        session: &Session,
        runs: &[RunId],
        queued: &[RunId],
    ) -> Result<(), Failed> {
        let all: Vec<RunId> = runs.iter().chain(queued).copied().collect();
        if all.is_empty() {
            return Ok(());
        }
        let records = RUNS.replace("FOR NO KEY UPDATE", "");
        let rows = rows_of_runs("");
        let texts = [&*records, SNAPSHOTS_OF, EVENTS_OF, RESULTS_OF, &*rows];
        let [records, snapshots, events, results, rows] = session.prepare(texts).await?;
        let (ids, loads, queues) = (uuids(&all), uuids(runs), uuids(queued));
        let (records, snapshots, events, results, rows) = tokio::try_join!(
            biased;
            session.query(&records, [&ids]),
            session.query(&snapshots, [&loads]),
            session.query(&events, [&loads]),
            session.query(&results, [&loads]),
            session.query(&rows, [&queues]),
        )?;
        self.take_records(&records);
        self.mark_missing(session, &all).await?;
        self.snapshots.extend(runs.iter().map(|run| (*run, Ok(None))));
        for row in &snapshots {
            let run = run_at(row, 3);
            self.snapshots.insert(run, read_snapshot(run, row).map(Some));
        }
        for run in runs {
            let from = match self.snapshots.get(run) {
                Some(Ok(Some(snapshot))) => snapshot.version,
                _ => Version::START,
            };
            self.events.insert(*run, (from, Ok(BTreeMap::new())));
            self.results.insert(*run, (None, Ok(BTreeMap::new())));
        }
        for row in &events {
            let run = run_at(row, 3);
            take_row(self.events.get_mut(&run), read_event(run, row));
        }
        for row in &results {
            let run = run_at(row, 7);
            take_row(self.results.get_mut(&run), read_result(run, row));
        }
        self.take_rows(rows);
        self.whole.extend(queued);
        self.count_rows();
        Ok(())
    }

    async fn load_events(
        &mut self,
        session: &Session,
        run: RunId,
        from: Version,
    ) -> Result<(), Failed> {
        const TEXT: &str = "SELECT version, event, sum FROM events \
            WHERE run = $1 AND version >= $2 ORDER BY version";
        let rows = session.ask(TEXT, [&uuid(run.to_bytes()), &count(from.0)]).await?;
        let events = rows.iter().map(|row| read_event(run, row));
        self.events.insert(run, (from, events.collect()));
        Ok(())
    }

    async fn load_results(
        &mut self,
        session: &Session,
        run: RunId,
        after: Option<Version>,
    ) -> Result<(), Failed> {
        // Begins one before the first that is needed, so that a lost result after it is noticed.
        const TEXT: &str = "SELECT place, at, step, item, attempt, result, sum FROM results \
            WHERE run = $1 AND place >= coalesce((SELECT place FROM results \
            WHERE run = $1 AND at <= $2 ORDER BY place DESC LIMIT 1), 0) ORDER BY place";
        let at = after.map_or(-1, |after| count(after.0));
        let rows = session.ask(TEXT, [&uuid(run.to_bytes()), &at]).await?;
        let results = rows.iter().map(|row| read_result(run, row));
        self.results.insert(run, (after, results.collect()));
        Ok(())
    }

    async fn load_snapshot(&mut self, session: &Session, run: RunId) -> Result<(), Failed> {
        const TEXT: &str = "SELECT version, state, sum FROM snapshots WHERE run = $1";
        let rows = session.ask(TEXT, [&uuid(run.to_bytes())]).await?;
        let snapshot = rows.first().map(|row| read_snapshot(run, row));
        self.snapshots.insert(run, snapshot.transpose());
        Ok(())
    }
}

async fn select_rows(
    session: &Session,
    places: &TaskColumns,
    lock: &str,
) -> Result<Vec<Row>, Failed> {
    match places.runs.is_empty() {
        true => Ok(vec![]),
        false => {
            let TaskColumns { runs, steps, items } = places;
            session.ask(&rows_named(lock), [runs, steps, items]).await
        }
    }
}

async fn select_rows_of(session: &Session, runs: &[RunId], lock: &str) -> Result<Vec<Row>, Failed> {
    match runs.is_empty() {
        true => Ok(vec![]),
        false => session.ask(&rows_of_runs(lock), [&uuids(runs)]).await,
    }
}

/// Adds a row to those of a run, or that one is damaged.
fn take_row<K: Ord, V, F>(rows: Option<&mut (F, Checked<BTreeMap<K, V>>)>, come: Checked<(K, V)>) {
    let Some((_, rows)) = rows else { return };
    match (rows.as_mut(), come) {
        (Ok(rows), Ok((key, value))) => drop(rows.insert(key, value)),
        (Ok(_), Err(why)) => *rows = Err(why),
        (Err(_), _) => {}
    }
}

/// An event from `version, event, sum`.
fn read_event(run: RunId, row: &Row) -> Checked<(Version, Bytes)> {
    let version: i64 = row.get(0);
    let event: &[u8] = row.get(1);
    let key = [&run.to_bytes()[..], &version.to_be_bytes()];
    let is_whole = sum("events", &key, &[event]) == row.get::<_, i32>(2);
    let version = Version(u64::try_from(version).unwrap_or_default());
    let why = || format!("run {run}: an event is not what was written");
    is_whole.then(|| (version, Bytes::copy_from_slice(event))).ok_or_else(why)
}

/// A result from `place, at, step, item, attempt, result, sum`.
fn read_result(run: RunId, row: &Row) -> Checked<(u64, (Version, ResultRow))> {
    let (place, at): (i64, i64) = (row.get(0), row.get(1));
    let (result, attempt): (&[u8], i64) = (row.get(5), row.get(4));
    let task = task_at(row, 2);
    let kept = ResultRow {
        task,
        attempt: u32::try_from(attempt).unwrap_or_default(),
        result: Bytes::copy_from_slice(result),
    };
    let at = Version(u64::try_from(at).unwrap_or_default());
    let place = u64::try_from(place).unwrap_or_default();
    let is_whole = result_sum(run, place, at, &kept) == row.get::<_, i32>(6);
    let why = || format!("run {run}: a result is not what was written");
    is_whole.then_some((place, (at, kept))).ok_or_else(why)
}

/// A snapshot from `version, state, sum`.
fn read_snapshot(run: RunId, row: &Row) -> Checked<Snapshot> {
    let version = Version(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default());
    let snapshot = Snapshot { version, state: Bytes::copy_from_slice(row.get(1)) };
    let is_whole = snapshot_sum(run, &snapshot) == row.get::<_, i32>(2);
    let why = || format!("run {run}: its snapshot is not what was written");
    is_whole.then_some(snapshot).ok_or_else(why)
}

/// A record from `run, record, sum`.
pub(super) fn read_record(run: RunId, row: &Row) -> Checked<Record> {
    let record = decode("runs", &[&run.to_bytes()], row.get(1), row.get(2));
    record.ok_or_else(|| format!("run {run}: its record is not what was written"))
}

pub(super) fn read_guard<T: serde::de::DeserializeOwned>(
    action: &str,
    row: &Row,
) -> Checked<Option<T>> {
    let Some(state) = row.get::<_, Option<&[u8]>>(1) else { return Ok(None) };
    let stored = row.get::<_, Option<i32>>(2);
    let state = stored.and_then(|stored| decode("guards", &[action.as_bytes()], state, stored));
    state.map(Some).ok_or_else(|| format!("the store: the guards of action `{action}`"))
}

pub(super) fn result_sum(run: RunId, place: u64, at: Version, row: &ResultRow) -> i32 {
    let (step, item) = (row.task.step.0.to_be_bytes(), row.task.item.to_be_bytes());
    let (at, attempt) = (at.0.to_be_bytes(), row.attempt.to_be_bytes());
    let value = [&at[..], &step, &item, &attempt, &row.result];
    sum("results", &[&run.to_bytes(), &place.to_be_bytes()], &value)
}

pub(super) fn snapshot_sum(run: RunId, snapshot: &Snapshot) -> i32 {
    let version = snapshot.version.0.to_be_bytes();
    sum("snapshots", &[&run.to_bytes()], &[&version, &snapshot.state])
}
