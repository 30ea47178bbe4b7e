//! The errors that branches pass on: those that no success has cleared, and those that no edge
//! catches.

use std::collections::BTreeSet;

use retrial::failure::ErrorContext;
use retrial::run::{Event, RouteCause, RunId, TaskId};
use retrial::workflow::{StepIx, Template, Workflow};
use serde_json::{Value, json};

use super::attempt_records::AttemptRecords;
use super::history::is_bare;
use super::step_outcomes::StepOutcomes;
use super::{GATHERED, Report};

/// A step was not given the errors of the branches that lead to it.
pub const ERRORS_MISGATHERED: &str = "errors_misgathered";

impl StepOutcomes<'_> {
    /// The failed steps with errors that are not cleared once the step has ended.
    fn carried(&self, workflow: &Workflow, step: StepIx) -> BTreeSet<StepIx> {
        self.kept(workflow, vec![step])
    }

    /// The failed steps with errors that reach the step.
    fn inherited(&self, workflow: &Workflow, step: StepIx) -> BTreeSet<StepIx> {
        self.kept(workflow, self.before(workflow, step))
    }

    /// The failed steps among these and before them, with no success between.
    fn kept(&self, workflow: &Workflow, mut next: Vec<StepIx>) -> BTreeSet<StepIx> {
        let (mut seen, mut failed) = (BTreeSet::new(), BTreeSet::new());
        while let Some(step) = next.pop() {
            if !self.is_lost(step) || !seen.insert(step) {
                continue;
            }
            next.extend(self.before(workflow, step));
            if self.failed.contains_key(&step) {
                failed.insert(step);
            } else {
                let edges = workflow.transitions().iter().filter(|t| t.to == step);
                next.extend(edges.map(|t| t.from));
            }
        }
        failed
    }

    fn before(&self, workflow: &Workflow, step: StepIx) -> Vec<StepIx> {
        let after = workflow.step(step).map(|s| s.after.clone()).unwrap_or_default();
        after.into_iter().chain(self.caught(step)).collect()
    }

    /// The steps with failures that were routed to the step, in that order.
    fn caught(&self, step: StepIx) -> Vec<StepIx> {
        let failures = self.routed.iter().filter(|(_, _, _, c)| *c == RouteCause::Failure);
        failures.filter(|(_, _, to, _)| *to == step).map(|(_, from, _, _)| *from).collect()
    }

    /// `_errors` where the step is entered.
    pub(super) fn errors_at(&self, workflow: &Workflow, step: StepIx) -> Option<Value> {
        self.listed(workflow, &self.inherited(workflow, step))
    }

    /// `_errors` for the edges of a step that failed.
    pub(super) fn errors_of_failed(&self, workflow: &Workflow, step: StepIx) -> Option<Value> {
        self.listed(workflow, &self.carried(workflow, step))
    }

    /// `_last_error` where the step is entered: the last that was routed to it; at a join that can
    /// do without some, the last to fail of those that it sees.
    pub(super) fn last_at(&self, workflow: &Workflow, step: StepIx) -> Option<Value> {
        let joins = workflow.step(step).is_some_and(|s| !s.join.is_all());
        let seen = if joins { self.inherited(workflow, step) } else { BTreeSet::new() };
        let latest = seen.into_iter().max_by_key(|s| self.failed.get(s).map(|(e, _)| e.number));
        let (_, error) = self.failed.get(&self.caught(step).pop().or(latest)?)?;
        serde_json::to_value(error).ok()
    }

    /// Their records: by step in text order, then by item; a step's own where it has no task's.
    fn listed(&self, workflow: &Workflow, steps: &BTreeSet<StepIx>) -> Option<Value> {
        let mut list = Vec::new();
        for step in steps {
            let fans_out = workflow.step(*step).is_some_and(|s| s.for_each.is_some());
            let of_step = self
                .tasks
                .range(TaskId { step: *step, item: 0 }..=TaskId { step: *step, item: u32::MAX });
            let failed: Vec<Value> = of_step
                .filter_map(|(task, entry)| match entry.event {
                    Event::TaskFailed { error, .. } => {
                        Some(record(error, fans_out.then_some(task.item)))
                    }
                    _ => None,
                })
                .collect();
            match self.failed.get(step) {
                Some((_, error)) if failed.is_empty() => list.push(record(error, None)),
                _ => list.extend(failed),
            }
        }
        (!list.is_empty()).then_some(Value::Array(list))
    }

    /// Whether a join that can do without the step judges its failure: one that waits or was
    /// entered, with nothing but what the failure rules out between.
    pub(super) fn is_taken_in(&self, workflow: &Workflow, step: StepIx) -> bool {
        let (mut seen, mut ways) = (BTreeSet::new(), vec![step]);
        while let Some(step) = ways.pop() {
            for to in workflow.places() {
                let Some(next) = workflow.step(to) else { continue };
                let after = next.after.contains(&step);
                let led = workflow.transitions().iter().any(|t| t.from == step && t.to == to);
                let out = self.unreachable.contains(&to) || self.skipped.contains(&to);
                if after && !next.join.is_all() && !out {
                    return true;
                }
                let through = self.unreachable.contains(&to) || !self.is_settled(to);
                let entered = self.entered.contains_key(&to);
                if (after || led) && through && !entered && seen.insert(to) {
                    ways.push(to);
                }
            }
        }
        false
    }

    /// Whether each attempt was sent the errors that its step sees.
    pub(super) fn gathered(
        &self,
        report: &mut Report,
        run: RunId,
        workflow: &Workflow,
        ledger: &AttemptRecords<'_>,
    ) {
        for (step, (entry, count)) in &self.entered {
            let Some(name) = workflow.step(*step).and_then(|s| asks(&s.args)) else { continue };
            if is_bare(workflow, *step) {
                continue;
            }
            let right = self.errors_at(workflow, *step).unwrap_or_default();
            for item in 0..*count {
                for arrival in ledger.arrivals(run, TaskId { step: *step, item }, 1) {
                    let body: Value = serde_json::from_slice(&arrival.body).unwrap_or_default();
                    report.met(GATHERED);
                    report.check(body[&name] == right, run, ERRORS_MISGATHERED, || {
                        let sent = body[&name].as_array().map_or(0, Vec::len);
                        let count = right.as_array().map_or(0, Vec::len);
                        format!("{sent} errors sent where {count} are right: {}", entry.show())
                    });
                }
            }
        }
    }
}

/// The argument that is all errors.
fn asks(args: &Template) -> Option<String> {
    let fields = args.raw().as_object()?;
    fields.iter().find(|(_, v)| **v == json!("${_errors}")).map(|(name, _)| name.clone())
}

fn record(error: &ErrorContext, item: Option<u32>) -> Value {
    let mut value = serde_json::to_value(error).unwrap_or_default();
    if let Some(item) = item {
        value["item"] = json!(item);
    }
    value
}
