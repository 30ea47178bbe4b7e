//! The inputs that a run's events give to the guards of its actions, and what a guard's refusal does to
//! a batch.

use std::sync::Arc;

use super::World;
use super::lane::Batch;
use super::lanes::Message;
use super::node::Node;
use crate::failure::{Class, ErrorCode, Failure};
use crate::guard::{Ended, GuardInput, GuardRules, HeldBy};
use crate::policy::{Budget, BudgetScope, Denied};
use crate::run::{Event, Input, Recorded, RunState, TaskId, Token};
use crate::runtime::Runtime;
use crate::store::{Guarding, Hold, Holder, QueueChange};
use crate::time::Timestamp;
use crate::workflow::{StepIx, Workflow};

/// The guarded action of each step, by its place; none where its action is not guarded.
#[derive(Clone, Debug, Default)]
pub(super) struct Guarded(Arc<[Option<Named>]>);

/// An action and its rules.
type Named = (String, Arc<GuardRules>);

impl Guarded {
    pub(super) fn of(workflow: &Workflow) -> Self {
        let rules = |at: StepIx| {
            let action = &workflow.step(at)?.action;
            let guard = workflow.actions().get(action).map(|declared| declared.guard.clone());
            // A group's budget is the run's own matter.
            let shared = |budget: &&Budget| budget.scope == BudgetScope::Action;
            let retry_budget = workflow.retry_budget(at).filter(shared).copied();
            let guard = GuardRules { retry_budget, ..guard.unwrap_or_default() };
            (!guard.is_empty()).then(|| (action.clone(), Arc::new(guard)))
        };
        let steps: Vec<_> = workflow.places().map(rules).collect();
        match steps.iter().any(Option::is_some) {
            true => Self(steps.into()),
            false => Self::default(),
        }
    }

    fn get(&self, step: StepIx) -> Option<&Named> {
        self.0.get(step.index())?.as_ref()
    }
}

/// Collects the guard inputs of a commit.
pub(super) struct GuardInputs<'d> {
    pub(super) guarded: &'d Guarded,
    /// The run before the commit.
    pub(super) before: &'d RunState,
    /// What the commit changed in the queue so far.
    pub(super) queue: &'d [QueueChange],
    pub(super) guards: &'d mut Vec<Guarding>,
}

impl GuardInputs<'_> {
    /// Adds what `events`, which `input` led to, mean.
    pub(super) fn add(&mut self, input: &Input, events: &[Recorded]) {
        if self.guarded.0.is_empty() {
            return;
        }
        let mut failed = None;
        for recorded in events {
            match (&recorded.event, input) {
                (Event::AttemptStarted { task, token, attempt: number, .. }, _) => {
                    let (attempt, first) = (self.holder(*task, *token), *number == 1);
                    let waits = |b: &Budget| b.on_denied == Denied::Wait && !first;
                    let tokens = self.tokens(*task, waits);
                    self.push(*task, GuardInput::Admit { attempt, first, tokens });
                }
                (
                    Event::RetryScheduled { task, .. },
                    Input::Failed { token, .. }
                    | Input::Expired { token, .. }
                    | Input::Succeeded { token, .. },
                ) => self.withdraw(*task, *token, failed.take()),
                (Event::TaskSucceeded { task, attempt, .. }, Input::Succeeded { token, .. }) => {
                    let last = self.before.task(*task).and_then(|t| t.failure.as_deref());
                    let budget = self.budget(*task);
                    let refill = budget.map_or(0, |b| b.refill_of_success(*attempt, last));
                    let attempt = self.holder(*task, *token);
                    self.push(*task, GuardInput::Ended { attempt, how: Ended::Well, refill });
                }
                (
                    Event::AttemptFailed { task, failure, .. },
                    Input::Failed { token, .. }
                    | Input::Expired { token, .. }
                    | Input::Succeeded { token, .. },
                ) => {
                    self.end(*task, *token, evidence_of(failure));
                    failed = Some(failure);
                }
                (Event::TaskCancelled { task }, _) => {
                    if let Some(token) = self.token(*task) {
                        self.end(*task, token, Ended::Silently);
                    }
                }
                (Event::RollbackStarted { .. } | Event::RunEnded { .. }, _) => self.end_all(),
                _ => {}
            }
        }
    }

    fn budget(&self, task: TaskId) -> Option<Budget> {
        self.guarded.get(task.step)?.1.retry_budget
    }

    /// What the start of an attempt takes from the budget, where the budget `counts` it.
    fn tokens(&self, task: TaskId, counts: impl Fn(&Budget) -> bool) -> u32 {
        let last = self.before.task(task).and_then(|t| t.failure.as_deref());
        let budget = self.budget(task).filter(counts);
        budget.zip(last).map_or(0, |(budget, failure)| budget.cost_of(failure))
    }

    /// A retry that does not wait for its budget is granted when it is scheduled.
    fn withdraw(&mut self, task: TaskId, token: Token, failure: Option<&Failure>) {
        let budget = self.budget(task).filter(|b| b.on_denied == Denied::Fail);
        if let (Some(budget), Some(failure)) = (budget, failure) {
            let (attempt, tokens) = (self.holder(task, token), budget.cost_of(failure));
            self.push(task, GuardInput::Withdraw { attempt, tokens });
        }
    }

    /// The token of a task that was running before, or that the commit has started.
    fn token(&self, task: TaskId) -> Option<Token> {
        let started = self.queue.iter().rev().find_map(|change| match change {
            QueueChange::Lease { task: other, token, .. } if *other == task => Some(*token),
            _ => None,
        });
        started.or_else(|| self.before.task(task)?.token())
    }

    /// Ends every attempt in progress: the run's end and a rollback call them off. The guard ignores
    /// those that have ended before.
    fn end_all(&mut self) {
        let started = self.queue.iter().filter_map(|change| match change {
            QueueChange::Lease { task, token, .. } => Some((*task, *token)),
            _ => None,
        });
        let running = self.before.tasks().filter_map(|(task, state)| Some((task, state.token()?)));
        let all: Vec<_> = running.chain(started).collect();
        for (task, token) in all {
            self.end(task, token, Ended::Silently);
        }
    }

    fn end(&mut self, task: TaskId, token: Token, how: Ended) {
        let attempt = self.holder(task, token);
        self.push(task, GuardInput::Ended { attempt, how, refill: 0 });
    }

    fn holder(&self, task: TaskId, token: Token) -> Holder {
        Holder { run: self.before.id(), task, token }
    }

    fn push(&mut self, task: TaskId, input: GuardInput<Holder>) {
        let Some((action, rules)) = self.guarded.get(task.step) else { return };
        match self.guards.last_mut() {
            Some(last) if last.action == *action && last.rules == *rules => last.inputs.push(input),
            _ => self.guards.push(Guarding {
                action: action.clone(),
                rules: Arc::clone(rules),
                inputs: vec![input],
            }),
        }
    }
}

/// What a failed attempt shows about its action. An endpoint that rejects bad requests is healthy. An
/// attempt whose lease was lost shows nothing.
fn evidence_of(failure: &Failure) -> Ended {
    match failure.class() {
        _ if failure.code().as_str() == ErrorCode::LEASE_LOST => Ended::Silently,
        Class::Retryable => Ended::Badly,
        Class::Permanent => Ended::Well,
    }
}

/// Whether tasks that wait may be let through once these are folded in.
pub(super) fn frees(guards: &[Guarding]) -> bool {
    guards.iter().flat_map(|g| &g.inputs).any(|input| matches!(input, GuardInput::Ended { .. }))
}

impl<W: World> Node<W> {
    /// Drops the starts that guards hold back from `batch`; a circuit breaker's hold is recorded in
    /// their place. The store has given their reservations up, and the slots go with the messages. A
    /// retry that the budget denies is decided again, knowing that.
    pub(super) fn hold(&self, batch: &mut Batch, holds: &[Hold], at: Timestamp) {
        batch.denied.extend(holds.iter().map(|hold| hold.attempt.token));
        let messages = &mut batch.messages;
        for Hold { attempt: Holder { task, token, .. }, by, until } in holds {
            let is_it = |m: &Message| matches!(m, Message::Claimed(c, _) if c.token == *token);
            let Some(found) = messages.iter().position(is_it) else { continue };
            if let Message::Claimed(claimed, _) = messages.remove(found)
                && *by == HeldBy::Breaker
            {
                let (task, attempt, by, until) = (*task, claimed.attempt, *by, *until);
                batch.holds.push(Input::Held { task, attempt, by, until });
            }
            self.alarm.set(self.runtime.now().after(until.since(at)));
        }
    }
}
