//! What a lane looks after beside its messages: rows that a crash has left, and a long history.

use super::{Lane, LaneError};
use crate::engine::World;
use crate::engine::draft::Draft;
use crate::engine::guarding::Guarded;
use crate::engine::lanes::{HELD_BACK, Message, due};
use crate::run::{self, Lapse, Version, Waits};
use crate::store::{Committed, QueueState, Store as _};

impl<W: World> Lane<W> {
    /// Compares the state with its queue rows; events win. Leases that a dead process left on a
    /// store that only this one can use are over.
    pub(super) async fn look_over(&mut self) -> Result<Vec<Message>, LaneError> {
        let rows = self.node.queue_rows(self.state.id()).await?;
        let mut missing = Vec::new();
        let mut orphans = Vec::new();
        for (task, attempt, waits) in run::queue_of(&self.state) {
            let row = rows.iter().find(|r| r.task == task);
            match (waits, row.map(|r| &r.state)) {
                (Waits::Due, Some(QueueState::Due { .. })) => {}
                (Waits::Due, _) => {
                    let delay = self.state.task(task).map(|t| t.delay).unwrap_or_default();
                    let after = if self.state.holds_back(attempt) { HELD_BACK } else { delay };
                    missing.extend(due(&self.state, task, attempt, after));
                }
                (Waits::Leased(token), _) if self.node.config.sole_owner => {
                    let (lapse, orphan, denied) = (Lapse::Lease, true, false);
                    orphans.push(Message::Expired { task, token, lapse, orphan, denied });
                }
                (Waits::Leased(_), _) => {}
            }
        }
        if !missing.is_empty() {
            let mut draft = Draft::new(self.state.clone(), Guarded::default());
            draft.queue = missing;
            let commit = self.commit(&draft);
            // Anything else means that others are at work on the run: nothing was missing, the rows
            // were newer than the state.
            if matches!(self.send(commit).await?, Committed::Applied { .. }) {
                let rows = draft.queue.len();
                tracing::warn!(run = %self.state.id(), rows, "queue rows were missing");
            }
            self.node.wake_for(&draft.queue);
        }
        Ok(orphans)
    }

    /// Forgets events that only a very long history still needs.
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
