//! Steps, transitions and the end of the run against the drawn graph: promise 3 and Decision 18.

use std::collections::BTreeMap;

use retrial::failure::ErrorContext;
use retrial::run::{Event, Outcome, RouteCause, TaskId};

use super::draw::{Ask, Case, Edge};
use crate::run_support::world::World;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Waiting,
    Active,
    Succeeded,
    Failed,
    Unreachable,
    Skipped,
}

struct Oracle<'c> {
    case: &'c Case,
    is: Vec<Is>,
    /// Whether a transition to the step was taken, and whether one on a failure.
    routed: Vec<bool>,
    handles: Vec<bool>,
    /// Each task's record: none while it may succeed, cancelled or failed.
    ended: BTreeMap<TaskId, Option<ErrorContext>>,
    /// The tasks that failed for good, in the order in which they did.
    failed: Vec<TaskId>,
    types: BTreeMap<TaskId, Vec<String>>,
    tasks: Vec<u32>,
}

/// Checks everything that happens between tasks.
pub(crate) fn check(case: &Case, world: &World) -> Result<(), String> {
    let count = case.graph.workflow.steps().len();
    let mut oracle = Oracle {
        case,
        is: vec![Is::Waiting; count],
        routed: vec![false; count],
        handles: vec![false; count],
        ended: BTreeMap::new(),
        failed: Vec::new(),
        types: BTreeMap::new(),
        tasks: vec![0; count],
    };
    for (n, recorded) in world.log.iter().enumerate() {
        let (event, follows) = (&recorded.event, world.log.get(n + 1).map(|r| &r.event));
        let before = n.checked_sub(1).map(|b| &world.log[b].event);
        oracle
            .follow(event, before, follows)
            .map_err(|wrong| format!("event {n}, {}: {wrong}", event.name()))?;
    }
    Ok(())
}

fn ensure(holds: bool, wrong: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong.to_owned()) }
}

impl Oracle<'_> {
    fn follow(
        &mut self,
        event: &Event,
        before: Option<&Event>,
        follows: Option<&Event>,
    ) -> Result<(), String> {
        match event {
            Event::StepEntered { step, tasks } => self.entered(step.index(), *tasks)?,
            Event::StepUnreachable { step } => {
                let at = step.index();
                ensure(self.is_lost_by_others(at), "nothing keeps it from starting")?;
                self.is[at] = Is::Unreachable;
            }
            Event::StepSkipped { step } => {
                let at = step.index();
                ensure(self.is_passed_by(at), "nothing passes it by")?;
                self.is[at] = Is::Skipped;
            }
            Event::AttemptStarted { task, .. } => {
                self.check_not_called_off(task.step.index())?;
                let hopeless = self.lost_goal() && !self.handles.contains(&true);
                ensure(!hopeless, "a goal is lost, nothing handles it, and the run goes on")?;
            }
            Event::AttemptFailed { task, failure, .. } => {
                self.check_not_called_off(task.step.index())?;
                self.types.insert(*task, failure.lineage().to_vec());
            }
            Event::TaskFailed { task, error, .. } => {
                self.ended.insert(*task, Some(error.clone()));
                self.failed.push(*task);
            }
            Event::TaskCancelled { task } => {
                let step = &self.case.graph.workflow.steps()[task.step.index()];
                let failed = self.first_failed(task.step.index()).is_some();
                ensure(step.fail_fast && failed, "called off without a failed sibling")?;
                self.ended.insert(*task, None);
            }
            Event::TaskSucceeded { task, .. } => {
                self.check_not_called_off(task.step.index())?;
                self.ended.insert(*task, None);
            }
            Event::StepSucceeded { step } => self.succeeded(step.index(), follows)?,
            Event::StepFailed { step, error } => self.failed(step.index(), error, follows)?,
            Event::Routed { from, to, cause } => {
                let follows_end = match before {
                    Some(Event::StepSucceeded { step }) => {
                        *step == *from && *cause == RouteCause::Success
                    }
                    Some(Event::StepFailed { step, .. }) => {
                        *step == *from && *cause == RouteCause::Failure
                    }
                    _ => false,
                };
                ensure(follows_end, "it does not follow the end of its source")?;
                self.routed[to.index()] = true;
                self.handles[to.index()] |= *cause == RouteCause::Failure;
            }
            Event::RunEnded { outcome } => {
                ensure(follows.is_none(), "something follows the end")?;
                self.ended(outcome, before)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A11: under `fail_fast` nothing more comes of a failed task's siblings.
    fn check_not_called_off(&self, at: usize) -> Result<(), String> {
        let fail_fast = self.case.graph.workflow.steps()[at].fail_fast;
        let goes_on = fail_fast && self.first_failed(at).is_some();
        ensure(!goes_on, "a sibling goes on under `fail_fast`")
    }

    fn after(&self, at: usize) -> Vec<Is> {
        let step = &self.case.graph.workflow.steps()[at];
        step.after.iter().map(|from| self.is[from.index()]).collect()
    }

    fn sources(&self, at: usize) -> Vec<Is> {
        let into = self.case.graph.edges.iter().filter(|e| e.to == at);
        into.map(|e| self.is[e.from]).collect()
    }

    fn entered(&mut self, at: usize, tasks: u32) -> Result<(), String> {
        ensure(self.is[at] == Is::Waiting, "it is not waiting")?;
        let (after, sources) = (self.after(at), self.sources(at));
        ensure(after.iter().all(|s| *s == Is::Succeeded), "not all it is after have succeeded")?;
        let open = sources.iter().any(|s| matches!(s, Is::Waiting | Is::Active));
        ensure(!open, "a transition to it may still be taken")?;
        ensure(sources.is_empty() || self.routed[at], "no transition to it was taken")?;
        self.is[at] = Is::Active;
        self.tasks[at] = tasks;
        Ok(())
    }

    fn is_lost_by_others(&self, at: usize) -> bool {
        let lost = |s: &Is| matches!(s, Is::Failed | Is::Unreachable);
        let sources = self.sources(at);
        let closed = sources.iter().all(|s| !matches!(s, Is::Waiting | Is::Active));
        self.is[at] == Is::Waiting
            && (self.after(at).iter().any(lost)
                || closed && !self.routed[at] && sources.iter().any(lost))
    }

    fn is_passed_by(&self, at: usize) -> bool {
        let (after, sources) = (self.after(at), self.sources(at));
        let open = |s: &Is| matches!(s, Is::Waiting | Is::Active);
        let unchosen = !sources.is_empty() && !self.routed[at];
        self.is[at] == Is::Waiting
            && !self.is_lost_by_others(at)
            && !after.iter().chain(&sources).any(open)
            && (unchosen || after.contains(&Is::Skipped))
    }

    fn all_ended(&self, at: usize) -> bool {
        self.ended.keys().filter(|t| t.step.index() == at).count() == self.tasks[at] as usize
    }

    fn first_failed(&self, at: usize) -> Option<(&TaskId, &ErrorContext)> {
        let first = self.failed.iter().find(|t| t.step.index() == at)?;
        Some((first, self.ended.get(first)?.as_ref()?))
    }

    fn succeeded(&mut self, at: usize, follows: Option<&Event>) -> Result<(), String> {
        ensure(self.is[at] == Is::Active && self.all_ended(at), "it has work left")?;
        ensure(self.first_failed(at).is_none(), "a task of it has failed")?;
        self.is[at] = Is::Succeeded;
        let edge = self.edges(at).into_iter().find(|e| e.on_error.is_none() && self.holds(e, None));
        self.check_route(edge.map(|e| e.to), RouteCause::Success, at, follows)
    }

    fn failed(
        &mut self,
        at: usize,
        error: &ErrorContext,
        follows: Option<&Event>,
    ) -> Result<(), String> {
        let types = match self.is[at] {
            Is::Waiting => {
                ensure(error.code.as_str() == "BAD_FAN_OUT", "it was never entered")?;
                vec!["ValueError".to_owned()]
            }
            _ => {
                ensure(self.is[at] == Is::Active && self.all_ended(at), "it has work left")?;
                let (task, first) = self.first_failed(at).ok_or("no task of it has failed")?;
                ensure(first == error, "another error than its first failed task's")?;
                self.types.get(task).cloned().unwrap_or_default()
            }
        };
        self.is[at] = Is::Failed;
        let edge = if self.handles[at] { None } else { self.failure_edge(at, error, &types) };
        self.check_route(edge, RouteCause::Failure, at, follows)?;
        let workflow = &self.case.graph.workflow;
        let fatal = self.handles[at] || workflow.steps()[at].goal || !workflow.has_goals();
        let ends = matches!(follows, Some(Event::RunEnded { outcome: Outcome::Failed { error: e } }) if e == error);
        ensure(edge.is_some() || !fatal || ends, "an unrouted failure does not end the run")
    }

    fn edges(&self, from: usize) -> Vec<&Edge> {
        let mut edges: Vec<&Edge> =
            self.case.graph.edges.iter().filter(|e| e.from == from).collect();
        edges.sort_by_key(|e| e.priority);
        edges
    }

    fn failure_edge(&self, at: usize, error: &ErrorContext, types: &[String]) -> Option<usize> {
        let code = error.code.as_str();
        let able: Vec<&Edge> =
            self.edges(at).into_iter().filter(|e| self.is[e.to] == Is::Waiting).collect();
        let catches = |names: &Vec<String>| {
            names.is_empty() || names.iter().any(|n| n == code || types.contains(n))
        };
        let exception = able
            .iter()
            .find(|e| e.on_error.as_ref().is_some_and(catches) && self.holds(e, Some(code)));
        let about_errors = |e: &Edge| !matches!(e.ask, None | Some(Ask::Input(_)));
        let transition = able
            .iter()
            .find(|e| e.on_error.is_none() && about_errors(e) && self.holds(e, Some(code)));
        exception.or(transition).map(|e| e.to)
    }

    /// C6.
    fn holds(&self, edge: &Edge, code: Option<&str>) -> bool {
        match &edge.ask {
            None => true,
            Some(Ask::Exists) => code.is_some(),
            Some(Ask::Absent) => code.is_none(),
            Some(Ask::CodeIs(a)) => code == Some(*a),
            Some(Ask::CodeAmong(a, b)) => code == Some(*a) || code == Some(*b),
            Some(Ask::ExistsOr(yes)) => code.is_some() || self.case.yes == *yes,
            Some(Ask::Input(yes)) => self.case.yes == *yes,
        }
    }

    fn check_route(
        &self,
        expected: Option<usize>,
        why: RouteCause,
        at: usize,
        follows: Option<&Event>,
    ) -> Result<(), String> {
        let taken = match follows {
            Some(Event::Routed { from, to, cause }) if from.index() == at && *cause == why => {
                Some(to.index())
            }
            _ => None,
        };
        if taken == expected {
            return Ok(());
        }
        Err(format!("the edge to {taken:?} was taken, not the one to {expected:?}"))
    }

    fn lost_goal(&self) -> bool {
        let goals = self.case.graph.workflow.steps().iter().zip(&self.is);
        goals.into_iter().any(|(s, is)| s.goal && matches!(is, Is::Failed | Is::Unreachable))
    }

    fn ended(&self, outcome: &Outcome, before: Option<&Event>) -> Result<(), String> {
        let unrouted = matches!(before, Some(Event::StepFailed { .. }));
        match outcome {
            Outcome::Cancelled { .. } => {
                let asked = matches!(before, Some(Event::CancelRequested { .. }));
                ensure(asked, "nobody asked for it to be cancelled")
            }
            Outcome::Failed { .. } => ensure(self.lost_goal() || unrouted, "nothing failed it"),
            Outcome::Completed => {
                let open = |s: &Is| matches!(s, Is::Waiting | Is::Active);
                ensure(!self.is.iter().any(open), "work is left")?;
                ensure(!self.lost_goal(), "a goal is lost")
            }
        }
    }
}
