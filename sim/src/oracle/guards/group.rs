//! The budget that the tasks of one step of one run share. The events of one run have one order, so
//! its tokens are known at each event.

use std::collections::BTreeMap;

use retrial::failure::Failure;
use retrial::policy::{Budget, BudgetScope, GiveUp};
use retrial::run::{Event, TaskId};
use retrial::workflow::StepIx;

use super::{DENIED_WITHOUT_NEED, GROUP, OVER_BUDGET, cost};
use crate::evidence::RunEvidence;
use crate::oracle::Report;
use crate::oracle::history::entries;

const TOKEN: u64 = 1_000_000;

pub(super) fn judge(report: &mut Report, run: &RunEvidence) {
    if run.first.0 > 0 {
        return;
    }
    for step in run.workflow.places() {
        let budget = run.workflow.retry_budget(step);
        if let Some(budget) = budget.filter(|b| b.scope == BudgetScope::Group) {
            of_step(report, run, step, budget);
        }
    }
}

fn of_step(report: &mut Report, run: &RunEvidence, step: StepIx, budget: &Budget) {
    let most = u64::from(budget.capacity) * TOKEN;
    let mut held = (u64::from(budget.initial) * TOKEN).min(most);
    let mut failures: BTreeMap<TaskId, &Failure> = BTreeMap::new();
    let takes = |failure: Option<&&Failure>| {
        failure.map_or(0, |failure| u64::from(cost(budget, failure)) * TOKEN)
    };
    for entry in entries(run).filter(|e| e.event.task().is_some_and(|t| t.step == step)) {
        match entry.event {
            Event::AttemptStarted { attempt: 1, .. } => {
                held = (held + u64::from(budget.refill.ratio.millionths())).min(most);
            }
            Event::AttemptFailed { task, failure, .. } => {
                failures.insert(*task, failure);
            }
            Event::RetryScheduled { task, .. } => {
                let wanted = takes(failures.get(task));
                report.check(held >= wanted, run.id, OVER_BUDGET, || {
                    format!("its group has {held} millionths of a token: {}", entry.show())
                });
                held = held.saturating_sub(wanted);
            }
            Event::TaskFailed { task, reason: GiveUp::RetryBudget, .. } => {
                report.met(GROUP);
                let wanted = takes(failures.get(task));
                report.check(held < wanted, run.id, DENIED_WITHOUT_NEED, || {
                    format!("its group has {held} millionths of a token: {}", entry.show())
                });
            }
            Event::TaskSucceeded { task, attempt, .. } => {
                let back = match failures.get(task) {
                    _ if *attempt == 1 => u64::from(budget.refill.first_success) * TOKEN,
                    last if budget.refill.refund => takes(last),
                    _ => 0,
                };
                held = (held + back).min(most);
            }
            _ => {}
        }
    }
}
