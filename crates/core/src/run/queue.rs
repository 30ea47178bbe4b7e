//! What the queue must hold for a run: a pure function of its state.

use super::{Phase, RunState, TaskId, TaskPhase, TaskState, Token};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Need};

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Its next attempt, or that somebody resumes the run.
    Due,
    /// The end of the attempt under this token.
    Leased(Token),
}

/// The rows that the queue must hold: each live task, its attempt and what it waits for. Recovery
/// and checks compare them with the store's.
#[must_use]
pub fn queue_of(state: &RunState) -> Vec<(TaskId, u32, Waits)> {
    if matches!(state.phase, Phase::Ended(_)) {
        return Vec::new();
    }
    let row = |(id, task): (TaskId, &TaskState)| match task.phase {
        TaskPhase::Queued => Some((id, task.attempt, Waits::Due)),
        TaskPhase::Running { token, .. } => Some((id, task.attempt, Waits::Leased(token))),
        _ => None,
    };
    state.tasks().filter_map(row).collect()
}

/// The needs of tasks that are due at `now` and that `able` does not cover, in the order of the tasks,
/// each once. The run waits for a node that covers them.
#[must_use]
pub fn waits_for(state: &RunState, able: &Able, now: Timestamp) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    if state.phase != Phase::Running {
        return needs;
    }
    let due = |t: &TaskState| t.phase == TaskPhase::Queued && !t.quarantined && t.due <= now;
    for (task, _) in state.tasks().filter(|(_, t)| due(t)) {
        let need = state.workflow.need(task.step).filter(|n| !able.can(n) && !needs.contains(n));
        needs.extend(need);
    }
    needs
}

impl RunState {
    /// Why no retry of the run starts, while it is paused.
    #[must_use]
    pub fn paused(&self) -> Option<&str> {
        self.paused.as_deref()
    }

    /// Whether a pause holds back this attempt of any of its tasks: first attempts go on.
    #[must_use]
    pub fn holds_back(&self, attempt: u32) -> bool {
        self.paused.is_some() && attempt > 1
    }

    /// How long the waiting task's row waits from `now` until it is due; none where only a person can
    /// end the wait. The row of a task in quarantine is due when its total timeout has passed: then
    /// the task fails.
    #[must_use]
    pub fn due_in(&self, task: TaskId, now: Timestamp) -> Option<Nanos> {
        let found = self.task(task)?;
        let due = match found.quarantined {
            _ if self.holds_back(found.attempt) => return None,
            true => self.deadline(task)?,
            false => found.due,
        };
        Some(due.since(now))
    }

    /// When the task's total timeout has passed; none where it has none or no attempt has started.
    pub(super) fn deadline(&self, task: TaskId) -> Option<Timestamp> {
        self.definition(task.step)?.policy.deadline(self.task(task)?.first_started?)
    }

    /// Whether nothing happens to the run before `until` unless somebody asks for it: no attempt is in
    /// progress, and none falls due.
    #[must_use]
    pub fn rests_until(&self, until: Timestamp) -> bool {
        let is_due = |task| self.due_in(task, until).is_some_and(Nanos::is_zero);
        let goes_on =
            |(task, t): (TaskId, &TaskState)| t.phase == TaskPhase::Queued && is_due(task);
        self.steps.iter().all(|step| step.counts.running == 0)
            && (self.phase != Phase::Running || !self.tasks().any(goes_on))
    }

    /// The tasks that wait for a retry, which a pause holds back.
    pub fn waiting_retries(&self) -> impl Iterator<Item = (TaskId, &TaskState)> {
        self.tasks().filter(|(_, task)| task.phase == TaskPhase::Queued && task.attempt > 1)
    }
}
