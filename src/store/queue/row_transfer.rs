//! Rows on their way between this queue and a database that other nodes change too.

use std::sync::Arc;

use super::super::seam::QueueRow;
use super::{Place, Queue, Reservation, Row, Rows, State, Waiting};
use crate::run::{RunId, TaskId, Token};
use crate::time::Timestamp;

/// A row with its reservation and hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct FullRow {
    pub(in super::super) row: QueueRow,
    /// Whether its run is at rest.
    pub(in super::super) at_rest: bool,
    /// When it is due and its turn among the rows due then, if it waits and its run is active.
    pub(in super::super) due: Option<(Timestamp, u64)>,
    pub(in super::super) reserved: Option<(Token, Timestamp)>,
    /// The action whose guard holds it back. The order of turns is the order in the hold queue.
    pub(in super::super) held: Option<Arc<str>>,
}

impl Queue {
    /// An empty queue that counts the turns of new waiting rows from `first`.
    pub(in super::super) fn counting_from(first: u64) -> Self {
        let mut queue = Self::default();
        queue.index.count_from(first);
        queue
    }

    /// Sets how many of a run's rows were not loaded.
    pub(in super::super) fn set_not_loaded(&mut self, run: RunId, at_rest: bool, rows: u64) {
        let kept = self.runs.entry(run).or_default();
        (kept.at_rest, kept.not_loaded) = (at_rest, rows);
    }

    /// Sets how many tasks that were not loaded the guard of `action` holds back.
    pub(in super::super) fn set_held_not_loaded(&mut self, action: &str, rows: u64) {
        self.index.hold_queue.set_not_loaded(action, rows);
    }

    /// Adds a row. Rows that are held back must be added in the order of their turns.
    pub(in super::super) fn insert(&mut self, (run, task): Place, full: FullRow) {
        let FullRow { row, at_rest, due, reserved, held } = full;
        let rows = self.runs.entry(run).or_default();
        rows.at_rest = at_rest;
        let mut kept = Row::of(row, |need| self.index.shared(need));
        let Row { state, rare, .. } = &mut kept;
        match state {
            State::Waiting(Waiting { need, ticket, .. }) => {
                if let Some((token, until)) = reserved {
                    rare.reserve(Reservation { token, until });
                }
                *ticket =
                    due.map(|(due, turn)| self.index.add_waiting_at((run, task), due, turn, need));
                if let Some(action) = held {
                    rare.hold(self.index.hold_queue.push(&action, (run, task)));
                }
            }
            State::Leased(lease) if !at_rest => self.index.add_lease((run, task), lease.until),
            State::Leased(_) => {}
        }
        rows.rows.insert(task, kept);
    }

    /// Every loaded row.
    pub(in super::super) fn full_rows(&self) -> impl Iterator<Item = (Place, FullRow)> {
        self.runs.iter().flat_map(|(&run, rows)| {
            rows.rows.iter().map(move |(task, row)| ((run, task), rows.full_row(task, row)))
        })
    }
}

impl Rows {
    fn full_row(&self, task: TaskId, row: &Row) -> FullRow {
        let (due, reserved, held) = match &row.state {
            State::Leased(_) => (None, None, None),
            State::Waiting(Waiting { ticket, .. }) => (
                ticket.map(|ticket| ticket.turn()),
                row.rare.reserved().map(|r| (r.token, r.until)),
                row.rare.held().map(|(action, _)| Arc::clone(action)),
            ),
        };
        FullRow { row: row.to_queue_row(task), at_rest: self.at_rest, due, reserved, held }
    }
}
