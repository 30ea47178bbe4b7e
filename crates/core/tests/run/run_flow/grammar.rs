//! Which event may follow which, by what `Event` says of each. At every point of several histories
//! every event that occurs in one of them, and many that occur in none, is put next: what can't
//! follow is refused and changes nothing, what can is taken.

use std::collections::BTreeMap;

use retrial_core::run::{Cost, Digest, Recorded, RouteCause, RunState, TaskTime};

use super::*;
use candidates::candidates;

mod candidates;

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// A compensation that is not due yet.
    Idle,
    Queued(u32),
    Running(u32),
    Succeeded,
    Failed,
    Cancelled,
}

impl At {
    fn is_live(&self) -> bool {
        matches!(self, Self::Queued(_) | Self::Running(_))
    }
}

/// Where a run stands, as far as its events may tell what follows.
struct Grammar<'w> {
    workflow: &'w Workflow,
    steps: Vec<(StepPhase, Vec<At>)>,
    /// What succeeded and has a compensation, the latest last.
    undo: Vec<TaskId>,
    created: bool,
    claimable: bool,
    paused: bool,
    /// How many attempts of each task have lost their node in a row, and whether it is held.
    lost: BTreeMap<TaskId, (u32, bool)>,
    /// Whether it is over, once it has begun.
    rollback: Option<bool>,
    ended: bool,
}

impl<'w> Grammar<'w> {
    fn new(workflow: &'w Workflow) -> Self {
        let steps = vec![(StepPhase::Waiting, Vec::new()); workflow.steps().len()];
        let (undo, created, claimable) = (Vec::new(), false, true);
        let (paused, lost, rollback, ended) = (false, BTreeMap::new(), None, false);
        Self { workflow, steps, undo, created, claimable, paused, lost, rollback, ended }
    }

    fn phase(&self, step: StepIx) -> Option<StepPhase> {
        self.steps.get(step.index()).map(|s| s.0)
    }

    /// Where a task of a step at work stands.
    fn at(&self, task: TaskId) -> Option<At> {
        let (phase, tasks) = self.steps.get(task.step.index())?;
        tasks.get(task.item as usize).filter(|_| *phase == StepPhase::Active).copied()
    }

    fn quiet(&self, step: StepIx) -> bool {
        !self.steps[step.index()].1.iter().any(At::is_live)
    }

    fn enough(&self, step: StepIx) -> bool {
        let tasks = &self.steps[step.index()].1;
        let asked = tasks.iter().filter(|t| **t != At::Idle).count();
        let done = tasks.iter().filter(|t| **t == At::Succeeded).count();
        done >= self.workflow.steps()[step.index()].success.of(asked)
    }

    fn unfinished(&self) -> bool {
        let open = |p: &StepPhase| matches!(p, StepPhase::Waiting | StepPhase::Active);
        let steps = self.workflow.steps().iter().zip(&self.steps);
        steps.into_iter().any(|(step, (phase, _))| step.compensates.is_none() && open(phase))
    }

    /// Compensations go backwards over what succeeded, each once.
    fn undoes_next(&self, task: TaskId) -> bool {
        let of = self.workflow.step(task.step).and_then(|s| s.compensates);
        let next = self.undo.last().copied();
        self.rollback == Some(false)
            && of.is_some_and(|of| next == Some(TaskId { step: of, item: task.item }))
            && (self.phase(task.step) == Some(StepPhase::Waiting)
                || self.at(task) == Some(At::Idle))
    }

    fn allows(&self, event: &Event) -> bool {
        let is = |step: &StepIx, phase| self.phase(*step) == Some(phase);
        let live = |task: &TaskId| self.at(*task).is_some_and(|t| t.is_live());
        let first = matches!(event, Event::RunCreated { .. });
        if self.ended || self.created == first {
            return false;
        }
        match event {
            Event::RunCreated { .. }
            | Event::RunActivated
            | Event::RunDeactivated
            | Event::CancelRequested { .. } => true,
            // Compensations begin task by task.
            Event::StepEntered { step, tasks } => {
                let undoes = self.workflow.step(*step).and_then(|s| s.compensates);
                is(step, StepPhase::Waiting) && *tasks <= 10_000 && undoes.is_none()
            }
            Event::AttemptStarted { task, attempt, .. } => {
                self.claimable
                    && self.at(*task) == Some(At::Queued(*attempt))
                    && !self.lost(*task).1
            }
            Event::TaskQuarantined { task, attempt, lost } => {
                let stands = self.lost(*task) == (*lost, false) && *lost > 0;
                self.at(*task) == Some(At::Queued(*attempt)) && stands
            }
            Event::TaskReleased { task, attempt, .. } => {
                self.at(*task) == Some(At::Queued(*attempt)) && self.lost(*task).1
            }
            Event::TaskHeld { task, attempt, .. } => self.at(*task) == Some(At::Queued(*attempt)),
            Event::AttemptFailed { task, attempt, .. }
            | Event::CostReported { task, attempt, .. }
            | Event::ErrorBudgetBurnt { task, attempt, .. }
            | Event::TaskSucceeded { task, attempt, .. } => {
                self.at(*task) == Some(At::Running(*attempt))
            }
            Event::RetryScheduled { task, attempt, rule, .. } => {
                let rules = self.workflow.step(task.step).map(|s| s.policy.rules().len());
                *attempt > 1
                    && self.at(*task) == Some(At::Running(*attempt - 1))
                    && rule.is_none_or(|rule| rules.is_some_and(|n| (rule as usize) < n))
            }
            Event::TaskFailed { task, .. } | Event::TaskCancelled { task } => live(task),
            Event::StepSucceeded { step } => {
                is(step, StepPhase::Active) && self.quiet(*step) && self.enough(*step)
            }
            Event::StepFailed { step, .. } => {
                is(step, StepPhase::Waiting) || is(step, StepPhase::Active) && self.quiet(*step)
            }
            Event::StepUnreachable { step } | Event::StepSkipped { step } => {
                is(step, StepPhase::Waiting)
            }
            Event::Routed { from, to, cause } => {
                let ended = match cause {
                    RouteCause::Success => StepPhase::Succeeded,
                    RouteCause::Failure => StepPhase::Failed,
                };
                is(from, ended) && self.phase(*to).is_some()
            }
            Event::RunPaused { .. } => !self.paused,
            Event::RunResumed => self.paused,
            Event::FailRequested { step, .. } => is(step, StepPhase::Active),
            Event::RollbackStarted { outcome } => {
                self.rollback.is_none() && *outcome != Outcome::Completed
            }
            Event::CompensationStarted { task } => self.undoes_next(*task),
            Event::RollbackEnded { .. } => self.rollback.is_some(),
            Event::RunEnded { outcome } => *outcome != Outcome::Completed || !self.unfinished(),
        }
    }

    fn lost(&self, task: TaskId) -> (u32, bool) {
        self.lost.get(&task).copied().unwrap_or_default()
    }

    fn set(&mut self, task: TaskId, at: At) {
        self.steps[task.step.index()].1[task.item as usize] = at;
    }

    fn call_off(&mut self) {
        let tasks = self.steps.iter_mut().flat_map(|(_, tasks)| tasks);
        tasks.filter(|t| t.is_live()).for_each(|t| *t = At::Cancelled);
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::RunCreated { .. } => self.created = true,
            Event::RunActivated => self.claimable = true,
            Event::RunDeactivated => self.claimable = false,
            Event::StepEntered { step, tasks } => {
                self.steps[step.index()] =
                    (StepPhase::Active, vec![At::Queued(1); *tasks as usize]);
            }
            Event::AttemptStarted { task, attempt, .. } => self.set(*task, At::Running(*attempt)),
            Event::AttemptFailed { task, failure, .. } => {
                let is_lost = failure.code().as_str() == "LEASE_LOST";
                let lost = if is_lost { self.lost(*task).0 + 1 } else { 0 };
                self.lost.insert(*task, (lost, false));
            }
            Event::TaskQuarantined { task, lost, .. } => {
                self.lost.insert(*task, (*lost, true));
            }
            Event::TaskReleased { task, .. } => {
                self.lost.insert(*task, (0, false));
            }
            Event::RetryScheduled { task, attempt, .. } => self.set(*task, At::Queued(*attempt)),
            Event::TaskSucceeded { task, .. } => {
                self.set(*task, At::Succeeded);
                let undone = |s: &retrial_core::workflow::Step| s.compensates == Some(task.step);
                if self.rollback.is_none() && self.workflow.steps().iter().any(undone) {
                    self.undo.push(*task);
                }
            }
            Event::TaskFailed { task, .. } => self.set(*task, At::Failed),
            Event::TaskCancelled { task } => self.set(*task, At::Cancelled),
            Event::StepSucceeded { step } => self.steps[step.index()].0 = StepPhase::Succeeded,
            Event::StepFailed { step, .. } => self.steps[step.index()].0 = StepPhase::Failed,
            Event::StepUnreachable { step } => self.steps[step.index()].0 = StepPhase::Unreachable,
            Event::StepSkipped { step } => self.steps[step.index()].0 = StepPhase::Skipped,
            Event::RunPaused { .. } => self.paused = true,
            Event::RunResumed => self.paused = false,
            Event::RollbackStarted { .. } => {
                self.call_off();
                self.rollback = Some(false);
            }
            Event::CompensationStarted { task } => {
                let of = self.undo.pop().expect("something to undo");
                let count = self.steps[of.step.index()].1.len();
                let (phase, tasks) = &mut self.steps[task.step.index()];
                if *phase == StepPhase::Waiting {
                    (*phase, *tasks) = (StepPhase::Active, vec![At::Idle; count]);
                }
                self.set(*task, At::Queued(1));
            }
            Event::RollbackEnded { .. } => self.rollback = Some(true),
            Event::RunEnded { .. } => {
                self.call_off();
                self.ended = true;
            }
            _ => {}
        }
    }

    /// The state has to stand where the grammar does.
    fn agrees(&self, state: &RunState) {
        let at = |t: &retrial_core::run::TaskState| match t.phase {
            TaskPhase::Idle => At::Idle,
            TaskPhase::Queued => At::Queued(t.attempt),
            TaskPhase::Running { .. } => At::Running(t.attempt),
            TaskPhase::Succeeded { .. } => At::Succeeded,
            TaskPhase::Failed { .. } => At::Failed,
            TaskPhase::Cancelled => At::Cancelled,
        };
        let steps = state.steps().iter();
        let steps: Vec<_> = steps.map(|s| (s.phase, s.tasks.iter().map(at).collect())).collect();
        assert_eq!(steps, self.steps);
        assert_eq!(state.paused().is_some(), self.paused);
        assert_eq!(state.outcome().is_some(), self.ended);
    }
}

/// Holds the state against the grammar after each event of the world's history.
fn holds(world: &World) {
    let workflow = world.state.workflow();
    let candidates = candidates(&world.log, workflow);
    let mut grammar = Grammar::new(workflow);
    for (count, next) in world.log.iter().enumerate() {
        assert!(grammar.allows(&next.event), "{count}: {:?}\n{}", next.event, history(world));
        grammar.follow(&next.event);
        let state = RunState::replay(world.state.id(), &world.log[..=count]);
        let state = state.expect("a history that can be");
        grammar.agrees(&state);
        for event in &candidates {
            let mut after = state.clone();
            let recorded = Recorded { at: state.last_at(), event: event.clone() };
            let taken = after.apply(&recorded).is_ok();
            let allowed = grammar.allows(event);
            assert_eq!(taken, allowed, "{event:?} after {count}:\n{}", history(world));
            assert!(taken || after == state, "{event:?} is refused and changes something");
        }
    }
}

fn bad() -> Vec<Shot> {
    vec![status(500)]
}

#[test]
fn h11_retries_and_a_handler() {
    let flow = Flow::new().step("a", doubling(2)).step("b", once()).after(&["a"]);
    let flow = flow.step("h", once()).on_error(("a", "h"), 0, &[]);
    holds(&plays(flow.build(), [("a", 0, vec![status(503), status(503)])]));
}

#[test]
fn h11_a_choice_and_a_pause() {
    let flow = Flow::new().step("a", doubling(3)).step("b", once()).step("c", once());
    let flow = flow.then(("a", "b")).when(
        ("a", "c"),
        1,
        json!({"type": "exists", "field": "state.input.x"}),
    );
    let mut world = set(flow.build(), [("a", 0, vec![status(503), ok()])]);
    world.run_to(1);
    world.handle(&Input::Pause { reason: "look".into() });
    world.handle(&Input::Resume);
    world.handle(&Input::Deactivate);
    world.handle(&Input::Activate);
    assert!(world.run(100) && world.state.outcome().is_some());
    holds(&world);
}

#[test]
fn x14_h11_a_quarantine_and_its_release() {
    let flow = Flow::new().step("a", doubling(5)).step("b", doubling(5)).build();
    let scripts = [("a", 0, vec![lost(), lost(), ok()]), ("b", 0, vec![status(503), lost(), ok()])];
    let mut world = set(flow, scripts);
    world.quarantine_after = std::num::NonZeroU32::new(2);
    world.run(100);
    world.handle(&Input::Release { step: None, item: None, reason: "mended".into() });
    assert!(world.run(100) && world.state.outcome().is_some());
    holds(&world);
}

#[test]
fn h11_a_fan_out_that_needs_one_of_three() {
    let flow = Flow::new().step("f", doubling(2)).for_each(json!([1, 2, 3])).success(json!("any"));
    let flow = flow.step("g", once()).for_each(json!([1, 2])).fail_fast();
    let scripts = [("f", 0, vec![status(503), ok()]), ("f", 1, bad()), ("g", 1, bad())];
    holds(&plays(flow.build(), scripts));
}

#[test]
fn h11_a_rollback_of_several_tasks() {
    let flow = Flow::new().step("f", once()).for_each(json!([1, 2, 3])).success(json!("any"));
    let flow = flow.step("a", once()).after(&["f"]).step("c", once()).after(&["a"]);
    let flow = flow.step("uf", doubling(2)).compensates("f").step("ua", once()).compensates("a");
    let scripts = [("f", 1, bad()), ("c", 0, bad()), ("uf", 2, vec![status(503), ok()])];
    holds(&plays(flow.rollback("on_failure").build(), scripts));
}

#[test]
fn h11_nothing_comes_before_the_creation_or_is_created_twice() {
    let world = one(once(), [ok()]);
    assert!(RunState::replay(world.state.id(), &world.log[1..]).is_err());
    assert!(RunState::replay(world.state.id(), []).is_err());
}
