//! The queue of a store that is opened.

use super::super::due_index::DueIndex;
use super::super::seam::{QueueRow, RunPhase};
use super::{Queue, Rows};
use crate::run::RunId;

/// The stored rows of runs in the order of their ids. A map that is made of all at once has no room left
/// over in its nodes.
#[derive(Debug, Default)]
pub(in super::super) struct Restored {
    runs: Vec<(RunId, Rows)>,
    index: DueIndex,
}

impl Restored {
    /// Adds a run's rows.
    pub(in super::super) fn add(&mut self, run: RunId, phase: RunPhase, rows: Vec<QueueRow>) {
        let mut kept = Rows { at_rest: !phase.is_active(), ..Rows::default() };
        rows.into_iter().for_each(|row| kept.put(&mut self.index, run, row));
        self.runs.push((run, kept));
    }

    pub(in super::super) fn into_queue(self) -> Queue {
        Queue { runs: self.runs.into_iter().collect(), index: self.index, ..Queue::default() }
    }
}
