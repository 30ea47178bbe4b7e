use std::collections::BTreeSet;

use retrial::failure::Failure;
use retrial::run::{Event, Recorded, RunId, TaskId, decode};
use retrial::store::{Commit, Fence, QueueChange};

/// What is needed of a commit once it has its answer.
pub(super) struct Changes {
    pub(super) writer: u64,
    pub(super) run: RunId,
    pub(super) fences: Vec<Fence>,
    pub(super) queue: Vec<QueueChange>,
    pub(super) is_active: bool,
    /// The tasks whose attempts it calls lost.
    pub(super) lost: BTreeSet<TaskId>,
    /// The runs that it adds, with their tasks.
    pub(super) creates: Vec<(RunId, Vec<QueueChange>)>,
}

impl Changes {
    pub(super) fn of(commit: &Commit) -> Self {
        Self {
            writer: commit.id.writer,
            run: commit.run,
            fences: commit.fences.clone(),
            queue: commit.queue.clone(),
            is_active: commit.phase.is_active(),
            lost: commit.events.iter().filter_map(|event| lost_by(&decode(event).ok()?)).collect(),
            creates: commit.creates.iter().map(|c| (c.run, c.queue.clone())).collect(),
        }
    }
}

/// The task whose attempt an event calls lost. An endpoint may name its own failure so as well.
fn lost_by(recorded: &Recorded) -> Option<TaskId> {
    match &recorded.event {
        Event::AttemptFailed { task, failure, .. } => {
            (*failure == Failure::lease_lost()).then_some(*task)
        }
        _ => None,
    }
}
