//! Writes the queue rows that changed since they were loaded.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::super::queue::{FullRow, Queue};
use super::super::seam::{QueueState, StoreError};
use super::error::Failed;
use super::layout::{Place, bits, encode, nanos, need_text, normal, row_sum, text, uuid};
use super::load::TaskColumns;
use super::session::{Session, Value};
use super::working_set::{FRESH, WorkingSet};
use crate::time::Timestamp;

const REMOVE_ROWS: &str = "DELETE FROM queue q USING unnest($1::uuid[], $2::int[], $3::bigint[]) \
    u(run, step, item) WHERE q.run = u.run AND q.step = u.step AND q.item = u.item";
const ROWS: &str = "INSERT INTO queue AS q (run, step, item, attempt, need, scheduled, token, \
    until, deadline, beat_by, progress, sum, due, turn, ends, reserved, reserved_until, held) \
    SELECT r, s, i, a, n, sc, t, un, de, be, p, su, du, \
    CASE WHEN is_new THEN nextval('turns') ELSE tu END, en, re, ru, h \
    FROM unnest($1::uuid[], $2::int[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], \
    $7::uuid[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bytea[], $12::int[], \
    $13::bigint[], $14::bigint[], $15::boolean[], $16::bigint[], $17::uuid[], $18::bigint[], \
    $19::text[]) \
    u(r, s, i, a, n, sc, t, un, de, be, p, su, du, tu, is_new, en, re, ru, h) \
    ON CONFLICT (run, step, item) DO UPDATE SET attempt = excluded.attempt, \
    need = excluded.need, scheduled = excluded.scheduled, token = excluded.token, \
    until = excluded.until, deadline = excluded.deadline, beat_by = excluded.beat_by, \
    progress = excluded.progress, sum = excluded.sum, due = excluded.due, turn = excluded.turn, \
    ends = excluded.ends, reserved = excluded.reserved, \
    reserved_until = excluded.reserved_until, held = excluded.held";

/// Queue rows that changed.
pub(super) struct ChangedRows {
    removed: Vec<Place>,
    /// In the order of their turns, so that the database numbers new turns in that order.
    changed: Vec<(Place, FullRow)>,
}

impl ChangedRows {
    pub(super) fn of(loaded: &WorkingSet, queue: &Queue) -> Self {
        let normal =
            |(place, full): (Place, FullRow)| (place, FullRow { row: normal(full.row), ..full });
        let after: BTreeMap<Place, FullRow> = queue.full_rows().map(normal).collect();
        let removed =
            loaded.rows.keys().filter(|place| !after.contains_key(place)).copied().collect();
        let same = |place: &Place, full: &FullRow| {
            loaded.rows.get(place).is_some_and(|before| before == full)
        };
        let changed = after.into_iter().filter(|(place, full)| !same(place, full));
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by_key(|(_, full)| full.due.map(|(_, turn)| turn));
        Self { removed, changed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.changed.is_empty()
    }

    /// Whether a claim could take some of them now.
    pub(super) fn leave_due(&self, now: Timestamp) -> bool {
        self.changed.iter().any(|(_, full)| {
            let is_free = full.reserved.is_none() && full.held.is_none();
            is_free && full.due.is_some_and(|(at, _)| at <= now)
        })
    }

    pub(super) async fn write(&self, session: &Session) -> Result<(), Failed> {
        let mut removed = TaskColumns::default();
        self.removed.iter().for_each(|place| removed.push(*place));
        let TaskColumns { runs, steps, items } = &removed;
        session.write(self.removed.len(), REMOVE_ROWS, [runs, steps, items]).await?;
        let mut columns = Columns::default();
        for (place, full) in &self.changed {
            columns.push(*place, full)?;
        }
        columns.write(self.changed.len(), session).await
    }
}

/// Queue rows as columns.
#[derive(Default)]
struct Columns {
    names: TaskColumns,
    attempts: Vec<i64>,
    needs: Vec<Option<String>>,
    scheduled: Vec<Option<i64>>,
    tokens: Vec<Option<Uuid>>,
    until: Vec<Option<i64>>,
    deadlines: Vec<Option<i64>>,
    beat_by: Vec<Option<i64>>,
    progress: Vec<Option<Vec<u8>>>,
    sums: Vec<i32>,
    due: Vec<Option<i64>>,
    turns: Vec<Option<i64>>,
    is_new: Vec<bool>,
    ends: Vec<Option<i64>>,
    reserved: Vec<Option<Uuid>>,
    reserved_until: Vec<Option<i64>>,
    held: Vec<Option<String>>,
}

impl Columns {
    fn push(&mut self, place: Place, full: &FullRow) -> Result<(), StoreError> {
        let FullRow { row, at_rest, due, reserved, held } = full;
        self.names.push(place);
        self.attempts.push(row.attempt.into());
        let (mut need, mut scheduled, mut lease) = (None, None, None);
        match &row.state {
            QueueState::Due { at, need: needed } => {
                (need, scheduled) = (Some(need_text(needed)), Some(nanos(*at)));
            }
            QueueState::Leased { token, until, deadline, beat_by } => {
                lease = Some((*token, *until, *deadline, *beat_by));
            }
        }
        self.needs.push(need);
        self.scheduled.push(scheduled);
        self.tokens.push(lease.map(|(token, ..)| uuid(token.to_bytes())));
        let until = lease.map(|(_, until, ..)| nanos(until));
        self.until.push(until);
        self.deadlines.push(lease.and_then(|(_, _, deadline, _)| deadline.map(nanos)));
        self.beat_by.push(lease.and_then(|(.., beat_by)| beat_by.map(nanos)));
        self.progress.push(row.progress.as_ref().map(encode).transpose()?);
        self.sums.push(row_sum(place.0, row)?);
        self.due.push(due.map(|(due, _)| nanos(due)));
        let turn = due.map(|(_, turn)| turn);
        self.turns.push(turn.filter(|turn| *turn < FRESH).map(bits));
        self.is_new.push(turn.is_some_and(|turn| turn >= FRESH));
        self.ends.push(until.filter(|_| !at_rest));
        self.reserved.push(reserved.map(|(token, _)| uuid(token.to_bytes())));
        self.reserved_until.push(reserved.map(|(_, until)| nanos(until)));
        self.held.push(held.as_deref().map(|held| text(held).into_owned()));
        Ok(())
    }

    async fn write(&self, rows: usize, session: &Session) -> Result<(), Failed> {
        let TaskColumns { runs, steps, items } = &self.names;
        let values: [Value<'_>; _] = [
            runs,
            steps,
            items,
            &self.attempts,
            &self.needs,
            &self.scheduled,
            &self.tokens,
            &self.until,
            &self.deadlines,
            &self.beat_by,
            &self.progress,
            &self.sums,
            &self.due,
            &self.turns,
            &self.is_new,
            &self.ends,
            &self.reserved,
            &self.reserved_until,
            &self.held,
        ];
        session.write(rows, ROWS, values).await.map(drop)
    }
}
