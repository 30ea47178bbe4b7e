//! The fold: how each event changes the state. Decides nothing.

use std::sync::Arc;

use serde_json::Value;

use super::advance::MAX_ITEMS;
use super::task::Counts;
use super::{
    Event, Outcome, Phase, Recorded, RollbackState, RouteCause, RunState, StepPhase, StepState,
    TaskId, TaskPhase, TaskState, Version,
};
use crate::failure::RetryKind;
use crate::policy::Budget;
use crate::workflow::StepIx;

/// An event that can't follow the events before it: the run is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {} ({event}) can't follow the events before it", number.0)]
pub struct Impossible {
    /// The event's number.
    pub number: Version,
    /// Its name, or what is wrong.
    pub event: &'static str,
}

impl RunState {
    /// Folds one event in.
    ///
    /// # Errors
    /// When it can't follow the events before it: it names a step or task that does not exist or
    /// does not stand where the event needs it, or it follows the end. Then nothing has changed.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), Impossible> {
        let wrong = Impossible { number: self.version, event: recorded.event.name() };
        if matches!(self.phase, Phase::Ended(_)) {
            return Err(wrong);
        }
        let task = match &recorded.event {
            Event::CompensationStarted { task } => Some(*task),
            event => event.task(),
        };
        let before = self.counts_of(task);
        self.apply_event(recorded).ok_or(wrong)?;
        self.count(task, before);
        self.version = self.version.after(1);
        self.last_at = recorded.at;
        invariant!(
            recorded.event.task().is_none_or(|task| self.task(task).is_some()),
            "what is folded in is about a task that exists: {recorded:?}"
        );
        Ok(())
    }

    /// As what `task` counts; as nothing where it does not exist.
    fn counts_of(&self, task: Option<TaskId>) -> Counts {
        let found = task.and_then(|task| self.task(task));
        found.map_or_else(Counts::default, |task| Counts::of(std::slice::from_ref(task)))
    }

    /// Counts a task again that counted as `before`.
    fn count(&mut self, task: Option<TaskId>, before: Counts) {
        let after = self.counts_of(task);
        if let Some(step) = task.and_then(|task| self.steps.get_mut(task.step.index())) {
            step.counts.change(before, after);
            invariant!(step.tasks.len() > 64 || step.counts == Counts::of(&step.tasks), "{task:?}");
        }
    }

    /// `None` when the event can't follow; then nothing has changed.
    fn apply_event(&mut self, recorded: &Recorded) -> Option<()> {
        invariant!(self.outcome().is_none(), "nothing follows the end of a run");
        match &recorded.event {
            Event::RunCreated { seed, workflow: _, input } => {
                ensure(self.version == Version::START)?;
                self.seed = *seed;
                self.input = Arc::new(Value::Object(input.clone()));
            }
            Event::RunActivated => self.phase = Phase::Running,
            Event::RunDeactivated => self.phase = Phase::Deactivated,
            Event::StepEntered { step, tasks } => {
                ensure(*tasks as usize <= MAX_ITEMS)?;
                ensure(self.definition(*step)?.compensates.is_none())?;
                let state = self.step_in(*step, &[StepPhase::Waiting])?;
                state.phase = StepPhase::Active;
                state.tasks = vec![TaskState::new(); *tasks as usize];
                state.counts = Counts::of(&state.tasks);
            }
            Event::AttemptStarted { task, attempt, token, timeout, .. } => {
                let budget = self.group_budget(task.step).filter(|_| *attempt == 1);
                ensure(self.phase == Phase::Running)?;
                let state = self.task_at(*task, *attempt)?;
                ensure(state.phase == TaskPhase::Queued && !state.quarantined)?;
                state.phase = TaskPhase::Running { token: *token, timeout: *timeout };
                state.first_started.get_or_insert(recorded.at);
                state.watch.start(recorded.at);
                if let (Some(budget), Some(bucket)) = (budget, self.bucket(task.step)) {
                    bucket.first_attempt(&budget, recorded.at);
                }
            }
            Event::TaskHeld { task, attempt, by, .. } => {
                let state = self.task_at(*task, *attempt)?;
                ensure(state.phase == TaskPhase::Queued)?;
                state.held = Some(*by);
            }
            Event::AttemptFailed { task, attempt, failure, .. } => {
                let state = self.running(*task, *attempt)?;
                let is_lost = failure.kind() == RetryKind::LeaseLost;
                state.lost = if is_lost { state.lost.saturating_add(1) } else { 0 };
                let failure = Box::new(failure.clone());
                state.first_failure.get_or_insert_with(|| failure.clone());
                state.failure = Some(failure);
                state.watch.fail(recorded.at);
            }
            Event::RetryScheduled { task, attempt, delay, backoff, kind, rule, .. } => {
                let rules = self.definition(task.step)?.policy.rules().len();
                let place = rule.map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                ensure(place.is_none_or(|at| at < rules))?;
                let running = |t: &TaskState| matches!(t.phase, TaskPhase::Running { .. });
                let state = self.live(*task).filter(|t| running(t))?;
                ensure(*attempt == state.attempt.saturating_add(1))?;
                state.phase = TaskPhase::Queued;
                state.attempt = *attempt;
                state.held = None;
                state.delay = *delay;
                state.due = recorded.at.after(*delay);
                state.backoff = Some(*backoff);
                state.timeout_retries += u32::from(*kind == RetryKind::Timeout);
                if let Some(at) = place {
                    state.count_against(at);
                }
                self.spend(*task, recorded.at);
            }
            Event::TaskQuarantined { task, attempt, lost } => {
                let state = self.task_at(*task, *attempt)?;
                ensure(state.phase == TaskPhase::Queued && !state.quarantined)?;
                ensure(state.lost == *lost && *lost > 0)?;
                state.quarantined = true;
            }
            Event::TaskReleased { task, attempt, .. } => {
                let state = self.task_at(*task, *attempt)?;
                ensure(state.phase == TaskPhase::Queued && state.quarantined)?;
                (state.quarantined, state.lost) = (false, 0);
            }
            Event::CostReported { task, attempt, cost } => {
                let state = self.running(*task, *attempt)?;
                state.cost = state.cost.plus(*cost);
            }
            Event::ErrorBudgetBurnt { task, attempt, .. } => {
                self.running(*task, *attempt)?;
            }
            Event::TaskSucceeded { task, attempt, digest, spent } => {
                let budget = self.group_budget(task.step);
                let state = self.running(*task, *attempt)?;
                state.phase = TaskPhase::Succeeded { digest: *digest };
                state.watch.spent = *spent;
                let refill = |b: &Budget| b.refill_of_success(*attempt, state.failure.as_deref());
                let tokens = budget.as_ref().map_or(0, refill);
                if let (Some(budget), Some(bucket), 1..) = (budget, self.bucket(task.step), tokens)
                {
                    bucket.refill(&budget, tokens, recorded.at);
                }
                if let Some(rollback) = &mut self.rollback {
                    rollback.compensated += 1;
                } else if self.workflow.compensation_of(task.step).is_some() {
                    self.undo.push(*task);
                }
            }
            Event::TaskFailed { task, error, spent, .. } => {
                let state = self.live(*task)?;
                state.phase = TaskPhase::Failed { error: Box::new(error.clone()) };
                state.watch.spent = *spent;
                self.steps.get_mut(task.step.index())?.first_failed.get_or_insert(task.item);
                if let Some(rollback) = &mut self.rollback {
                    rollback.failed += 1;
                }
            }
            Event::TaskCancelled { task } => self.live(*task)?.phase = TaskPhase::Cancelled,
            Event::StepSucceeded { step } => {
                let (needs, ended) = (self.definition(*step)?.success, self.version);
                let state = self.step_in(*step, &[StepPhase::Active])?;
                let done = |t: &&TaskState| matches!(t.phase, TaskPhase::Succeeded { .. });
                let asked = state.tasks.iter().filter(|t| t.phase != TaskPhase::Idle).count();
                ensure(!state.tasks.iter().any(TaskState::is_live))?;
                ensure(state.tasks.iter().filter(done).count() >= needs.of(asked))?;
                state.phase = StepPhase::Succeeded;
                state.ended = Some(ended);
                state.last_error = None;
            }
            Event::StepFailed { step, error } => {
                // A step that requires what is not, or whose fan-out makes no sense, fails without
                // having been entered.
                let ended = self.version;
                let state = self.step_in(*step, &[StepPhase::Active, StepPhase::Waiting])?;
                ensure(!state.tasks.iter().any(TaskState::is_live))?;
                state.phase = StepPhase::Failed;
                state.ended = Some(ended);
                state.error = Some(error.clone());
            }
            Event::StepUnreachable { step } => {
                self.step_in(*step, &[StepPhase::Waiting])?.phase = StepPhase::Unreachable;
            }
            Event::StepSkipped { step } => {
                self.step_in(*step, &[StepPhase::Waiting])?.phase = StepPhase::Skipped;
            }
            Event::Routed { from, to, cause } => self.apply_route(*from, *to, *cause)?,
            Event::RunPaused { reason } => {
                ensure(self.paused.is_none())?;
                self.paused = Some(reason.clone());
            }
            Event::RunResumed => {
                ensure(self.paused.is_some())?;
                self.paused = None;
            }
            Event::FailRequested { step, .. } => {
                self.step_in(*step, &[StepPhase::Active])?;
            }
            Event::CancelRequested { .. } => {}
            Event::RollbackStarted { outcome } => {
                ensure(self.rollback.is_none() && *outcome != Outcome::Completed)?;
                self.steps.iter_mut().for_each(StepState::call_off);
                self.rollback = Some(Box::new(RollbackState::new(outcome.clone())));
            }
            Event::CompensationStarted { task } => self.apply_compensation(*task)?,
            Event::RollbackEnded { complete } => {
                self.rollback.as_mut()?.complete = Some(*complete);
            }
            Event::RunEnded { outcome } => {
                ensure(*outcome != Outcome::Completed || !self.has_open_steps())?;
                self.steps.iter_mut().for_each(StepState::call_off);
                self.paused = None;
                self.phase = Phase::Ended(outcome.clone());
            }
        }
        Some(())
    }

    /// A failure sets the branch's last error; of several the latest stays.
    fn apply_route(&mut self, from: StepIx, to: StepIx, cause: RouteCause) -> Option<()> {
        let ended = match cause {
            RouteCause::Success => StepPhase::Succeeded,
            RouteCause::Failure => StepPhase::Failed,
        };
        invariant!(self.is_sound(), "a run has the steps of its workflow");
        ensure(to.index() < self.steps.len())?;
        let source = self.step_in(from, &[ended])?;
        source.led_to = Some(to);
        let (error, handling) = (source.error.clone(), source.handling);
        let target = self.steps.get_mut(to.index())?;
        target.routed = true;
        match cause {
            RouteCause::Success => target.handling |= handling,
            RouteCause::Failure => {
                target.last_error = error;
                target.handling = true;
            }
        }
        Some(())
    }

    /// The compensation of what succeeded last and is not undone yet is due: each task once.
    fn apply_compensation(&mut self, task: TaskId) -> Option<()> {
        let of = self.definition(task.step)?.compensates?;
        ensure(self.rollback.as_ref()?.complete.is_none())?;
        ensure(self.undo.last() == Some(&TaskId { step: of, item: task.item }))?;
        let count = self.steps.get(of.index())?.tasks.len();
        let state = self.step_in(task.step, &[StepPhase::Waiting, StepPhase::Active])?;
        if state.phase == StepPhase::Waiting {
            state.phase = StepPhase::Active;
            state.tasks = vec![TaskState::idle(); count];
        }
        *state.tasks.get_mut(task.item as usize)? = TaskState::new();
        self.undo.pop();
        invariant!(self.live(task).is_some(), "a compensation that begins waits for its attempt");
        Some(())
    }

    /// Whether a step of the ordinary flow waits or is at work.
    fn has_open_steps(&self) -> bool {
        let ordinary = self.workflow.steps().iter().map(|s| s.compensates.is_none());
        let open = |s: &StepState| matches!(s.phase, StepPhase::Waiting | StepPhase::Active);
        self.steps.iter().zip(ordinary).any(|(s, ordinary)| ordinary && open(s))
    }

    fn step_in(&mut self, at: StepIx, phases: &[StepPhase]) -> Option<&mut StepState> {
        self.steps.get_mut(at.index()).filter(|s| phases.contains(&s.phase))
    }

    fn live(&mut self, task: TaskId) -> Option<&mut TaskState> {
        let step = self.step_in(task.step, &[StepPhase::Active])?;
        step.tasks.get_mut(task.item as usize).filter(|t| t.is_live())
    }

    fn task_at(&mut self, task: TaskId, attempt: u32) -> Option<&mut TaskState> {
        self.live(task).filter(|t| t.attempt == attempt)
    }

    fn running(&mut self, task: TaskId, attempt: u32) -> Option<&mut TaskState> {
        self.task_at(task, attempt).filter(|t| matches!(t.phase, TaskPhase::Running { .. }))
    }
}

fn ensure(holds: bool) -> Option<()> {
    holds.then_some(())
}

impl StepState {
    fn call_off(&mut self) {
        for task in self.tasks.iter_mut().filter(|t| t.is_live()) {
            task.phase = TaskPhase::Cancelled;
        }
        (self.counts.live, self.counts.running) = (0, 0);
        invariant!(!self.tasks.iter().any(TaskState::is_live), "what is called off is at rest");
    }
}
