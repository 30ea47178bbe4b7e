use serde::{Deserialize, Serialize};

use crate::time::{Nanos, Timestamp};

/// Where a task's time went, from its first attempt's start to its end: the time spent in retries
/// apart from the time spent working. The three add up to all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTime {
    /// In the attempt that succeeded.
    pub working: Nanos,
    /// In attempts that failed.
    pub failing: Nanos,
    /// Between attempts: the delays, and the wait for a node after each.
    pub waiting: Nanos,
}

impl TaskTime {
    /// All of it.
    #[must_use]
    pub fn total(self) -> Nanos {
        self.retrying().saturating_add(self.working)
    }

    /// What retries cost: failed attempts and the time between attempts.
    #[must_use]
    pub fn retrying(self) -> Nanos {
        self.failing.saturating_add(self.waiting)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            working: self.working.saturating_add(other.working),
            failing: self.failing.saturating_add(other.failing),
            waiting: self.waiting.saturating_add(other.waiting),
        }
    }
}

/// A task's time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Watch {
    pub(super) spent: TaskTime,
    /// When the attempt in progress started, or the last one failed. None before the first.
    since: Option<Timestamp>,
}

impl Watch {
    pub(super) const ZERO: Self = Self {
        spent: TaskTime { working: Nanos::ZERO, failing: Nanos::ZERO, waiting: Nanos::ZERO },
        since: None,
    };

    /// An attempt started.
    pub(super) fn start(&mut self, at: Timestamp) {
        self.spent = self.waited(at);
        self.since = Some(at);
        invariant_eq!(self.passed(at), Nanos::ZERO, "the attempt begins now");
    }

    /// The attempt in progress failed.
    pub(super) fn fail(&mut self, at: Timestamp) {
        self.spent = self.failed(at);
        self.since = Some(at);
        invariant_eq!(self.passed(at), Nanos::ZERO, "the wait begins now");
    }

    /// What was spent if the task waited until `at`.
    pub(super) fn waited(&self, at: Timestamp) -> TaskTime {
        TaskTime { waiting: self.spent.waiting.saturating_add(self.passed(at)), ..self.spent }
    }

    /// What was spent if the attempt in progress fails at `at`.
    pub(super) fn failed(&self, at: Timestamp) -> TaskTime {
        TaskTime { failing: self.spent.failing.saturating_add(self.passed(at)), ..self.spent }
    }

    /// What was spent if the attempt in progress succeeds at `at`.
    pub(super) fn succeeded(&self, at: Timestamp) -> TaskTime {
        TaskTime { working: self.passed(at), ..self.spent }
    }

    /// How long the attempt in progress, or the wait, has lasted by `at`.
    pub(super) fn passed(&self, at: Timestamp) -> Nanos {
        self.since.map_or(Nanos::ZERO, |since| at.since(since))
    }
}
