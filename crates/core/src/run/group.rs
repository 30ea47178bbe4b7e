//! The retry budget that the tasks of one step of one run share among themselves.

use super::{RunState, TaskId};
use crate::failure::Failure;
use crate::guard::Bucket;
use crate::policy::{Budget, BudgetScope};
use crate::time::Timestamp;
use crate::workflow::StepIx;

impl RunState {
    /// The budget that the tasks of one step share among themselves.
    pub(super) fn group_budget(&self, at: StepIx) -> Option<Budget> {
        let budget = self.workflow.retry_budget(at)?;
        (budget.scope == BudgetScope::Group).then_some(*budget)
    }

    /// Whether the step's own budget has enough for a retry after `failure`.
    pub(super) fn group_affords(&self, at: StepIx, failure: &Failure) -> bool {
        let (Some(budget), Some(step)) = (self.group_budget(at), self.steps.get(at.index())) else {
            return true;
        };
        let mut bucket = step.budget;
        bucket.withdraw(&budget, budget.cost_of(failure), self.last_at).is_ok()
    }

    /// A retry that was scheduled was granted: it takes its tokens out of its step's own budget.
    pub(super) fn spend(&mut self, task: TaskId, at: Timestamp) {
        invariant!(self.task(task).is_some(), "only a task that exists is granted a retry");
        let failure = self.task(task).and_then(|t| t.failure.as_deref());
        let granted = self.group_budget(task.step).zip(failure);
        let granted = granted.map(|(budget, failure)| (budget, budget.cost_of(failure)));
        if let (Some((budget, tokens)), Some(bucket)) = (granted, self.bucket(task.step)) {
            let _ = bucket.withdraw(&budget, tokens, at);
        }
    }

    pub(super) fn bucket(&mut self, at: StepIx) -> Option<&mut Bucket> {
        self.steps.get_mut(at.index()).map(|step| &mut step.budget)
    }
}
