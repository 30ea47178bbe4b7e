//! The budget that the tasks of one step of one run share. The events of one run have one order, so
//! its tokens are known at each event.

use std::collections::BTreeMap;

use retrial::failure::Failure;
use retrial::policy::{Budget, BudgetScope, GiveUp};
use retrial::run::{Event, TaskId};
use retrial::workflow::{StepIx, Workflow};

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
        if let Some(mut tokens) = Tokens::of(&run.workflow, step) {
            of_step(report, run, step, &mut tokens);
        }
    }
}

/// The tokens of a step's budget, in millionths, event after event.
pub(crate) struct Tokens<'e> {
    budget: &'e Budget,
    held: u64,
    /// Whether anything has changed or asked for them.
    is_touched: bool,
    failures: BTreeMap<TaskId, &'e Failure>,
}

impl<'e> Tokens<'e> {
    /// Those that the step begins with; none where its tasks share no budget.
    fn of(workflow: &'e Workflow, step: StepIx) -> Option<Self> {
        let budget = workflow.retry_budget(step).filter(|b| b.scope == BudgetScope::Group)?;
        let held = (u64::from(budget.initial) * TOKEN).min(u64::from(budget.capacity) * TOKEN);
        Some(Self { budget, held, is_touched: false, failures: BTreeMap::new() })
    }

    /// Those that are left after `events`; none if they are as at first.
    pub(crate) fn left(
        workflow: &'e Workflow,
        step: StepIx,
        events: impl Iterator<Item = &'e Event>,
    ) -> Option<u64> {
        let mut tokens = Self::of(workflow, step)?;
        let of_step = |event: &&Event| event.task().is_some_and(|task| task.step == step);
        events.filter(of_step).for_each(|event| tokens.pass(event));
        tokens.is_touched.then_some(tokens.held)
    }

    /// What a retry after the task's last failure takes.
    fn wanted(&self, task: TaskId) -> u64 {
        let failure = self.failures.get(&task);
        failure.map_or(0, |failure| u64::from(cost(self.budget, failure)) * TOKEN)
    }

    fn give(&mut self, millionths: u64) {
        self.held = (self.held + millionths).min(u64::from(self.budget.capacity) * TOKEN);
        self.is_touched = true;
    }

    fn pass(&mut self, event: &'e Event) {
        match event {
            Event::AttemptStarted { attempt: 1, .. } => {
                self.give(u64::from(self.budget.refill.ratio.millionths()));
            }
            Event::AttemptFailed { task, failure, .. } => {
                self.failures.insert(*task, failure);
            }
            Event::RetryScheduled { task, .. } => {
                self.held = self.held.saturating_sub(self.wanted(*task));
                self.is_touched = true;
            }
            Event::TaskSucceeded { task, attempt, .. } => {
                let back = match self.failures.contains_key(task) {
                    _ if *attempt == 1 => u64::from(self.budget.refill.first_success) * TOKEN,
                    true if self.budget.refill.refund => self.wanted(*task),
                    _ => 0,
                };
                if back > 0 {
                    self.give(back);
                }
            }
            _ => {}
        }
    }
}

fn of_step<'e>(report: &mut Report, run: &'e RunEvidence, step: StepIx, tokens: &mut Tokens<'e>) {
    for entry in entries(run).filter(|e| e.event.task().is_some_and(|t| t.step == step)) {
        let held = tokens.held;
        let shown = || format!("its group has {held} millionths of a token: {}", entry.show());
        match entry.event {
            Event::RetryScheduled { task, .. } => {
                report.check(held >= tokens.wanted(*task), run.id, OVER_BUDGET, shown);
            }
            Event::TaskFailed { task, reason: GiveUp::RetryBudget, .. } => {
                report.met(GROUP);
                report.check(held < tokens.wanted(*task), run.id, DENIED_WITHOUT_NEED, shown);
            }
            _ => {}
        }
        tokens.pass(entry.event);
    }
}
