//! What retries did to the timing of a parallel group.

use super::{Event, Recorded, TaskId};
use crate::time::{Nanos, Timestamp};
use crate::workflow::StepIx;

/// How long a step's tasks took together, and how much of it was retries. A pure function of the
/// run's events, for whoever shows them: statistics, a page, a trace.
///
/// The task that ended last is the group's critical path: `took` is exactly the sum of its
/// `working`, `delayed` and `waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTiming {
    /// From the step's beginning until its last task's end.
    pub took: Nanos,
    /// The item whose task ended last; of several the first by item.
    pub slowest: u32,
    /// What the slowest task spent in attempts.
    pub working: Nanos,
    /// What it spent in retry delays.
    pub delayed: Nanos,
    /// What it spent due, with no attempt started yet.
    pub waiting: Nanos,
    /// When the group would have ended had each task ended with its first attempt.
    pub without_retries: Nanos,
    /// Retries of all tasks.
    pub retries: u32,
}

/// One task of the group so far.
#[derive(Clone, Copy)]
struct Branch {
    since: Timestamp,
    at: At,
    first_end: Option<Timestamp>,
    ended: Option<Timestamp>,
    working: Nanos,
    delayed: Nanos,
    waiting: Nanos,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Work,
    Delay(Nanos),
    Due,
}

impl GroupTiming {
    /// The timing of `step` by a run's `events`; `None` where they do not hold its beginning, it
    /// has no task, or a task of it has not ended.
    #[must_use]
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Recorded>, step: StepIx) -> Option<Self> {
        let mut began = None;
        let mut branches: Vec<Branch> = Vec::new();
        let mut retries = 0_u32;
        for Recorded { at, event } in events {
            match event {
                Event::StepEntered { step: entered, tasks } if *entered == step => {
                    began = Some(*at);
                    branches = vec![Branch::new(*at); *tasks as usize];
                }
                _ => {
                    let task = event.task().filter(|task| task.step == step);
                    let Some(TaskId { item, .. }) = task else { continue };
                    branches.get_mut(item as usize)?.follow(event, *at);
                    let again = matches!(event, Event::RetryScheduled { .. });
                    retries = retries.saturating_add(u32::from(again));
                }
            }
        }
        let ends: Option<Vec<Timestamp>> = branches.iter().map(|b| b.ended).collect();
        let (began, ends) = (began?, ends?);
        let end = ends.iter().copied().max()?;
        let (slowest, branch) = (0..).zip(&branches).find(|(_, b)| b.ended == Some(end))?;
        let first = branches.iter().filter_map(|b| b.first_end.or(b.ended)).max()?;
        Some(Self {
            took: end.since(began),
            slowest,
            working: branch.working,
            delayed: branch.delayed,
            waiting: branch.waiting,
            without_retries: first.since(began),
            retries,
        })
    }
}

impl Branch {
    fn new(since: Timestamp) -> Self {
        let zero = Nanos::ZERO;
        Self {
            since,
            at: At::Due,
            first_end: None,
            ended: None,
            working: zero,
            delayed: zero,
            waiting: zero,
        }
    }

    fn follow(&mut self, event: &Event, at: Timestamp) {
        self.pass(at);
        self.at = match event {
            Event::AttemptStarted { .. } => At::Work,
            Event::RetryScheduled { delay, .. } => At::Delay(*delay),
            Event::AttemptFailed { .. } => {
                self.first_end.get_or_insert(at);
                At::Due
            }
            Event::TaskSucceeded { .. }
            | Event::TaskFailed { .. }
            | Event::TaskCancelled { .. } => {
                self.ended = Some(at);
                At::Due
            }
            _ => self.at,
        };
    }

    /// Counts the time until `at` as what it was spent on.
    fn pass(&mut self, at: Timestamp) {
        let length = at.since(self.since);
        let (working, delayed) = match self.at {
            At::Work => (length, Nanos::ZERO),
            At::Delay(delay) => (Nanos::ZERO, length.min(delay)),
            At::Due => (Nanos::ZERO, Nanos::ZERO),
        };
        let rest = length.get() - working.get() - delayed.get();
        self.working = self.working.saturating_add(working);
        self.delayed = self.delayed.saturating_add(delayed);
        self.waiting = self.waiting.saturating_add(Nanos::new(rest));
        self.since = at;
    }
}
