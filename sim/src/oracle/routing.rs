//! The second half of promise 3: where a step's end leads, and how the run ends.

use retrial::failure::{ErrorContext, Failure};
use retrial::run::{Event, Outcome, RouteCause, TaskId};
use retrial::workflow::StepIx;
use serde_json::{Map, Value};

use super::attempt_records::AttemptRecords;
use super::graph::{Seen, Truth, Way, as_last_error, fan_out, way_of_failure, way_of_success};
use super::history::{Entry, TaskHistory, entries, input_of};
use super::step_outcomes::{StepOutcomes, needed};
use super::{JOIN, PARTIAL, REQUIRES, Report};
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
/// A failure in an error handler was routed again.
pub const HANDLER_RECURSED: &str = "handler_recursed";
/// The run ended otherwise than its steps did.
pub const WRONG_OUTCOME: &str = "wrong_outcome";
/// A task was cancelled without anything that calls it off.
pub const CANCELLED_WITHOUT_CAUSE: &str = "cancelled_without_cause";
/// A step was entered, or failed, against what it requires.
pub const REQUIREMENT_MISJUDGED: &str = "requirement_misjudged";
/// The run completed while steps were open.
pub const COMPLETED_TOO_SOON: &str = "completed_too_soon";

/// Judges the routing of one run. A trimmed history is not judged: its beginning is unknown.
pub(super) fn judge(
    report: &mut Report,
    run: &RunEvidence,
    tasks: &[TaskHistory<'_>],
    ledger: &AttemptRecords<'_>,
) {
    if run.first.0 != 0 {
        return;
    }
    let Some(input) = input_of(run) else { return };
    let mut step_outcomes = StepOutcomes::default();
    for entry in entries(run).filter(|e| !is_undoing(run, e.event)) {
        step_outcomes.judge_next(report, run, input, &entry);
        step_outcomes.fold(&run.workflow, &entry, tasks);
    }
    step_outcomes.routes(report, run, input);
    step_outcomes.steps(report, run);
    step_outcomes.gathered(report, run.id, &run.workflow, ledger);
    step_outcomes.outcome(report, run);
}

impl<'e> StepOutcomes<'e> {
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
                self.required(report, run, input, *step, Truth::Yes, entry);
                if let Some(count) = fan_out(&run.workflow, *step, input) {
                    report.check(*tasks as usize == count, run.id, WRONG_FAN_OUT, || {
                        format!("{tasks} tasks for {count} items: {}", entry.show())
                    });
                }
            }
            Event::StepSucceeded { step } => {
                let right = self.ended_tasks(*step).is_some() && self.has_enough(run, *step);
                self.ending(report, run, *step, right, entry);
            }
            Event::StepFailed { step, error } if !self.entered.contains_key(step) => {
                let code = error.code.as_str();
                // Not a list, one that is too long, or one that only the engine can see.
                let listless = code == "BAD_FAN_OUT"
                    && fan_out(&run.workflow, *step, input).is_none_or(|n| n > 10_000);
                let right = (code == "PRECONDITION_FAILED" || listless) && error.attempt == 0;
                self.ending(report, run, *step, right, entry);
                let truth = if listless { Truth::Yes } else { Truth::No };
                self.required(report, run, input, *step, truth, entry);
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
                let own = error.code.as_str() == "TOO_FEW_SUCCEEDED";
                let right = !self.has_enough(run, *step)
                    && failures.is_some_and(|f| f.first().map_or(own, |first| first == error));
                self.ending(report, run, *step, right, entry);
            }
            Event::TaskCancelled { task } => self.cancelling(report, run, *task, entry),
            _ => {}
        }
    }

    /// Whether as many of the step's tasks succeeded as must.
    fn has_enough(&self, run: &RunEvidence, step: StepIx) -> bool {
        let count = self.entered.get(&step).map_or(0, |(_, n)| *n as usize);
        let success = run.workflow.step(step).map(|s| s.success).unwrap_or_default();
        self.well.get(&step).copied().unwrap_or(0) >= needed(success, count)
    }

    /// Whether what the step requires was found as it was.
    fn required(
        &self,
        report: &mut Report,
        run: &RunEvidence,
        input: &Map<String, Value>,
        step: StepIx,
        found: Truth,
        entry: &Entry<'e>,
    ) {
        let Some(condition) = run.workflow.step(step).and_then(|s| s.requires.as_ref()) else {
            if found == Truth::No {
                report.check(false, run.id, REQUIREMENT_MISJUDGED, || entry.show());
            }
            return;
        };
        let errors = self.errors_at(&run.workflow, step);
        let seen =
            Seen { last_error: self.last_at(&run.workflow, step), errors, ..Seen::well(input) };
        let truth = seen.holds(condition);
        report.met(REQUIRES);
        report.check(
            truth == found || truth == Truth::Unknown,
            run.id,
            REQUIREMENT_MISJUDGED,
            || format!("what it requires is {truth:?}: {}", entry.show()),
        );
    }

    /// A step is entered once, when all before it has ended and enough of its `after` well, and
    /// where edges lead to it, after one was taken.
    fn entering(&self, report: &mut Report, run: &RunEvidence, step: StepIx, entry: &Entry<'e>) {
        let Some(definition) = run.workflow.step(step) else { return };
        let after = &definition.after;
        let well = after.iter().filter(|s| self.succeeded.contains_key(s)).count();
        let enough = well >= needed(definition.join, after.len());
        let waited = enough && !self.has_open_before(&run.workflow, step);
        if !definition.join.is_all() {
            report.met(JOIN);
        }
        let led = run.workflow.transitions().iter().any(|t| t.to == step);
        let taken = !led || self.routed.iter().any(|(_, _, to, _)| *to == step);
        let open = !self.entered.contains_key(&step)
            && !self.unreachable.contains(&step)
            && !self.skipped.contains(&step);
        report.check(waited && taken && open, run.id, ENTERED_WRONGLY, || {
            format!("step `{}` can't be entered here: {}", definition.id, entry.show())
        });
    }

    fn ending(
        &self,
        report: &mut Report,
        run: &RunEvidence,
        step: StepIx,
        right: bool,
        entry: &Entry<'e>,
    ) {
        if run.workflow.step(step).is_some_and(|s| !s.success.is_all()) {
            report.met(PARTIAL);
        }
        let once = !self.succeeded.contains_key(&step) && !self.failed.contains_key(&step);
        report.check(right && once, run.id, STEP_ENDED_WRONGLY, || {
            format!("its tasks say otherwise: {} of step {}", entry.show(), step.0)
        });
    }

    /// Siblings run to their own end unless `fail_fast`; otherwise only the end of the run
    /// calls a task off.
    fn cancelling(&self, report: &mut Report, run: &RunEvidence, task: TaskId, entry: &Entry<'e>) {
        let fast = run.workflow.step(task.step).is_some_and(|s| s.fail_fast);
        let success = run.workflow.step(task.step).map(|s| s.success).unwrap_or_default();
        let sibling = fast && self.is_decided(task.step, success);
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
            let own = of_itself(error);
            let failure = match self.first_failure.get(step) {
                Some(Some(failure)) => *failure,
                Some(None) => continue,
                None => &own,
            };
            let errors = self.errors_of_failed(&run.workflow, *step);
            let seen = Seen { last_error: as_last_error(error), errors, ..Seen::well(input) };
            let open = |to| self.was_open(to, entry);
            let way = way_of_failure(&run.workflow, *step, &seen, failure, open);
            self.way(report, run, FAILURE_MISROUTED, entry, &way, &taken);
        }
        for (step, entry) in &self.succeeded {
            let taken = self.taken(*step, RouteCause::Success);
            let way = way_of_success(&run.workflow, *step, &Seen::well(input));
            self.way(report, run, SUCCESS_MISROUTED, entry, &way, &taken);
        }
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

    /// Whether only cancellations are between `entry` and a run's end for another cause: its
    /// cancellation, or goals that are settled.
    fn ended_at_once(&self, run: &RunEvidence, entry: &Entry<'e>) -> bool {
        // A rollback follows upon how the run ends, and changes nothing about it.
        let end = self.rolls_back.map(|(e, _)| e.number).or(self.ended.map(|(e, _)| e.number));
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
            && end.is_some_and(|end| {
                let between = |e: &Entry<'_>| e.number > entry.number && e.number < end;
                entries(run).filter(between).all(|e| tidying(&e))
            })
    }

    /// Whether every step has ended once all of its tasks have.
    fn steps(&self, report: &mut Report, run: &RunEvidence) {
        if self.ended.is_some() || self.rolls_back.is_some() {
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
        // How a run ends is settled when it begins to roll back.
        let settled = self.rolls_back.map_or(entry.number, |(e, _)| e.number);
        let asked = self.cancelled_before(run, settled);
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

    /// Whether a user asked to cancel the run before that event.
    fn cancelled_before(&self, run: &RunEvidence, number: u64) -> bool {
        entries(run).any(|e| e.number < number && matches!(e.event, Event::CancelRequested { .. }))
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
            let nobodys = goals.is_empty() && !self.is_taken_in(&run.workflow, *step);
            if nobodys && self.taken(*step, RouteCause::Failure).is_empty() {
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
        let is_ordinary =
            |s: &StepIx| run.workflow.step(*s).is_some_and(|s| s.compensates.is_none());
        let has_goals = run.workflow.places().any(|s| is_goal(&s));
        let open = run
            .workflow
            .places()
            .find(|s| is_ordinary(s) && (!has_goals || is_goal(s)) && !settled(s));
        report.check(open.is_none(), run.id, COMPLETED_TOO_SOON, || {
            format!("step {} is open: {}", open.map_or(0, |s| s.0), entry.show())
        });
    }
}

/// Whether the event is about a compensating step: those have no part in the ordinary flow.
fn is_undoing(run: &RunEvidence, event: &Event) -> bool {
    let step = match event {
        Event::StepSucceeded { step } | Event::StepFailed { step, .. } => Some(*step),
        _ => event.task().map(|t| t.step),
    };
    let compensates = |s: StepIx| run.workflow.step(s).is_some_and(|s| s.compensates.is_some());
    step.is_some_and(compensates)
}

/// The recorded error of a step that fails without an attempt.
fn of_itself(error: &ErrorContext) -> Failure {
    let code = error.code.as_str();
    let types: &[&str] = match code {
        "PRECONDITION_FAILED" => &["PreconditionError", "ValidationError"],
        _ => &["ValueError"],
    };
    Failure::new(code, &error.message).with_lineage(types)
}
