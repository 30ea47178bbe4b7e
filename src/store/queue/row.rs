//! One row of the queue in memory. Most of a million rows wait and have nothing else, so they are small:
//! what few rows have is apart, and rows with the same need share it.

use std::sync::Arc;

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
    pub(super) rare: Rare,
}

#[derive(Debug)]
pub(super) enum State {
    Waiting(Waiting),
    Leased(Box<Lease>),
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) at: Timestamp,
    pub(super) need: Arc<Need>,
    pub(super) ticket: Option<Ticket>,
}

/// What few rows have.
#[derive(Debug, Default)]
pub(super) struct Rare(Option<Box<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    reserved: Option<Reservation>,
    /// Its place in the hold queue of the guard that holds it back.
    held: Option<HoldPlace>,
    progress: Option<Progress>,
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

impl Rare {
    fn of(progress: Option<Progress>) -> Self {
        let mut rare = Self::default();
        if let Some(progress) = progress {
            rare.make().progress = Some(progress);
        }
        rare
    }

    fn make(&mut self) -> &mut Parts {
        self.0.get_or_insert_default()
    }

    pub(super) fn reserved(&self) -> Option<Reservation> {
        self.0.as_ref()?.reserved
    }

    pub(super) fn reserve(&mut self, reservation: Reservation) {
        self.make().reserved = Some(reservation);
    }

    pub(super) fn end_reservation(&mut self) {
        if let Some(parts) = &mut self.0 {
            parts.reserved = None;
        }
    }

    #[cfg(feature = "postgres")]
    pub(super) fn held(&self) -> Option<&HoldPlace> {
        self.0.as_ref()?.held.as_ref()
    }

    pub(super) fn hold(&mut self, place: HoldPlace) {
        self.make().held = Some(place);
    }

    pub(super) fn take_held(&mut self) -> Option<HoldPlace> {
        self.0.as_mut()?.held.take()
    }

    pub(super) fn progress(&self) -> Option<&Progress> {
        self.0.as_ref()?.progress.as_ref()
    }

    pub(super) fn into_progress(self) -> Option<Progress> {
        self.0?.progress
    }

    /// Keeps the newer of its progress and what has come.
    pub(super) fn note_progress(&mut self, come: Option<&Progress>) {
        let number = |p: &Progress| p.number;
        if come.map(number) > self.progress().map(number) {
            self.make().progress = come.cloned();
        }
    }
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

    pub(super) fn to_state(self) -> QueueState {
        let Self { token, until, deadline, beat_by } = self;
        QueueState::Leased { token, until, deadline, beat_by }
    }
}

impl Row {
    /// A row whose need `shared` finds among those that are known.
    pub(super) fn of(row: QueueRow, shared: impl FnOnce(&Need) -> Arc<Need>) -> Self {
        let state = match row.state {
            QueueState::Due { at, need } => {
                State::Waiting(Waiting { at, need: shared(&need), ticket: None })
            }
            QueueState::Leased { token, until, deadline, beat_by } => {
                State::Leased(Box::new(Lease { token, until, deadline, beat_by }))
            }
        };
        Self { attempt: row.attempt, state, rare: Rare::of(row.progress) }
    }

    pub(super) fn to_queue_row(&self, task: TaskId) -> QueueRow {
        let state = match &self.state {
            State::Waiting(Waiting { at, need, .. }) => {
                QueueState::Due { at: *at, need: Need::clone(need) }
            }
            State::Leased(lease) => lease.to_state(),
        };
        QueueRow { task, attempt: self.attempt, state, progress: self.rare.progress().cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of a run that waits rests on this.
    #[test]
    fn a_waiting_row_is_small() {
        assert!(size_of::<Row>() <= 64, "{} bytes", size_of::<Row>());
    }
}
