//! The part of promise 3 about rollbacks: a run that must be rolled back is, once. Each task that
//! succeeded and has a compensation is undone once, strictly backwards, and nothing else is. The
//! run ends with the outcome that started the rollback.

use std::collections::BTreeMap;

use retrial::run::{Event, Outcome, TaskId};
use retrial::workflow::{Rollback, StepIx};
use serde_json::Value;

use super::attempt_records::AttemptRecords;
use super::history::{Entry, entries, is_bare};
use super::{COMPENSATION, ROLLBACK, Report};
use crate::evidence::RunEvidence;

/// A run ended without the rollback that its workflow or its user asked for.
pub const ROLLBACK_MISSING: &str = "rollback_missing";
/// A run was rolled back without need, or twice.
pub const ROLLBACK_UNASKED: &str = "rollback_unasked";
/// Something was undone that did not succeed, twice, or not in backward order.
pub const UNDONE_WRONGLY: &str = "undone_wrongly";
/// A compensation began before the one before it had ended.
pub const UNDONE_TOGETHER: &str = "undone_together";
/// Something of the ordinary flow happened in a rollback, or a compensation outside of one.
pub const OUT_OF_PLACE: &str = "out_of_place";
/// A rollback ended with something left, or said otherwise than it was.
pub const COMPLETENESS_MISTOLD: &str = "completeness_mistold";
/// The run ended otherwise than it was to end when it began to roll back.
pub const OUTCOME_CHANGED: &str = "outcome_changed";
/// A compensation was not given what it undoes.
pub const WRONG_RESULT_UNDONE: &str = "wrong_result_undone";

/// The progress of a rollback.
#[derive(Default)]
struct RollbackProgress<'e> {
    /// Successes that have a compensation, in order.
    done: Vec<TaskId>,
    started: Option<(Entry<'e>, &'e Outcome)>,
    /// The compensations that started, in order, with their outcomes.
    undone: Vec<(TaskId, Option<bool>)>,
    ended: Option<bool>,
    asked: bool,
    stopped: bool,
}

/// Judges the rollback of one run. A trimmed history is not judged: its beginning is unknown.
pub(super) fn judge(report: &mut Report, run: &RunEvidence, ledger: &AttemptRecords<'_>) {
    if run.first.0 != 0 {
        return;
    }
    let undoes: BTreeMap<StepIx, StepIx> = run
        .workflow
        .places()
        .filter_map(|at| Some((run.workflow.step(at)?.compensates?, at)))
        .collect();
    let mut undoing = RollbackProgress::default();
    for entry in entries(run) {
        undoing.next(report, run, &undoes, &entry);
    }
    undoing.sent(report, run, &undoes, ledger);
}

impl<'e> RollbackProgress<'e> {
    fn next(
        &mut self,
        report: &mut Report,
        run: &RunEvidence,
        undoes: &BTreeMap<StepIx, StepIx>,
        entry: &Entry<'e>,
    ) {
        let by = |s: StepIx| run.workflow.step(s).and_then(|s| s.compensates);
        let place = match entry.event {
            Event::StepEntered { step, .. }
            | Event::StepUnreachable { step }
            | Event::StepSkipped { step }
            | Event::Routed { from: step, .. } => Some(*step),
            other => other.task().map(|t| t.step),
        };
        if let (Some(step), false) = (place, undoes.is_empty()) {
            let right = self.started.is_some() == by(step).is_some() && self.ended.is_none();
            report.check(right, run.id, OUT_OF_PLACE, || entry.show());
        }
        match entry.event {
            Event::CancelRequested { .. } if self.started.is_some() => self.stopped = true,
            Event::CancelRequested { .. } => self.asked = true,
            Event::RollbackStarted { outcome } => self.start(report, run, entry, outcome),
            Event::CompensationStarted { task } => self.begin(report, run, entry, *task),
            Event::TaskSucceeded { task, .. } if by(task.step).is_some() => {
                self.settle(*task, true)
            }
            Event::TaskFailed { task, .. } if by(task.step).is_some() => self.settle(*task, false),
            Event::TaskSucceeded { task, .. } if undoes.contains_key(&task.step) => {
                self.done.push(*task);
            }
            Event::RollbackEnded { complete } => self.end(report, run, entry, *complete),
            Event::RunEnded { outcome } => self.over(report, run, entry, outcome),
            _ => {}
        }
    }

    fn start(
        &mut self,
        report: &mut Report,
        run: &RunEvidence,
        entry: &Entry<'e>,
        outcome: &'e Outcome,
    ) {
        let by_itself = must(run.workflow.rollback(), outcome);
        let demanded = self.asked && !run.rollbacks.is_empty();
        let right = self.started.is_none() && (by_itself || demanded);
        report.met(ROLLBACK);
        report.check(right, run.id, ROLLBACK_UNASKED, || entry.show());
        self.started = Some((*entry, outcome));
    }

    fn begin(&mut self, report: &mut Report, run: &RunEvidence, entry: &Entry<'e>, task: TaskId) {
        let of = run.workflow.step(task.step).and_then(|s| s.compensates);
        // Of n successes the k-th to be undone, from 0, is the one at n - 1 - k.
        let next = self.done.len().checked_sub(self.undone.len() + 1).map(|at| self.done[at]);
        let right = of.is_some_and(|step| next == Some(TaskId { step, item: task.item }));
        report.met(COMPENSATION);
        report.check(right && self.started.is_some(), run.id, UNDONE_WRONGLY, || {
            format!("{next:?} is next to be undone, not the one of {task}: {}", entry.show())
        });
        let alone = self.undone.iter().all(|(_, end)| end.is_some());
        report.check(alone, run.id, UNDONE_TOGETHER, || entry.show());
        self.undone.push((task, None));
    }

    fn settle(&mut self, task: TaskId, well: bool) {
        if let Some((_, end)) = self.undone.iter_mut().find(|(t, _)| *t == task) {
            *end = Some(well);
        }
    }

    fn end(&mut self, report: &mut Report, run: &RunEvidence, entry: &Entry<'e>, complete: bool) {
        let all = self.undone.len() == self.done.len();
        let settled = self.undone.iter().all(|(_, end)| end.is_some());
        let well = all && self.undone.iter().all(|(_, end)| *end == Some(true));
        // A rollback that was stopped says that it is incomplete even where it had just ended.
        let right = if self.stopped { !complete } else { all && settled && complete == well };
        report.check(right && self.started.is_some(), run.id, COMPLETENESS_MISTOLD, || {
            let (undone, done) = (self.undone.len(), self.done.len());
            format!("{undone} of {done} were undone, complete {complete}: {}", entry.show())
        });
        self.ended = Some(complete);
    }

    fn over(&self, report: &mut Report, run: &RunEvidence, entry: &Entry<'e>, outcome: &Outcome) {
        let Some((_, settled)) = &self.started else {
            let right = !must(run.workflow.rollback(), outcome);
            report.check(right, run.id, ROLLBACK_MISSING, || entry.show());
            return;
        };
        let right = *settled == outcome && self.ended.is_some();
        report.check(right, run.id, OUTCOME_CHANGED, || {
            format!("the rollback ended {:?}: {}", self.ended, entry.show())
        });
    }

    /// Whether each compensation that asks for it was sent the result that it undoes.
    fn sent(
        &self,
        report: &mut Report,
        run: &RunEvidence,
        undoes: &BTreeMap<StepIx, StepIx>,
        ledger: &AttemptRecords<'_>,
    ) {
        for done in &self.done {
            let Some(step) = undoes.get(&done.step) else { continue };
            let args = run.workflow.step(*step).map(|s| s.args.raw().clone()).unwrap_or_default();
            let asks = args.get("undone").and_then(Value::as_str) == Some("${result}");
            if !asks || is_bare(&run.workflow, *step) {
                continue;
            }
            let row = run.results.iter().find(|r| r.task == *done);
            let Some(row) = row else { continue };
            let right: Value = serde_json::from_slice(&row.result).unwrap_or_default();
            for arrival in ledger.arrivals(run.id, TaskId { step: *step, item: done.item }, 1) {
                let body: Value = serde_json::from_slice(&arrival.body).unwrap_or_default();
                report.check(body["undone"] == right, run.id, WRONG_RESULT_UNDONE, || {
                    format!("the compensation of {done} was sent another result")
                });
            }
        }
    }
}

/// Whether a run that is to end so must be rolled back by itself.
fn must(rollback: Rollback, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Completed => false,
        Outcome::Failed { .. } => matches!(rollback, Rollback::OnFailure | Rollback::Always),
        Outcome::Cancelled { .. } => matches!(rollback, Rollback::OnCancel | Rollback::Always),
    }
}
