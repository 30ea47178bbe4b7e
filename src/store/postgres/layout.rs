//! How values become columns, and their checksums. Part of the stored format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::queue::FullRow;
use super::super::seam::{QueueRow, QueueState, RunPhase, StoreError};
use crate::run::{RunId, TaskId, Token};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Need, StepIx, Via};

/// The key of a queue row.
pub(super) type Place = (RunId, TaskId);

/// The columns that [`read_row`] reads, of a table named `q`.
pub(super) const ROW: &str = "q.run, q.step, q.item, q.attempt, q.need, q.scheduled, q.token, \
    q.until, q.deadline, q.beat_by, q.progress, q.sum, q.due, q.turn, q.ends, q.reserved, \
    q.reserved_until, q.held";

/// The longest length of time that a claim adds to the clock in SQL: 73 years.
const LONGEST: u64 = 1 << 61;

/// The longest table and key whose checksum is computed in one go: most of the time that a short one
/// takes goes to its beginning.
const SHORT: usize = 64;

/// The CRC32C of table, key and value.
pub(super) fn sum(table: &str, key: &[&[u8]], value: &[&[u8]]) -> i32 {
    let name = || iter::once(table.as_bytes()).chain(key.iter().copied());
    let (mut short, mut used) = ([0; SHORT], 0);
    let fits = name().all(|part| {
        let room = short.get_mut(used..used + part.len());
        used += part.len();
        room.map(|room| room.copy_from_slice(part)).is_some()
    });
    let named = match fits {
        true => crc32c::crc32c(&short[..used]),
        false => name().fold(0, crc32c::crc32c_append),
    };
    let sum = value.iter().copied().fold(named, crc32c::crc32c_append);
    i32::from_ne_bytes(sum.to_ne_bytes())
}

/// A time as a column value. Times after the year 2262 become the greatest value.
pub(super) fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn time(nanos: i64) -> Timestamp {
    match nanos {
        i64::MAX => Timestamp::from_nanos(u64::MAX),
        nanos => Timestamp::from_nanos(u64::try_from(nanos).unwrap_or_default()),
    }
}

pub(super) fn length(length: Nanos) -> i64 {
    i64::try_from(length.get().min(LONGEST)).unwrap_or_default()
}

/// A count as a column value.
pub(super) fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The same 64 bits.
pub(super) fn bits(n: u64) -> i64 {
    i64::from_ne_bytes(n.to_ne_bytes())
}

pub(super) fn uuid(bytes: [u8; 16]) -> Uuid {
    Uuid::from_bytes(bytes)
}

pub(super) fn run_at(row: &Row, at: usize) -> RunId {
    RunId::from_bytes(row.get::<_, Uuid>(at).into_bytes())
}

/// The task in two columns.
pub(super) fn task_at(row: &Row, at: usize) -> TaskId {
    let step = u16::try_from(row.get::<_, i32>(at)).unwrap_or(u16::MAX);
    let item = u32::try_from(row.get::<_, i64>(at + 1)).unwrap_or(u32::MAX);
    TaskId { step: StepIx(step), item }
}

/// PostgreSQL's text can't contain the character 0, so 0 and 1 are escaped.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    match text.contains(['\0', '\u{1}']) {
        true => text.replace('\u{1}', "\u{1}1").replace('\0', "\u{1}0").into(),
        false => text.into(),
    }
}

pub(super) fn untext(text: &str) -> Cow<'_, str> {
    match text.contains('\u{1}') {
        true => text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}").into(),
        false => text.into(),
    }
}

/// Searchable fields as a JSON object.
pub(super) fn fields_text(fields: &BTreeMap<String, String>) -> String {
    let pair = |(name, value): (&String, &String)| (text(name).into_owned(), text(value).into());
    Value::Object(fields.iter().map(pair).collect()).to_string()
}

/// The fields that the text has; none if there is no text.
pub(super) fn read_fields(stored: Option<&str>) -> BTreeMap<String, String> {
    let Some(stored) = stored else { return BTreeMap::new() };
    let stored: BTreeMap<String, String> = serde_json::from_str(stored).unwrap_or_default();
    let pair = |(name, value): (String, String)| (untext(&name).into(), untext(&value).into());
    stored.into_iter().map(pair).collect()
}

/// A need as one text, which claims compare with what a node can run.
pub(super) fn need_text(need: &Need) -> String {
    let via = match need.via {
        Via::Function => 'f',
        Via::Http => 'h',
    };
    format!("{via}{}", text(&need.action))
}

pub(super) fn read_need(text: &str) -> Option<Need> {
    let via = match text.chars().next()? {
        'f' => Via::Function,
        'h' => Via::Http,
        _ => return None,
    };
    Some(Need { action: untext(&text[1..]).into(), via })
}

/// A phase as text.
pub(super) fn phase_text(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Running => "running",
        RunPhase::Paused => "paused",
        RunPhase::Completed => "completed",
        RunPhase::Failed => "failed",
        RunPhase::Cancelled => "cancelled",
        RunPhase::Deactivated => "deactivated",
    }
}

pub(super) fn read_phase(text: &str) -> Option<RunPhase> {
    RunPhase::ALL.into_iter().find(|phase| phase_text(*phase) == text)
}

pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|e| StoreError::NotDone(format!("can't be stored: {e}")))
}

/// The value, if its checksum and encoding are right.
pub(super) fn decode<T: DeserializeOwned>(
    table: &str,
    key: &[&[u8]],
    value: &[u8],
    stored: i32,
) -> Option<T> {
    (sum(table, key, &[value]) == stored).then(|| serde_json::from_slice(value).ok())?
}

/// The row as its columns will return it.
pub(super) fn normal(mut row: QueueRow) -> QueueRow {
    let normal = |t: &mut Timestamp| *t = time(nanos(*t));
    match &mut row.state {
        QueueState::Due { at, .. } => normal(at),
        QueueState::Leased { until, deadline, beat_by, .. } => {
            normal(until);
            deadline.iter_mut().chain(beat_by).for_each(normal);
        }
    }
    row
}

/// The checksum of a queue row: over its fields in a fixed order, because a row is read and written
/// several times for each attempt.
pub(super) fn row_sum(run: RunId, row: &QueueRow) -> Result<i32, StoreError> {
    fn put(bytes: &mut Vec<u8>, time: Option<Timestamp>) {
        bytes.push(time.is_some().into());
        bytes.extend(time.map_or(0, Timestamp::as_nanos).to_be_bytes());
    }
    let QueueRow { task, attempt, state, progress } = row;
    let mut bytes = Vec::with_capacity(128);
    bytes.extend(task.step.0.to_be_bytes());
    bytes.extend(task.item.to_be_bytes());
    bytes.extend(attempt.to_be_bytes());
    match state {
        QueueState::Due { at, need } => {
            put(&mut bytes, Some(*at));
            bytes.extend(need_text(need).into_bytes());
        }
        QueueState::Leased { token, until, deadline, beat_by } => {
            put(&mut bytes, None);
            bytes.extend(token.to_bytes());
            [Some(*until), *deadline, *beat_by].into_iter().for_each(|time| put(&mut bytes, time));
        }
    }
    if let Some(progress) = progress {
        bytes.push(0);
        bytes.extend(encode(progress)?);
    }
    Ok(sum("queue", &[&run.to_bytes()], &[&bytes]))
}

/// The checksum of rows from before it was over fields.
fn row_sum_of_json(run: RunId, row: &QueueRow) -> Option<i32> {
    Some(sum("queue", &[&run.to_bytes()], &[&encode(row).ok()?]))
}

/// A stored queue row; `None` if it is damaged.
pub(super) fn read_row(row: &Row) -> (Place, Option<FullRow>) {
    let place = (run_at(row, 0), task_at(row, 1));
    (place, read_full_row(place, row))
}

fn read_full_row((run, task): Place, row: &Row) -> Option<FullRow> {
    let state = match (row.get::<_, Option<&str>>(4), row.get::<_, Option<Uuid>>(6)) {
        (Some(need), None) => {
            QueueState::Due { at: time(row.get::<_, Option<i64>>(5)?), need: read_need(need)? }
        }
        (None, Some(token)) => QueueState::Leased {
            token: Token::from_bytes(token.into_bytes()),
            until: time(row.get::<_, Option<i64>>(7)?),
            deadline: row.get::<_, Option<i64>>(8).map(time),
            beat_by: row.get::<_, Option<i64>>(9).map(time),
        },
        _ => return None,
    };
    let progress = match row.get::<_, Option<&[u8]>>(10) {
        Some(progress) => Some(serde_json::from_slice(progress).ok()?),
        None => None,
    };
    let attempt = u32::try_from(row.get::<_, i64>(3)).ok()?;
    let found = QueueRow { task, attempt, state, progress };
    let stored = row.get::<_, i32>(11);
    if row_sum(run, &found).ok()? != stored && row_sum_of_json(run, &found)? != stored {
        return None;
    }
    let due = row.get::<_, Option<i64>>(12).map(time);
    let turn = row.get::<_, Option<i64>>(13).and_then(|turn| u64::try_from(turn).ok());
    let ends = row.get::<_, Option<i64>>(14);
    let reserved = row.get::<_, Option<Uuid>>(15).map(|id| Token::from_bytes(id.into_bytes()));
    Some(FullRow {
        at_rest: due.is_none() && ends.is_none(),
        row: found,
        due: due.zip(turn),
        reserved: reserved.zip(row.get::<_, Option<i64>>(16).map(time)),
        held: row.get::<_, Option<&str>>(17).map(|held| untext(held).as_ref().into()),
    })
}
