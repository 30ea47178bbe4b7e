//! What a lane does once a commit is durable: it starts attempts and replies, then notifies observers.

use std::sync::Arc;

use super::{Batch, Lane, LaneError};
use crate::engine::World;
use crate::engine::draft::Draft;
use crate::engine::guarding::frees;
use crate::engine::lanes::Message;
use crate::failure::sanitise::clean;
use crate::run::{Event, Phase, Recorded, RunState};
use crate::runtime::Runtime as _;
use crate::store::{Heartbeat, Holding, QueueChange, ResultRow, Store as _};
use crate::time::{Mono, Nanos};

impl<W: World> Lane<W> {
    /// Renews the leases of the commit when its answer came late: a lease or an attempt's time may have
    /// run out since. Attempts that another node has taken over do not start here.
    pub(super) async fn confirm(&self, draft: &mut Draft, begun: Mono) -> Result<(), LaneError> {
        let lasts = self.node.config.lease;
        let run = self.state.id();
        let mut held = Vec::new();
        let mut soon = Nanos::new(lasts.get() / 3);
        for change in &draft.queue {
            if let QueueChange::Lease { task, token, timeout, heartbeat, .. } = *change {
                let beat = heartbeat.map(|within| Heartbeat { within, progress: None });
                held.push(Holding { run, task, token, lasts, heartbeat: beat });
                let ends = [timeout, heartbeat].into_iter().flatten().fold(lasts, Nanos::min);
                soon = soon.min(Nanos::new(ends.get() / 2));
            }
        }
        if held.is_empty() || self.node.runtime.now().since(begun) < soon {
            return Ok(());
        }
        let asked = self.node.runtime.now();
        let renewed = self.node.until_answered(|| self.node.store.renew(held.clone())).await?;
        self.node.clock.hear(renewed.at, asked, &self.node.runtime);
        for holding in renewed.lost(&held) {
            draft.started.retain(|token| *token != holding.token);
        }
        Ok(())
    }

    /// Acts on a draft that is durable, replies to who waits, then notifies observers.
    pub(super) fn land(&mut self, mut draft: Draft, batch: Batch) {
        let first = self.state.version();
        if !draft.events.is_empty() {
            self.node.lanes.forget_damage(self.state.id());
        }
        std::mem::swap(&mut self.state, &mut draft.state);
        self.node.wake_for(&draft.queue);
        if frees(&draft.guards) {
            self.node.alarm.ring();
        }
        let mut slots = Vec::new();
        for (place, message) in batch.messages.into_iter().enumerate() {
            match message {
                Message::Claimed(claimed, slot) => {
                    let started = draft.started.contains(&claimed.token);
                    // Also where the run was deactivated in the same commit: what started may end.
                    if started && !matches!(self.state.phase(), Phase::Ended(_)) {
                        self.node.dispatch(&self.state, &claimed, slot);
                    }
                }
                Message::Command(command, reply) => {
                    let changed = draft.changed.contains(&place);
                    let _ = reply.send(match changed {
                        false => command.met_nothing(&self.state),
                        true => Ok(()),
                    });
                }
                Message::Recover(done) => {
                    let _ = done.send(());
                }
                // Released only when observers have seen the outcome.
                Message::Ended { lease, slot, .. } => slots.push((lease, slot)),
                Message::Expired { .. } | Message::Retire | Message::Behind => {}
            }
        }
        if draft.calls_off {
            self.node.call_off_ended(&self.state);
        }
        self.node.tell(self.state.id(), self.state.workflow(), first, &draft.events);
        self.warn_of_quarantine(&draft);
        self.node.announce(draft.new_runs, batch.expected);
        self.spare = self.follow(draft.state, &draft.events, &draft.results);
    }

    /// Brings the state before a draft to the state after it.
    fn follow(
        &self,
        mut before: RunState,
        events: &[Recorded],
        results: &[ResultRow],
    ) -> Option<RunState> {
        if matches!(self.state.phase(), Phase::Ended(_)) {
            return None;
        }
        events.iter().try_for_each(|event| before.apply(event)).ok()?;
        for row in results {
            before.restore_result(row.task, Arc::clone(self.state.result(row.task)?));
        }
        let small = before.version().0 < 64;
        debug_assert!(!small || before == self.state, "what follows from the same events is equal");
        Some(before)
    }

    fn warn_of_quarantine(&self, draft: &Draft) {
        for recorded in &draft.events {
            if let Event::TaskQuarantined { task, lost, .. } = recorded.event {
                let step = self.state.workflow().step(task.step).map(|step| clean(&step.id));
                let (run, item) = (self.state.id(), task.item);
                tracing::warn!(%run, step, item, lost, "a task is held in quarantine");
            }
        }
    }
}
