//! What a lane looks after beside its messages: rows that a crash has left, and a long history.

use std::collections::BTreeSet;

use super::{Lane, LaneError};
use crate::engine::World;
use crate::engine::draft::Draft;
use crate::engine::guarding::Guarded;
use crate::engine::lanes::due;
use crate::run::{self, TaskId, Version, Waits};
use crate::store::{Committed, QueueState, Store as _};

impl<W: World> Lane<W> {
    /// Writes the queue rows that the state has and the store has not: events win.
    pub(super) async fn restore_rows(&mut self) -> Result<(), LaneError> {
        let rows = self.node.queue_rows(self.state.id()).await?;
        let due_rows = rows.iter().filter(|row| matches!(row.state, QueueState::Due { .. }));
        let due_tasks: BTreeSet<TaskId> = due_rows.map(|row| row.task).collect();
        let now = self.node.clock.now(&self.node.runtime);
        let mut missing = Vec::new();
        for (task, _, waits) in run::queue_of(&self.state) {
            if waits == Waits::Due && !due_tasks.contains(&task) {
                missing.extend(due(&self.state, task, now));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let mut draft = Draft::new(self.state.clone(), Guarded::default());
        draft.queue = missing;
        // Any other answer means that others are at work on the run: nothing was missing, the rows
        // were newer than the state.
        if matches!(self.send(&draft).await?, Committed::Applied { .. }) {
            let rows = draft.queue.len();
            tracing::warn!(run = %self.state.id(), rows, "queue rows were missing");
        }
        self.node.wake_for(&draft.queue);
        Ok(())
    }

    /// Removes events that only a very long history still has.
    pub(super) async fn trim(&self) -> Result<(), LaneError> {
        let keep = self.node.config.keep_events;
        let fresh_snapshot = self.tail_bytes == 0 && self.snapshot_bytes > 0;
        let below = self.state.version().0.saturating_sub(keep);
        if fresh_snapshot
            && below > 0
            && let Err(error) = self.node.store.trim(self.state.id(), Version(below)).await
        {
            tracing::warn!(%error, "old events could not be trimmed; the next snapshot tries again");
        }
        Ok(())
    }
}
