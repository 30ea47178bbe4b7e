//! One row of the queue in memory.

use super::super::due_index::Ticket;
use super::super::hold_queue::HoldPlace;
use super::super::seam::{QueueRow, QueueState};
use crate::run::{Lapse, Progress, TaskId, Token};
use crate::time::Timestamp;
use crate::workflow::Need;

#[derive(Debug)]
pub(super) struct Row {
    pub(super) attempt: u32,
    pub(super) state: State,
    pub(super) progress: Option<Progress>,
}

#[derive(Debug)]
pub(super) enum State {
    Waiting {
        at: Timestamp,
        need: Need,
        ticket: Option<Ticket>,
        reserved: Option<Reservation>,
        /// Its place in the hold queue of the guard that holds it back.
        held: Option<HoldPlace>,
    },
    Leased(Lease),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    pub(super) token: Token,
    pub(super) until: Timestamp,
}

/// `until` is never later than the other two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) token: Token,
    pub(super) until: Timestamp,
    pub(super) deadline: Option<Timestamp>,
    pub(super) beat_by: Option<Timestamp>,
}

impl Lease {
    /// `until`, or the earlier deadline or heartbeat limit: the column `timeout_at`.
    pub(super) fn end(&self, until: Timestamp) -> Timestamp {
        [self.deadline, self.beat_by].into_iter().flatten().fold(until, Timestamp::min)
    }

    /// What ends it.
    pub(super) fn lapse(&self) -> Lapse {
        if self.deadline == Some(self.until) {
            Lapse::Deadline
        } else if self.beat_by == Some(self.until) {
            Lapse::Heartbeat
        } else {
            Lapse::Lease
        }
    }
}

impl Lease {
    pub(super) fn to_state(self) -> QueueState {
        let Self { token, until, deadline, beat_by } = self;
        QueueState::Leased { token, until, deadline, beat_by }
    }
}

impl Row {
    pub(super) fn of(row: QueueRow) -> Self {
        let state = match row.state {
            QueueState::Due { at, need } => {
                State::Waiting { at, need, ticket: None, reserved: None, held: None }
            }
            QueueState::Leased { token, until, deadline, beat_by } => {
                State::Leased(Lease { token, until, deadline, beat_by })
            }
        };
        Self { attempt: row.attempt, state, progress: row.progress }
    }

    pub(super) fn to_queue_row(&self, task: TaskId) -> QueueRow {
        let state = match &self.state {
            State::Waiting { at, need, .. } => QueueState::Due { at: *at, need: need.clone() },
            State::Leased(lease) => lease.to_state(),
        };
        QueueRow { task, attempt: self.attempt, state, progress: self.progress.clone() }
    }
}
