//! Steps, transitions and the end of the run against the drawn graph: promise 3 and Decision 18.

use std::collections::{BTreeMap, BTreeSet};

use retrial_core::failure::ErrorContext;
use retrial_core::run::{Event, Outcome, RouteCause, TaskId};

use super::draw::Case;
use super::graphs::{Ask, Edge};
use crate::run_support::world::World;

#[path = "branches.rs"]
mod branches;

use branches::{among, needed};

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
    well: Vec<usize>,
    /// The failed steps whose errors are not cleared where the step ends, handed on from step to
    /// step; and those that were routed to it.
    carries: Vec<BTreeSet<usize>>,
    caught: Vec<BTreeSet<usize>>,
    errors: BTreeMap<usize, ErrorContext>,
    led: Vec<bool>,
    called_off: BTreeSet<usize>,
    /// Once set, all that follows is `rollbacks`' to judge.
    rolling: bool,
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
        well: vec![0; count],
        carries: vec![BTreeSet::new(); count],
        caught: vec![BTreeSet::new(); count],
        errors: BTreeMap::new(),
        led: vec![false; count],
        called_off: BTreeSet::new(),
        rolling: false,
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
        if self.rolling {
            return ensure(
                !matches!(event, Event::RunEnded { .. }) || follows.is_none(),
                "something follows the end",
            );
        }
        match event {
            Event::StepEntered { step, tasks } => self.entered(step.index(), *tasks)?,
            Event::StepUnreachable { step } => {
                let at = step.index();
                ensure(self.is_lost_by_others(at), "nothing keeps it from starting")?;
                self.carries[at] = self.inherits(at, true);
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
                let decided = self.called_off.contains(&task.step.index())
                    || self.is_decided(task.step.index());
                ensure(step.fail_fast && decided, "called off while it mattered")?;
                self.called_off.insert(task.step.index());
                self.ended.insert(*task, None);
            }
            Event::TaskSucceeded { task, .. } => {
                self.check_not_called_off(task.step.index())?;
                self.ended.insert(*task, None);
                self.well[task.step.index()] += 1;
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
                self.led[from.index()] = true;
                if *cause == RouteCause::Failure {
                    self.handles[to.index()] = true;
                    self.caught[to.index()].insert(from.index());
                }
            }
            Event::RollbackStarted { outcome } => {
                self.rolling = true;
                self.ended(outcome, before)?;
            }
            Event::RunEnded { outcome } => {
                ensure(follows.is_none(), "something follows the end")?;
                self.ended(outcome, before)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A11: under `fail_fast` nothing more comes of a step that is decided.
    fn check_not_called_off(&self, at: usize) -> Result<(), String> {
        let fail_fast = self.case.graph.workflow.steps()[at].fail_fast;
        ensure(!(fail_fast && self.is_decided(at)), "a sibling goes on under `fail_fast`")
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
        self.may_begin(at)?;
        ensure(self.requirement_holds(at), "what it requires does not hold")?;
        self.is[at] = Is::Active;
        self.tasks[at] = tasks;
        Ok(())
    }

    fn may_begin(&self, at: usize) -> Result<(), String> {
        let (after, sources) = (self.after(at), self.sources(at));
        let well = after.iter().filter(|s| **s == Is::Succeeded).count();
        let enough = well >= needed(self.step(at).join, after.len());
        ensure(enough, "not enough of what it is after have succeeded")?;
        ensure(!self.has_open_before(at), "something before it may still happen")?;
        ensure(sources.is_empty() || self.routed[at], "no transition to it was taken")
    }

    fn is_lost_by_others(&self, at: usize) -> bool {
        let lost = |s: &&Is| matches!(s, Is::Failed | Is::Unreachable);
        let open = |s: &&Is| matches!(s, Is::Waiting | Is::Active);
        let (after, sources) = (self.after(at), self.sources(at));
        let closed = !sources.iter().any(|s| open(&s));
        let needed = needed(self.step(at).join, after.len());
        // What is open may still succeed; what was skipped would have, had nothing failed.
        let without = after.len() - after.iter().filter(lost).count();
        let well = after.iter().filter(|s| **s == Is::Succeeded).count();
        let settled = closed && !after.iter().any(|s| open(&s));
        let chosen = sources.is_empty() || self.routed[at];
        let short = settled && chosen && well < needed && after.iter().any(|s| lost(&s));
        self.is[at] == Is::Waiting
            && (without < needed
                || short
                || closed && !self.routed[at] && sources.iter().any(|s| lost(&s)))
    }

    fn is_passed_by(&self, at: usize) -> bool {
        let (after, sources) = (self.after(at), self.sources(at));
        let open = |s: &Is| matches!(s, Is::Waiting | Is::Active);
        let unchosen = !sources.is_empty() && !self.routed[at];
        let well = after.iter().filter(|s| **s == Is::Succeeded).count();
        let short = well < needed(self.step(at).join, after.len());
        self.is[at] == Is::Waiting
            && !self.is_lost_by_others(at)
            && !after.iter().chain(&sources).any(open)
            && (unchosen || short)
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
        let enough = self.well[at] >= needed(self.step(at).success, self.tasks[at] as usize);
        ensure(enough, "not enough of its tasks have succeeded")?;
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
                self.may_begin(at)?;
                let types = match error.code.as_str() {
                    "BAD_FAN_OUT" => vec!["ValueError"],
                    "PRECONDITION_FAILED" => vec!["PreconditionError", "ValidationError"],
                    _ => return Err("it was never entered".to_owned()),
                };
                let required = self.requirement_holds(at);
                ensure(required == (types.len() == 1), "what it requires says otherwise")?;
                types.into_iter().map(str::to_owned).collect()
            }
            _ => {
                ensure(self.is[at] == Is::Active && self.all_ended(at), "it has work left")?;
                let needed = needed(self.step(at).success, self.tasks[at] as usize);
                ensure(self.well[at] < needed, "enough of its tasks have succeeded")?;
                match self.first_failed(at) {
                    Some((task, first)) => {
                        ensure(first == error, "another error than its first failed task's")?;
                        self.types.get(task).cloned().unwrap_or_default()
                    }
                    None => {
                        let own = error.code.as_str() == "TOO_FEW_SUCCEEDED";
                        ensure(own, "no task of it has failed")?;
                        vec!["ValueError".to_owned()]
                    }
                }
            }
        };
        let edge = if self.handles[at] { None } else { self.failure_edge(at, error, &types) };
        self.carries[at] = self.inherits(at, false);
        self.carries[at].insert(at);
        self.errors.insert(at, error.clone());
        self.is[at] = Is::Failed;
        self.check_route(edge, RouteCause::Failure, at, follows)?;
        let workflow = &self.case.graph.workflow;
        let nobodys = !workflow.has_goals() && !self.is_taken_in(at);
        let fatal = self.handles[at] || workflow.steps()[at].goal || nobodys;
        let ends = matches!(
            follows,
            Some(Event::RunEnded { outcome: Outcome::Failed { error: e } }
                | Event::RollbackStarted { outcome: Outcome::Failed { error: e } }) if e == error
        );
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
            names.is_empty()
                || names.iter().any(|n| n == code || types.contains(n) || among(code, n))
        };
        let exception = able
            .iter()
            .find(|e| e.on_error.as_ref().is_some_and(catches) && self.holds(e, Some((at, code))));
        let about_errors = |e: &Edge| !matches!(e.ask, None | Some(Ask::Input(_)));
        let transition = able
            .iter()
            .find(|e| e.on_error.is_none() && about_errors(e) && self.holds(e, Some((at, code))));
        exception.or(transition).map(|e| e.to)
    }

    /// C6.
    fn holds(&self, edge: &Edge, failed: Option<(usize, &str)>) -> bool {
        let code = failed.map(|(_, code)| code);
        match &edge.ask {
            Some(Ask::FirstIs(a)) => {
                failed.and_then(|(at, code)| self.first_error(at, Some(code))).as_deref()
                    == Some(*a)
            }
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
        let nobodys = !self.case.graph.workflow.has_goals()
            && (0..self.is.len())
                .any(|at| self.is[at] == Is::Failed && !self.led[at] && !self.is_taken_in(at));
        match outcome {
            Outcome::Cancelled { .. } => {
                let asked = matches!(before, Some(Event::CancelRequested { .. }));
                ensure(asked, "nobody asked for it to be cancelled")
            }
            Outcome::Failed { .. } => {
                ensure(self.lost_goal() || unrouted || nobodys, "nothing failed it")
            }
            Outcome::Completed => {
                let open = |at: usize| matches!(self.is[at], Is::Waiting | Is::Active);
                let left = |at: usize| open(at) && self.step(at).compensates.is_none();
                ensure(!(0..self.is.len()).any(left), "work is left")?;
                ensure(!nobodys, "a failure is nobody's")?;
                ensure(!self.lost_goal(), "a goal is lost")
            }
        }
    }
}
