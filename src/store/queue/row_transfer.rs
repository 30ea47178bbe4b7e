//! Rows on their way between this queue and a store that keeps them where others change them too.

use std::sync::Arc;

use super::super::hold_queue::InLine;
use super::super::seam::{QueueRow, QueueState};
use super::{Place, Queue, Reservation, Row, Rows, State};
use crate::run::{RunId, TaskId, Token};
use crate::time::Timestamp;

/// A row with what claims and guards have made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Standing {
    pub(in super::super) row: QueueRow,
    /// Whether its run is at rest.
    pub(in super::super) at_rest: bool,
    /// When it is due, and its turn among those due then, where it waits and its run is active.
    pub(in super::super) due: Option<(Timestamp, u64)>,
    pub(in super::super) reserved: Option<(Token, Timestamp)>,
    /// The action whose guard holds it back. The order of turns is the order in that line.
    pub(in super::super) held: Option<Arc<str>>,
}

impl Queue {
    /// An empty queue in which the turns of rows that begin to wait are counted from `first`.
    pub(in super::super) fn counting_from(first: u64) -> Self {
        let mut queue = Self::default();
        queue.index.count_from(first);
        queue
    }

    /// Takes in that a run has so many rows that are not here.
    pub(in super::super) fn elsewhere(&mut self, run: RunId, at_rest: bool, rows: u64) {
        let kept = self.runs.entry(run).or_default();
        (kept.at_rest, kept.elsewhere) = (at_rest, rows);
    }

    /// Takes in that so many that are not here stand in the line before the guard of `action`.
    pub(in super::super) fn line_beyond(&mut self, action: &str, rows: u64) {
        self.index.lines.beyond(action, rows);
    }

    /// Takes in a row. Those that are held back come in the order of their turns.
    pub(in super::super) fn stand(&mut self, (run, task): Place, standing: Standing) {
        let Standing { row, at_rest, due, reserved, held } = standing;
        let rows = self.runs.entry(run).or_default();
        rows.at_rest = at_rest;
        let mut kept = Row::of(row.clone());
        if let State::Waiting { need, ticket, reserved: kept_reserved, held: place, .. } =
            &mut kept.state
        {
            *kept_reserved = reserved.map(|(token, until)| Reservation { token, until });
            *ticket = due.map(|(due, turn)| self.index.wait_as((run, task), due, turn, need));
            *place = held.map(|action| self.index.lines.join(&action, (run, task)));
        } else if let (QueueState::Leased { until, .. }, false) = (&row.state, at_rest) {
            self.index.lease((run, task), *until);
        }
        rows.rows.insert(task, kept);
    }

    /// Every row that is here.
    pub(in super::super) fn standings(&self) -> impl Iterator<Item = (Place, Standing)> {
        self.runs.iter().flat_map(|(&run, rows)| {
            rows.rows.iter().map(move |(&task, row)| ((run, task), rows.standing(task, row)))
        })
    }
}

impl Rows {
    fn standing(&self, task: TaskId, row: &Row) -> Standing {
        let (due, reserved, held) = match &row.state {
            State::Leased(_) => (None, None, None),
            State::Waiting { ticket, reserved, held, .. } => (
                ticket.map(|ticket| ticket.turn()),
                reserved.map(|r| (r.token, r.until)),
                held.as_ref().map(|(action, _): &InLine| Arc::clone(action)),
            ),
        };
        Standing { row: row.shown(task), at_rest: self.at_rest, due, reserved, held }
    }
}
