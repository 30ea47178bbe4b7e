//! Which of a node's tasks that are ready is polled first.
//!
//! madsim polls any of them, each as likely as the next. So a mistake that shows only where one task
//! is overtaken by many others is seldom met. With priorities the tasks of a node are strictly
//! ordered, and at a few polls the one that runs becomes the last: "A Randomized Scheduler with
//! Probabilistic Guarantees of Finding Bugs" (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS
//! 2010). Or a task gets another priority for each poll, so that a poll may be overtaken by any
//! number of others: "Partial Order Aware Concurrency Sampling" (Yuan, Yang, Gu, CAV 2018), without
//! its look at what conflicts. Time moves on only when no task is ready, so a low priority delays
//! nothing to a later instant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use serde::{Deserialize, Serialize};

use super::chance::{SplitMix64, mix};
use crate::sync::lock;

/// The order of a node's tasks, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Priorities {
    /// From which the priority of each task is drawn, in the order in which they are spawned.
    pub chance: u64,
    /// The polls of an incarnation, from 1 and in order, at which the task that is polled gets the
    /// lowest priority of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<u64>,
    /// Whether a task gets another priority at each of its polls, for the next one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub anew: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(of: &bool) -> bool {
    !of
}

/// The tasks of one incarnation, ordered by their priorities. Clones are the same ones.
#[derive(Clone, Debug)]
pub(super) struct TaskOrder(Arc<Mutex<Tasks>>);

#[derive(Debug)]
struct Tasks {
    chance: SplitMix64,
    changes: Vec<u64>,
    anew: bool,
    polls: u64,
    spawned: u64,
    /// The priorities of tasks that have not ended, by their number: wakers may outlive a task.
    priorities: BTreeMap<u64, u64>,
    /// Priority and number of those that wait to be polled. The greatest comes first.
    ready: BTreeSet<(u64, u64)>,
}

impl TaskOrder {
    pub(super) fn new(plan: &Priorities, incarnation: u32) -> Self {
        Self(Arc::new(Mutex::new(Tasks {
            chance: SplitMix64::new(mix(plan.chance, u64::from(incarnation))),
            changes: plan.changes.clone(),
            anew: plan.anew,
            polls: 0,
            spawned: 0,
            priorities: BTreeMap::new(),
            ready: BTreeSet::new(),
        })))
    }

    /// A new task, which is ready.
    pub(super) fn add(&self) -> OrderedTask {
        let mut tasks = lock(&self.0);
        tasks.spawned += 1;
        let number = tasks.spawned;
        tasks.give(number);
        tasks.wake(number);
        OrderedTask { order: self.clone(), number }
    }
}

impl Tasks {
    /// Draws a task's priority. Lower ones are for tasks that have lost theirs.
    fn give(&mut self, number: u64) {
        self.priorities.insert(number, self.chance.draw() | 1 << 63);
    }

    fn wake(&mut self, number: u64) {
        if let Some(priority) = self.priorities.get(&number) {
            self.ready.insert((*priority, number));
        }
    }

    /// Whether the task's turn has come: then it is not ready any more, until it is woken.
    fn begins(&mut self, number: u64) -> bool {
        // A poll that nobody asked for counts as asked for.
        self.wake(number);
        match self.ready.last() {
            Some((_, first)) if *first == number => {}
            _ => return false,
        }
        self.ready.pop_last();
        self.polls += 1;
        if self.anew {
            self.give(number);
        }
        if let Some(change) = self.changes.iter().position(|at| *at == self.polls) {
            // Of several that lost theirs, the latest is the last.
            self.priorities.insert(number, (self.changes.len() - change) as u64);
        }
        true
    }

    fn end(&mut self, number: u64) {
        if let Some(priority) = self.priorities.remove(&number) {
            self.ready.remove(&(priority, number));
        }
    }
}

/// A task with its place in the order, until it is dropped.
#[derive(Debug)]
pub(super) struct OrderedTask {
    order: TaskOrder,
    number: u64,
}

impl OrderedTask {
    /// Polls with `poll` if no task that is ready comes before this one. If one does, this one asks
    /// to be polled again.
    pub(super) fn poll(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        if !lock(&self.order.0).begins(self.number) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (order, number, inner) = (self.order.clone(), self.number, context.waker().clone());
        let waker = Waker::from(Arc::new(TaskWaker { order, number, inner }));
        poll(&mut Context::from_waker(&waker))
    }
}

impl Drop for OrderedTask {
    fn drop(&mut self) {
        lock(&self.order.0).end(self.number);
    }
}

/// Wakes a task, and notes that it is ready.
struct TaskWaker {
    order: TaskOrder,
    number: u64,
    inner: Waker,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.order.0).wake(self.number);
        self.inner.wake_by_ref();
    }
}
