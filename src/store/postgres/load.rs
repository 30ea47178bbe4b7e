//! Loads what requests read. Locks come first and always in the same order: runs by id, their rows by
//! task, guards by name. So no two transactions wait for each other.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::requests::Record;
use super::error::Failed;
use super::layout::{
    Place, ROW, decode, nanos, read_fields, read_row, run_at, sum, text, time, untext, uuid,
};
use super::server::NOW;
use super::session::Session;
use super::working_set::{Checked, Missing, ReadSet, WorkingSet};
use crate::run::{Digest, RunId};
use crate::time::Timestamp;

/// The most held tasks of one action that one transaction lets through.
const LET_THROUGH: i64 = 256;

pub(super) const RUNS: &str = "SELECT run, record, sum, updated, code, fields::text FROM runs WHERE run = ANY($1) \
    ORDER BY run FOR NO KEY UPDATE";
const PAGE: &str = "SELECT run, record, sum, updated, code, fields::text FROM runs \
    WHERE run >= $1 AND run IS DISTINCT FROM $2 ORDER BY run LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED";
const ORPHANS: &str = "SELECT r.run FROM unnest($1::uuid[]) r(run) \
    WHERE EXISTS (SELECT FROM events e WHERE e.run = r.run) \
    AND NOT EXISTS (SELECT FROM runs k WHERE k.run = r.run)";
const KEYS: &str = "SELECT key, run, sum FROM submissions WHERE key = ANY($1)";
const GUARDS: &str = "SELECT action, state, sum FROM guards WHERE action = ANY($1) ORDER BY action FOR NO KEY UPDATE";
const HELD: &str = "SELECT held, count(*) FROM queue WHERE held = ANY($1) GROUP BY held";

fn rows_named(lock: &str) -> String {
    format!(
        "SELECT {ROW} FROM unnest($1::uuid[], $2::int[], $3::bigint[]) w(run, step, item) \
         JOIN queue q ON q.run = w.run AND q.step = w.step AND q.item = w.item \
         ORDER BY q.run, q.step, q.item {lock}"
    )
}

pub(super) fn rows_of_runs(lock: &str) -> String {
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

pub(super) fn uuids<'r>(runs: impl IntoIterator<Item = &'r RunId>) -> Vec<Uuid> {
    runs.into_iter().map(|run| uuid(run.to_bytes())).collect()
}

impl WorkingSet {
    /// Begins a transaction, locks and loads the read set, and reads the clock once it has all locks.
    /// `floor` is a time that was answered before. What is nearly always right to ask for is asked in
    /// one go, and what its answers call for after it.
    pub(super) async fn load(
        session: &Session,
        reads: &ReadSet,
        floor: Timestamp,
    ) -> Result<Self, Failed> {
        let mut loaded = Self::default();
        let clock = loaded.load_at_once(session, reads, floor).await?;
        let waited = loaded.load_what_follows(session, reads).await?;
        let clock = if waited { session.ask(NOW, [&nanos(floor)]).await? } else { clock };
        let floor = floor.max(loaded.updated);
        loaded.now = clock.first().map_or(floor, |row| floor.max(time(row.get(0))));
        Ok(loaded)
    }

    /// Gives the clock's row.
    async fn load_at_once(
        &mut self,
        session: &Session,
        reads: &ReadSet,
        floor: Timestamp,
    ) -> Result<Vec<Row>, Failed> {
        let ending = reads.ending();
        let rows = reads.rows.iter().filter(|(run, _)| !ending.contains(run));
        let TaskColumns { runs: of, steps, items } = TaskColumns::of(rows.copied());
        let (runs, ending, created) = (uuids(&reads.runs), uuids(&ending), uuids(&reads.created));
        let (keys, at) =
            (reads.keys.iter().map(Digest::to_string).collect::<Vec<_>>(), nanos(floor));
        let (named, whole) = (rows_named("FOR UPDATE"), rows_of_runs("FOR UPDATE"));
        let texts = [RUNS, &*named, &*whole, ORPHANS, KEYS, NOW];
        let [lock, named, whole, orphans, key, clock] = session.prepare(texts).await?;
        let ((), records, named, whole, orphans, key_rows, clock) = tokio::try_join!(
            biased;
            session.run("BEGIN"),
            session.query_for(runs.len(), &lock, [&runs]),
            session.query_for(of.len(), &named, [&of, &steps, &items]),
            session.query_for(ending.len(), &whole, [&ending]),
            session.query_for(created.len(), &orphans, [&created]),
            session.query_for(keys.len(), &key, [&keys]),
            session.query(&clock, [&at]),
        )?;
        self.take_records(&records);
        self.take_rows(named.into_iter().chain(whole));
        self.take_missing(&reads.created, &orphans);
        self.take_keys(&reads.keys, &key_rows);
        Ok(clock)
    }

    /// Whether it may have waited for locks.
    async fn load_what_follows(
        &mut self,
        session: &Session,
        reads: &ReadSet,
    ) -> Result<bool, Failed> {
        if let Some((after, limit)) = reads.page {
            self.load_page(session, after, limit, PAGE).await?;
        }
        self.mark_missing(session, &reads.runs).await?;
        let turning = self.turning(reads);
        let is_unloaded = |run: &&RunId| reads.active.get(*run) != Some(&false);
        let more: Vec<_> = turning.iter().filter(is_unloaded).copied().collect();
        let rows = select_rows_of(session, &more, "FOR UPDATE").await?;
        self.take_rows(rows);
        self.whole.extend(turning);
        self.count_rows();
        self.load_guards(session, reads).await?;
        for name in &reads.definitions {
            self.load_definition(session, name, "FOR UPDATE").await?;
        }
        Ok(!(more.is_empty() && reads.guards.is_empty() && reads.definitions.is_empty()))
    }

    pub(super) fn take_records(&mut self, rows: &[Row]) {
        for row in rows {
            let run = run_at(row, 0);
            self.updated = self.updated.max(time(row.get(3)));
            self.records.insert(run, read_record(run, row).map(Some));
        }
    }

    /// Runs that were not found do not exist, unless they have events: then they are damaged.
    pub(super) async fn mark_missing<'r>(
        &mut self,
        session: &Session,
        runs: impl IntoIterator<Item = &'r RunId>,
    ) -> Result<(), Failed> {
        let missing = runs.into_iter().filter(|run| !self.records.contains_key(run));
        let missing: Vec<RunId> = missing.copied().collect();
        if !missing.is_empty() {
            let orphans = session.ask(ORPHANS, [&uuids(&missing)]).await?;
            self.take_missing(&missing, &orphans);
        }
        Ok(())
    }

    /// `orphans` are those of `runs` that have events and no record.
    fn take_missing<'r>(&mut self, runs: impl IntoIterator<Item = &'r RunId>, orphans: &[Row]) {
        for run in runs {
            self.records.entry(*run).or_insert(Ok(None));
        }
        for row in orphans {
            self.damage(run_at(row, 0), "it has events but no record");
        }
    }

    pub(super) fn take_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
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

    fn take_keys(&mut self, keys: &BTreeSet<Digest>, rows: &[Row]) {
        for key in keys {
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
                    let rows = session.ask(KEYS, [&vec![key.to_string()]]).await?;
                    self.take_keys(&[*key].into(), &rows);
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

/// A record from `run, record, sum` and, after another, `code, fields`.
pub(super) fn read_record(run: RunId, row: &Row) -> Checked<Record> {
    let bytes = row.get(1);
    let is_whole = sum("runs", &[&run.to_bytes()], &[bytes]) == row.get::<_, i32>(2);
    let found = is_whole.then(|| Record::from_bytes(bytes)).flatten();
    let wrong = || format!("run {run}: its record is not what was written");
    let mut record = found.ok_or_else(wrong)?;
    record.code = row.get::<_, Option<&str>>(4).map(|code| untext(code).into());
    record.fields = read_fields(row.get(5)).into();
    Ok(record)
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
