//! How a run's steps ended, by its events alone.

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::{ErrorContext, Failure};
use retrial::run::{Event, Outcome, RouteCause, TaskId};
use retrial::workflow::{Quorum, StepIx, Workflow};

use super::history::{Entry, TaskHistory};

/// How the run's steps ended.
#[derive(Default)]
pub(super) struct StepOutcomes<'e> {
    pub(super) entered: BTreeMap<StepIx, (Entry<'e>, u32)>,
    pub(super) succeeded: BTreeMap<StepIx, Entry<'e>>,
    pub(super) failed: BTreeMap<StepIx, (Entry<'e>, &'e ErrorContext)>,
    pub(super) unreachable: BTreeSet<StepIx>,
    pub(super) skipped: BTreeSet<StepIx>,
    /// Which event ruled a step out that too few of its `after` could still do well for.
    ruled_out: BTreeMap<StepIx, u64>,
    pub(super) routed: Vec<(Entry<'e>, StepIx, StepIx, RouteCause)>,
    pub(super) cancelled: Option<Entry<'e>>,
    pub(super) rolls_back: Option<(Entry<'e>, &'e Outcome)>,
    pub(super) ended: Option<(Entry<'e>, &'e Outcome)>,
    pub(super) tasks: BTreeMap<TaskId, Entry<'e>>,
    /// How many tasks of each step succeeded.
    pub(super) well: BTreeMap<StepIx, usize>,
    /// The first failure for good of each step, with the attempt's failure.
    pub(super) first_failure: BTreeMap<StepIx, Option<&'e Failure>>,
}

impl<'e> StepOutcomes<'e> {
    pub(super) fn fold(
        &mut self,
        workflow: &Workflow,
        entry: &Entry<'e>,
        tasks: &[TaskHistory<'e>],
    ) {
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
                if self.is_barred(workflow, *step) {
                    self.ruled_out.insert(*step, entry.number);
                }
                self.unreachable.insert(*step);
            }
            Event::StepSkipped { step } => {
                self.skipped.insert(*step);
            }
            Event::Routed { from, to, cause } => self.routed.push((*entry, *from, *to, *cause)),
            Event::CancelRequested { .. } => self.cancelled = Some(*entry),
            Event::RollbackStarted { outcome } => self.rolls_back = Some((*entry, outcome)),
            Event::RunEnded { outcome } => self.ended = Some((*entry, outcome)),
            Event::TaskFailed { task, .. } => {
                self.tasks.insert(*task, *entry);
                self.first_failure.entry(task.step).or_insert_with(|| last_failure(tasks, *task));
            }
            Event::TaskSucceeded { task, .. } => {
                self.tasks.insert(*task, *entry);
                *self.well.entry(task.step).or_default() += 1;
            }
            Event::TaskCancelled { task } => {
                self.tasks.insert(*task, *entry);
            }
            _ => {}
        }
    }

    /// The ends of a step's tasks, if all have ended.
    pub(super) fn ended_tasks(&self, step: StepIx) -> Option<Vec<Entry<'e>>> {
        let (_, count) = self.entered.get(&step)?;
        (0..*count).map(|item| self.tasks.get(&TaskId { step, item }).copied()).collect()
    }

    pub(super) fn taken(&self, from: StepIx, cause: RouteCause) -> Vec<StepIx> {
        let out = self.routed.iter().filter(|(_, f, _, c)| *f == from && *c == cause);
        out.map(|(_, _, to, _)| *to).collect()
    }

    /// Whether so much before the step was lost that too few of its `after` can do well.
    fn is_barred(&self, workflow: &Workflow, step: StepIx) -> bool {
        workflow.step(step).is_some_and(|definition| {
            let after = &definition.after;
            let left = after.iter().filter(|s| !self.is_lost(**s)).count();
            left < needed(definition.join, after.len())
        })
    }

    /// Whether a failure could still lead to the step when `entry` came. As long as a step that has
    /// an edge to it is at work, nothing but its `after` rules it out.
    pub(super) fn was_open(&self, step: StepIx, entry: &Entry<'e>) -> bool {
        self.ruled_out.get(&step).is_none_or(|number| *number > entry.number)
    }

    /// Whether the step was entered through a failure edge.
    pub(super) fn is_handler(&self, step: StepIx, ended: &Entry<'e>) -> bool {
        self.routed.iter().any(|(e, _, to, cause)| {
            *to == step && *cause == RouteCause::Failure && e.number < ended.number
        })
    }

    /// Whether the step has ended, been ruled out or been passed by.
    pub(super) fn is_settled(&self, step: StepIx) -> bool {
        self.succeeded.contains_key(&step) || self.skipped.contains(&step) || self.is_lost(step)
    }

    /// Whether something before the step is still open, through what a failure or a choice ruled out.
    pub(super) fn has_open_before(&self, workflow: &Workflow, step: StepIx) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![step]);
        while let Some(step) = next.pop() {
            let after = workflow.step(step).into_iter().flat_map(|s| s.after.iter().copied());
            let edges = workflow.transitions().iter().filter(|t| t.to == step).map(|t| t.from);
            for before in after.chain(edges) {
                if !self.is_settled(before) {
                    return true;
                }
                if seen.insert(before) {
                    next.push(before);
                }
            }
        }
        false
    }

    /// Whether a failure keeps what depends on the step from its result.
    pub(super) fn is_lost(&self, step: StepIx) -> bool {
        self.failed.contains_key(&step) || self.unreachable.contains(&step)
    }

    /// Whether nothing that its tasks still do changes how the step ends under `success`.
    pub(super) fn is_decided(&self, step: StepIx, success: Quorum) -> bool {
        let count = self.entered.get(&step).map_or(0, |(_, n)| *n as usize);
        let ended = self.tasks.keys().filter(|t| t.step == step).count();
        let (well, needed) = (self.well.get(&step).copied().unwrap_or(0), needed(success, count));
        well >= needed || well + count.saturating_sub(ended) < needed
    }
}

/// How many of `count` must succeed.
pub(super) fn needed(quorum: Quorum, count: usize) -> usize {
    match quorum {
        Quorum::All => count,
        Quorum::Any => 1,
        Quorum::AtLeast(k) => k.get() as usize,
    }
}

fn last_failure<'e>(tasks: &[TaskHistory<'e>], task: TaskId) -> Option<&'e Failure> {
    let history = tasks.iter().find(|t| t.task == task)?;
    history.failed().pop().map(|f| f.failure)
}
