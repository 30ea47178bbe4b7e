//! Quarantine: a task whose attempts keep losing their node is held until somebody releases it. What
//! the task does may be what ends the nodes.

use std::num::NonZeroU32;

use super::{Event, RunState, TaskId, TaskState};
use crate::failure::{Failure, RetryKind, sanitise};
use crate::workflow::StepIx;

/// What follows when the lost attempt in `events`, which have not been folded in, is one of `most`
/// in a row. A task that is not retried needs no quarantine.
pub(super) fn quarantined(
    state: &RunState,
    events: &[Event],
    most: Option<NonZeroU32>,
) -> Option<Event> {
    let [Event::AttemptFailed { failure, .. }, Event::RetryScheduled { task, attempt, .. }] =
        events
    else {
        return None;
    };
    let (task, attempt) = (*task, *attempt);
    let lost = state.task(task)?.lost.saturating_add(1);
    let is_held = failure.kind() == RetryKind::LeaseLost && lost >= most?.get();
    is_held.then_some(Event::TaskQuarantined { task, attempt, lost })
}

/// Each held task that is meant is released.
pub(super) fn released(
    state: &RunState,
    step: Option<StepIx>,
    item: Option<u32>,
    reason: &str,
) -> Vec<Event> {
    let reason = sanitise::message(reason, Failure::MAX_MESSAGE);
    let is_meant = |task: TaskId| {
        step.is_none_or(|step| step == task.step) && item.is_none_or(|item| item == task.item)
    };
    let held = state.quarantined().filter(|(task, _)| is_meant(*task));
    held.map(|(task, found)| {
        let (attempt, reason) = (found.attempt, reason.clone());
        Event::TaskReleased { task, attempt, reason }
    })
    .collect()
}

impl RunState {
    /// The tasks that are held in quarantine.
    pub fn quarantined(&self) -> impl Iterator<Item = (TaskId, &TaskState)> {
        self.tasks().filter(|(_, task)| task.is_live() && task.quarantined)
    }
}
