//! Loads the histories of runs: events, results and snapshots, of one run or of many at once.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio_postgres::Row;

use super::super::seam::{ResultRow, Snapshot};
use super::error::Failed;
use super::event_rows::unpack;
use super::layout::{count, run_at, sum, task_at, uuid};
use super::load::{RUNS, rows_of_runs, uuids};
use super::session::Session;
use super::working_set::{Checked, WorkingSet};
use crate::run::{RunId, Version};

const SNAPSHOTS_OF: &str = "SELECT version, state, sum, run FROM snapshots WHERE run = ANY($1)";
/// From the snapshot on.
const EVENTS_OF: &str = "SELECT e.version, e.event, e.sum, e.run FROM unnest($1::uuid[]) w(run) \
    JOIN events e ON e.run = w.run \
    AND e.version >= coalesce((SELECT version FROM snapshots s WHERE s.run = w.run), 0)";
const RESULTS_OF: &str = "SELECT place, at, step, item, attempt, result, sum, run FROM results \
    WHERE run = ANY($1)";

impl WorkingSet {
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
            async {
                match queued.is_empty() {
                    true => Ok(vec![]),
                    false => session.query(&rows, [&queues]).await,
                }
            },
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
            take_row(self.events.get_mut(&run), read_events(run, row));
        }
        for row in &results {
            let run = run_at(row, 7);
            take_row(self.results.get_mut(&run), read_result(run, row).map(|result| [result]));
        }
        self.take_rows(rows);
        self.whole.extend(queued);
        self.count_rows();
        Ok(())
    }

    pub(super) async fn load_events(
        &mut self,
        session: &Session,
        run: RunId,
        from: Version,
    ) -> Result<(), Failed> {
        // Begins with the row that holds the first.
        const TEXT: &str = "SELECT version, event, sum FROM events \
            WHERE run = $1 AND version >= coalesce((SELECT max(version) FROM events \
            WHERE run = $1 AND version <= $2), 0)";
        let rows = session.ask(TEXT, [&uuid(run.to_bytes()), &count(from.0)]).await?;
        self.events.insert(run, (from, Ok(BTreeMap::new())));
        for row in &rows {
            take_row(self.events.get_mut(&run), read_events(run, row));
        }
        Ok(())
    }

    pub(super) async fn load_results(
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

    pub(super) async fn load_snapshot(
        &mut self,
        session: &Session,
        run: RunId,
    ) -> Result<(), Failed> {
        const TEXT: &str = "SELECT version, state, sum FROM snapshots WHERE run = $1";
        let rows = session.ask(TEXT, [&uuid(run.to_bytes())]).await?;
        let snapshot = rows.first().map(|row| read_snapshot(run, row));
        self.snapshots.insert(run, snapshot.transpose());
        Ok(())
    }
}

/// Adds what a row holds to what there is of a run, or that it is damaged.
fn take_row<K: Ord, V, F>(
    kept: Option<&mut (F, Checked<BTreeMap<K, V>>)>,
    come: Checked<impl IntoIterator<Item = (K, V)>>,
) {
    let Some((_, kept)) = kept else { return };
    match (kept.as_mut(), come) {
        (Ok(kept), Ok(come)) => kept.extend(come),
        (Ok(_), Err(why)) => *kept = Err(why),
        (Err(_), _) => {}
    }
}

/// The events of a row `version, event, sum`.
fn read_events(run: RunId, row: &Row) -> Checked<impl Iterator<Item = (Version, Bytes)> + use<>> {
    let (first, pack): (i64, &[u8]) = (row.get(0), row.get(1));
    let key = [&run.to_bytes()[..], &first.to_be_bytes()];
    let is_whole = sum("events", &key, &[pack]) == row.get::<_, i32>(2);
    let events = is_whole.then(|| unpack(pack)).flatten();
    let events = events.ok_or_else(|| format!("run {run}: an event is not what was written"))?;
    let first = Version(u64::try_from(first).unwrap_or_default());
    Ok(events.into_iter().enumerate().map(move |(n, event)| (first.after(n), event)))
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
