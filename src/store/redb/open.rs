use std::collections::BTreeMap;

use redb::{Builder, Database, ReadableDatabase, StorageBackend, TableHandle};

use super::super::guards::Guards;
use super::super::queue::{Queue, Restored};
use super::super::requests::Record;
use super::super::run_index::{Listing, RunIndex};
use super::super::seam::{QueueRow, RunPhase};
use super::checked_table::Fault;
use super::definitions;
use super::error::OpenError;
use super::file::check_header;
use super::layout::{Totals, run_of};
use super::mark::Shared;
use super::meta::{count, meta};
use super::records::{KnownDamage, RedbRecords};
use super::{lost, silent};
use crate::run::RunId;

const CACHE_BYTES: usize = 64 << 20;

/// An open store: the database, and the part of it that is kept in memory.
pub(super) struct Open {
    pub(super) db: Database,
    /// What the database is on, for the mark of each commit.
    pub(super) backend: Shared,
    pub(super) queue: Queue,
    pub(super) guards: Guards,
    pub(super) run_index: RunIndex,
    pub(super) known: KnownDamage,
    pub(super) totals: Totals,
}

/// Opens the store at `place` on `backend`, or creates one if the backend is empty. A panic of redb
/// on a damaged file becomes an error.
pub(super) fn open(place: &str, backend: impl StorageBackend) -> Result<Open, OpenError> {
    let opened = silent::catch(|| {
        check_header(place, &backend)?;
        let backend = Shared::new(backend);
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let db = builder.create_with_backend(backend.clone());
        read(place, db.map_err(|error| OpenError::from_redb(place, error))?, backend)
    });
    opened.unwrap_or_else(|panic| Err(OpenError::damaged(place, panic)))
}

fn read(place: &str, db: Database, backend: Shared) -> Result<Open, OpenError> {
    if is_empty(place, &db)? {
        initialize(place, &db)?;
    }
    lost::settle(place, &db, &backend)?;
    let storage = |error| OpenError::from_storage(place, error);
    let txn = db.begin_write().map_err(|e| OpenError::from_storage(place, e))?;
    let known = KnownDamage::default();
    let records = RedbRecords::open(&txn, &known, Totals::default());
    let records = records.map_err(|e| OpenError::from_storage(place, e))?;
    let totals = meta(place, &records, "totals")?;
    let mut totals =
        Totals::read(&totals).ok_or_else(|| OpenError::damaged(place, "its totals"))?;
    totals.definitions = count(place, &records, "definitions")?;
    totals.commits = count(place, &records, "commits")?;
    let lost = lost::survey(&txn).map_err(|e| OpenError::from_storage(place, e))?;
    let mut known = KnownDamage { lost, ..KnownDamage::default() };
    let (queue, run_index) = survey(place, &records, totals, &mut known)?;
    let guards = survey_guards(place, &records, totals)?;
    let (definitions, whole) =
        definitions::survey(&txn).map_err(|e| OpenError::from_storage(place, e))?;
    if definitions != totals.definitions {
        return Err(OpenError::damaged(place, "workflow definitions are missing"));
    }
    known.definitions_damaged = !whole;
    drop(records);
    txn.abort().map_err(storage)?;
    if !known.damaged.is_empty() {
        let (runs, lost) = (known.damaged.len(), known.lost.runs.len());
        tracing::warn!(store = place, runs, lost, "runs are damaged; `retrial fsck` names them");
    }
    Ok(Open { db, backend, queue, guards, run_index, known, totals })
}

/// Whether the database has no tables. One that has only other programs' tables is foreign.
fn is_empty(place: &str, db: &Database) -> Result<bool, OpenError> {
    let txn = db.begin_read().map_err(|e| OpenError::from_storage(place, e))?;
    let tables = txn.list_tables().map_err(|e| OpenError::from_storage(place, e))?;
    let names: Vec<_> = tables.map(|table| table.name().to_owned()).collect();
    if !names.is_empty() && !names.iter().any(|name| name == "meta") {
        let why = format!("it is a redb database with other tables ({})", names.join(", "));
        return Err(OpenError::Foreign { place: place.to_owned(), why });
    }
    Ok(names.is_empty())
}

fn initialize(place: &str, db: &Database) -> Result<(), OpenError> {
    let txn = db.begin_write().map_err(|e| OpenError::from_storage(place, e))?;
    let known = KnownDamage::default();
    let mut records = RedbRecords::open(&txn, &known, Totals::default())
        .map_err(|e| OpenError::from_storage(place, e))?;
    let storage = |error| OpenError::from_storage(place, error);
    records.write_format().map_err(storage)?;
    records.write_totals().map_err(storage)?;
    drop(records);
    txn.commit().map_err(|e| OpenError::from_storage(place, e))
}

/// Reads every record, key and queue row, and checks that they fit together. A damaged run is marked;
/// the others go on.
fn survey(
    place: &str,
    records: &RedbRecords<'_>,
    totals: Totals,
    known: &mut KnownDamage,
) -> Result<(Queue, RunIndex), OpenError> {
    known.damaged.extend(&known.lost.runs);
    let (runs, mut run_index) = survey_heads(place, records, known)?;
    let keys = survey_keys(place, records, known)?;
    let letters = count_letters(place, records)?;
    if (runs.1, keys, letters) != (totals.runs, totals.keys, totals.letters) {
        let why = "runs, submission keys or dead letters are missing";
        return Err(OpenError::damaged(place, why));
    }
    let queue = survey_rows(place, records, runs.0, known)?;
    run_index.mark_damaged(&known.damaged);
    Ok((queue, run_index))
}

type Queued = BTreeMap<RunId, (RunPhase, u64)>;

/// The runs that have queue rows, how many runs there are, and all that are not damaged by age.
fn survey_heads(
    place: &str,
    records: &RedbRecords<'_>,
    known: &mut KnownDamage,
) -> Result<((Queued, u64), RunIndex), OpenError> {
    let (mut runs, mut count, mut listed) = (BTreeMap::new(), 0, Listing::default());
    for row in records.heads.all().map_err(|e| OpenError::from_storage(place, e))? {
        count += 1;
        let record = match &row {
            Ok((_, value)) => serde_json::from_slice::<Record>(value).ok(),
            Err(_) => None,
        };
        let run = run_of(&key_of(place, row)?);
        let Some(record) = record else {
            known.damaged.insert(run);
            continue;
        };
        listed.add(run, &record);
        if record.queued > 0 {
            runs.insert(run, (record.phase, record.queued));
        }
    }
    Ok(((runs, count), listed.into_index()))
}

fn survey_keys(
    place: &str,
    records: &RedbRecords<'_>,
    known: &mut KnownDamage,
) -> Result<u64, OpenError> {
    let mut count = 0;
    for row in records.keys.all().map_err(|e| OpenError::from_storage(place, e))? {
        count += 1;
        known.keys_damaged |= row.is_err();
        key_of(place, row)?;
    }
    Ok(count)
}

/// A damaged letter is reported when a request reads it.
fn count_letters(place: &str, records: &RedbRecords<'_>) -> Result<u64, OpenError> {
    let mut count = 0;
    for row in records.letters.all().map_err(|e| OpenError::from_storage(place, e))? {
        count += 1;
        key_of(place, row)?;
    }
    Ok(count)
}

/// Reads the queue rows run by run. A run that lacks some is damaged, and has none in the queue.
fn survey_rows(
    place: &str,
    records: &RedbRecords<'_>,
    mut queued: Queued,
    known: &mut KnownDamage,
) -> Result<Queue, OpenError> {
    let mut restored = Restored::default();
    let mut take =
        |(run, rows): (RunId, Vec<QueueRow>), known: &mut KnownDamage| match queued.remove(&run) {
            Some((phase, n)) if n == rows.len() as u64 && !known.damaged.contains(&run) => {
                restored.add(run, phase, rows);
            }
            _ => _ = known.damaged.insert(run),
        };
    let mut here: Option<(RunId, Vec<QueueRow>)> = None;
    for row in records.rows.all().map_err(|e| OpenError::from_storage(place, e))? {
        let read = match &row {
            Ok((_, value)) => serde_json::from_slice::<QueueRow>(value).ok(),
            Err(_) => None,
        };
        let run = run_of(&key_of(place, row)?);
        if let Some(before) = here.take_if(|(of, _)| *of != run) {
            take(before, known);
        }
        let (_, rows) = here.get_or_insert_with(|| (run, Vec::new()));
        match read {
            Some(row) => rows.push(row),
            None => _ = known.damaged.insert(run),
        }
    }
    if let Some(last) = here {
        take(last, known);
    }
    known.damaged.extend(queued.into_keys());
    Ok(restored.into_queue())
}

/// Reads every action's guards. If one is damaged, runs that don't use the action go on.
fn survey_guards(
    place: &str,
    records: &RedbRecords<'_>,
    totals: Totals,
) -> Result<Guards, OpenError> {
    let (mut guards, mut count) = (Guards::default(), 0);
    for row in records.guards.all().map_err(|e| OpenError::from_storage(place, e))? {
        count += 1;
        let state = row.as_ref().ok().and_then(|(_, value)| serde_json::from_slice(value).ok());
        let action = String::from_utf8_lossy(&key_of(place, row)?).into_owned();
        match state {
            Some(state) => {
                guards.states.insert(action, state);
            }
            None => {
                guards.damaged.insert(action);
            }
        }
    }
    match count == totals.guards {
        true => Ok(guards),
        false => Err(OpenError::damaged(place, "guards of actions are missing")),
    }
}

fn key_of(
    place: &str,
    row: Result<super::checked_table::Row, Fault>,
) -> Result<Vec<u8>, OpenError> {
    match row {
        Ok((key, _)) | Err(Fault::Rot(key)) => Ok(key),
        Err(Fault::Storage(error)) => Err(OpenError::from_storage(place, error)),
    }
}
