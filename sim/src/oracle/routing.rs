//! The second half of promise 3: what a step's end leads to, and how the run ends (A11, A13, C6,
//! C11, spec decision 18).

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::{ErrorContext, Failure};
use retrial::run::{Event, Outcome, RouteCause, TaskId};
use retrial::workflow::StepIx;
use serde_json::{Map, Value};

use super::Report;
use super::graph::{Seen, Way, as_last_error, fan_out, way_of_failure, way_of_success};
use super::history::{Entry, TaskHistory, entries};
use crate::evidence::RunEvidence;

/// A step was entered before what it waits for, twice, or after it was ruled out.
pub const ENTERED_WRONGLY: &str = "entered_wrongly";
/// A step has another number of tasks than its list has items.
pub const WRONG_FAN_OUT: &str = "wrong_fan_out";
/// A step ended although its tasks say otherwise.
pub const STEP_ENDED_WRONGLY: &str = "step_ended_wrongly";
/// All of a step's tasks have ended but the step has not.
pub const STEP_NOT_ENDED: &str = "step_not_ended";
/// A failed step took no edge or another edge than its failure matches.
pub const FAILURE_MISROUTED: &str = "failure_misrouted";
/// A succeeded step took no edge or another edge than the first that holds.
pub const SUCCESS_MISROUTED: &str = "success_misrouted";
/// A failure in an error handler was routed again (C11).
pub const HANDLER_RECURSED: &str = "handler_recursed";
/// The run ended otherwise than its steps did.
pub const WRONG_OUTCOME: &str = "wrong_outcome";
/// A task was cancelled without anything that calls it off (A11).
pub const CANCELLED_WITHOUT_CAUSE: &str = "cancelled_without_cause";
/// The run completed while steps were open.
pub const COMPLETED_TOO_SOON: &str = "completed_too_soon";

/// What became of the run's steps.
#[derive(Default)]
struct Graph<'e> {
    entered: BTreeMap<StepIx, (Entry<'e>, u32)>,
    succeeded: BTreeMap<StepIx, Entry<'e>>,
    failed: BTreeMap<StepIx, (Entry<'e>, &'e ErrorContext)>,
    unreachable: BTreeSet<StepIx>,
    skipped: BTreeSet<StepIx>,
    routed: Vec<(Entry<'e>, StepIx, StepIx, RouteCause)>,
    cancelled: Option<Entry<'e>>,
    ended: Option<(Entry<'e>, &'e Outcome)>,
    tasks: BTreeMap<TaskId, Entry<'e>>,
    /// The first failure for good of each step, with the attempt's failure.
    first_failure: BTreeMap<StepIx, Option<&'e Failure>>,
}

/// Judges the routing of one run. A trimmed history is not judged: its beginning is unknown.
pub(super) fn judge(report: &mut Report, run: &RunEvidence, tasks: &[TaskHistory<'_>]) {
    if run.first.0 != 0 {
        return;
    }
    let Some(input) = entries(run).find_map(|e| match e.event {
        Event::RunCreated { input, .. } => Some(input),
        _ => None,
    }) else {
        return;
    };
    let mut graph = Graph::default();
    for entry in entries(run) {
        graph.judge_next(report, run, input, &entry);
        graph.fold(&entry, tasks);
    }
    graph.routes(report, run, input);
    graph.steps(report, run);
    graph.outcome(report, run);
}

impl<'e> Graph<'e> {
    fn fold(&mut self, entry: &Entry<'e>, tasks: &[TaskHistory<'e>]) {
        match entry.event {
            Event::StepEntered { step, tasks } => {
                self.entered.insert(*step, (*entry, *tasks));
            }
            Event::StepSucceeded { step } => {
                self.succeeded.insert(*step, *entry);
            }
            Event::StepFailed { step, error } => {
                self.failed.insert(*step, (*entry, error));
            }
            Event::StepUnreachable { step } => {
                self.unreachable.insert(*step);
            }
            Event::StepSkipped { step } => {
                self.skipped.insert(*step);
            }
            Event::Routed { from, to, cause } => self.routed.push((*entry, *from, *to, *cause)),
            Event::CancelRequested { .. } => self.cancelled = Some(*entry),
            Event::RunEnded { outcome } => self.ended = Some((*entry, outcome)),
            Event::TaskFailed { task, .. } => {
                self.tasks.insert(*task, *entry);
                self.first_failure.entry(task.step).or_insert_with(|| last_failure(tasks, *task));
            }
            Event::TaskSucceeded { task, .. } | Event::TaskCancelled { task } => {
                self.tasks.insert(*task, *entry);
            }
            _ => {}
        }
    }

    /// Judges `entry` against what came before it.
    fn judge_next(
        &self,
        report: &mut Report,
        run: &RunEvidence,
        input: &Map<String, Value>,
        entry: &Entry<'e>,
    ) {
        match entry.event {
            Event::StepEntered { step, tasks } => {
                self.entering(report, run, *step, entry);
                if let Some(count) = fan_out(&run.workflow, *step, input) {
                    report.check(*tasks as usize == count, run.id, WRONG_FAN_OUT, || {
                        format!("{tasks} tasks for {count} items: {}", entry.show())
                    });
                }
            }
            Event::StepSucceeded { step } => {
                let all = |e: &Entry<'_>| matches!(e.event, Event::TaskSucceeded { .. });
                let right = self.ended_tasks(*step).is_some_and(|t| t.iter().all(all));
                self.ending(report, run, *step, right, entry);
            }
            Event::StepFailed { step, error } => {
                let first = |e: &Entry<'_>| match e.event {
                    Event::TaskFailed { error, .. } => Some(error.clone()),
                    _ => None,
                };
                let ended = self.ended_tasks(*step);
                let failures = ended.map(|mut ended| {
                    ended.sort_by_key(|e| e.number);
                    ended.iter().filter_map(first).collect::<Vec<_>>()
                });
                let right = failures.is_some_and(|f| f.first() == Some(error));
                self.ending(report, run, *step, right, entry);
            }
            Event::TaskCancelled { task } => self.cancelling(report, run, *task, entry),
            _ => {}
        }
    }

    /// A step is entered once, after every step of its `after` has succeeded and, where edges lead
    /// to it, after one was taken.
    fn entering(&self, report: &mut Report, run: &RunEvidence, step: StepIx, entry: &Entry<'e>) {
        let Some(definition) = run.workflow.step(step) else { return };
        let waited = definition.after.iter().all(|s| self.succeeded.contains_key(s));
        let led = run.workflow.transitions().iter().any(|t| t.to == step);
        let taken = !led || self.routed.iter().any(|(_, _, to, _)| *to == step);
        let open = !self.entered.contains_key(&step)
            && !self.unreachable.contains(&step)
            && !self.skipped.contains(&step);
        report.check(waited && taken && open, run.id, ENTERED_WRONGLY, || {
            format!("step `{}` can't be entered here: {}", definition.id, entry.show())
        });
    }

    /// The ends of a step's tasks, if all have ended.
    fn ended_tasks(&self, step: StepIx) -> Option<Vec<Entry<'e>>> {
        let (_, count) = self.entered.get(&step)?;
        (0..*count).map(|item| self.tasks.get(&TaskId { step, item }).copied()).collect()
    }

    fn ending(
        &self,
        report: &mut Report,
        run: &RunEvidence,
        step: StepIx,
        right: bool,
        entry: &Entry<'e>,
    ) {
        let once = !self.succeeded.contains_key(&step) && !self.failed.contains_key(&step);
        report.check(right && once, run.id, STEP_ENDED_WRONGLY, || {
            format!("its tasks say otherwise: {} of step {}", entry.show(), step.0)
        });
    }

    /// Siblings run to their own end unless `fail_fast` (A11); otherwise only the end of the run
    /// calls a task off.
    fn cancelling(&self, report: &mut Report, run: &RunEvidence, task: TaskId, entry: &Entry<'e>) {
        let fast = run.workflow.step(task.step).is_some_and(|s| s.fail_fast);
        let sibling = fast && self.first_failure.contains_key(&task.step);
        let elsewhere = self.failed.keys().any(|s| *s != task.step);
        let right = self.cancelled.is_some() || sibling || elsewhere;
        report.check(right, run.id, CANCELLED_WITHOUT_CAUSE, || entry.show());
    }

    /// Whether every ended step took the edge that it must.
    fn routes(&self, report: &mut Report, run: &RunEvidence, input: &Map<String, Value>) {
        for (step, (entry, error)) in &self.failed {
            let taken = self.taken(*step, RouteCause::Failure);
            if self.is_handler(*step, entry) {
                report.check(taken.is_empty(), run.id, HANDLER_RECURSED, || entry.show());
                continue;
            }
            let Some(Some(failure)) = self.first_failure.get(step) else { continue };
            let seen = Seen { input, last_error: as_last_error(error) };
            let way = way_of_failure(&run.workflow, *step, &seen, failure);
            self.way(report, run, FAILURE_MISROUTED, entry, &way, &taken);
        }
        for (step, entry) in &self.succeeded {
            let taken = self.taken(*step, RouteCause::Success);
            let way = way_of_success(&run.workflow, *step, &Seen { input, last_error: None });
            self.way(report, run, SUCCESS_MISROUTED, entry, &way, &taken);
        }
    }

    fn taken(&self, from: StepIx, cause: RouteCause) -> Vec<StepIx> {
        let out = self.routed.iter().filter(|(_, f, _, c)| *f == from && *c == cause);
        out.map(|(_, _, to, _)| *to).collect()
    }

    fn way(
        &self,
        report: &mut Report,
        run: &RunEvidence,
        reason: &'static str,
        entry: &Entry<'e>,
        way: &Way,
        taken: &[StepIx],
    ) {
        // A step that ended in the very commit that ended the run need not lead anywhere.
        let cut_off = taken.is_empty() && self.ended_at_once(run, entry);
        let right = match way {
            Way::Unknown => return,
            Way::Nowhere => taken.is_empty(),
            Way::To(targets) => cut_off || (taken.len() == 1 && targets.contains(&taken[0])),
        };
        report.check(right, run.id, reason, || {
            format!("it must lead to {way:?} but led to {taken:?}: {}", entry.show())
        });
    }

    /// Whether nothing but calling off lies between `entry` and a run's end for another cause: its
    /// cancellation, or goals that are settled.
    fn ended_at_once(&self, run: &RunEvidence, entry: &Entry<'e>) -> bool {
        let tidying = |e: &Entry<'_>| {
            matches!(
                e.event,
                Event::TaskCancelled { .. }
                    | Event::StepSkipped { .. }
                    | Event::StepUnreachable { .. }
                    | Event::CancelRequested { .. }
                    | Event::RunEnded { .. }
            )
        };
        let settled = self.cancelled.is_some() || run.workflow.steps().iter().any(|s| s.goal);
        settled
            && self.ended.is_some()
            && entries(run).filter(|e| e.number > entry.number).all(|e| tidying(&e))
    }

    /// Whether the step was entered through a failure edge.
    fn is_handler(&self, step: StepIx, ended: &Entry<'e>) -> bool {
        self.routed.iter().any(|(e, _, to, cause)| {
            *to == step && *cause == RouteCause::Failure && e.number < ended.number
        })
    }

    /// Whether every step whose tasks have all ended has ended too.
    fn steps(&self, report: &mut Report, run: &RunEvidence) {
        if self.ended.is_some() {
            return;
        }
        for (step, (entry, _)) in &self.entered {
            let open = !self.succeeded.contains_key(step) && !self.failed.contains_key(step);
            let all_ended = self.ended_tasks(*step).is_some();
            report.check(!(open && all_ended), run.id, STEP_NOT_ENDED, || entry.show());
        }
    }

    fn outcome(&self, report: &mut Report, run: &RunEvidence) {
        let Some((entry, outcome)) = &self.ended else { return };
        let cancelled = matches!(outcome, Outcome::Cancelled { .. });
        let asked = self.cancelled.is_some();
        report.check(cancelled == asked, run.id, WRONG_OUTCOME, || {
            format!("asked to cancel: {asked}, ended cancelled: {cancelled}: {}", entry.show())
        });
        if cancelled || asked {
            return;
        }
        let failed = matches!(outcome, Outcome::Failed { .. });
        if let Some((expected, why)) = self.must_fail(run) {
            report.check(failed == expected, run.id, WRONG_OUTCOME, || {
                format!("failed is {failed} but {why}: {}", entry.show())
            });
        }
        if !failed {
            self.completed(report, run, entry);
        }
    }

    /// Whether the run must end failed, and why; `None` where the evidence leaves it open: a goal
    /// that a choice passed by, or one that a failure barred without an event that says so.
    fn must_fail(&self, run: &RunEvidence) -> Option<(bool, String)> {
        let goals: Vec<StepIx> = run
            .workflow
            .places()
            .filter(|p| run.workflow.step(*p).is_some_and(|s| s.goal))
            .collect();
        let lost = |s: &StepIx| self.failed.contains_key(s) || self.unreachable.contains(s);
        if let Some(goal) = goals.iter().find(|s| lost(s)) {
            return Some((true, format!("goal {} was lost", goal.0)));
        }
        for (step, (entry, _)) in &self.failed {
            if self.is_handler(*step, entry) {
                return Some((true, format!("the error handler {} failed", step.0)));
            }
            if goals.is_empty() && self.taken(*step, RouteCause::Failure).is_empty() {
                return Some((true, format!("step {} failed unrouted", step.0)));
            }
        }
        let reached = |s: &StepIx| self.succeeded.contains_key(s);
        let barred = !self.failed.is_empty() && !goals.iter().all(reached);
        if barred || goals.iter().any(|s| self.skipped.contains(s)) {
            return None;
        }
        Some((false, "nothing failed that ends a run".to_owned()))
    }

    /// A run completes when every goal is reached, or without goals when no step is open.
    fn completed(&self, report: &mut Report, run: &RunEvidence, entry: &Entry<'e>) {
        let settled = |s: &StepIx| {
            self.succeeded.contains_key(s)
                || self.failed.contains_key(s)
                || self.skipped.contains(s)
                || self.unreachable.contains(s)
        };
        let is_goal = |s: &StepIx| run.workflow.step(*s).is_some_and(|s| s.goal);
        let has_goals = run.workflow.places().any(|s| is_goal(&s));
        let open = run.workflow.places().find(|s| (!has_goals || is_goal(s)) && !settled(s));
        report.check(open.is_none(), run.id, COMPLETED_TOO_SOON, || {
            format!("step {} is open: {}", open.map_or(0, |s| s.0), entry.show())
        });
    }
}

fn last_failure<'e>(tasks: &[TaskHistory<'e>], task: TaskId) -> Option<&'e Failure> {
    let history = tasks.iter().find(|t| t.task == task)?;
    history.failed().pop().map(|f| f.failure)
}
