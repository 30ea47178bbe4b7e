use std::collections::BTreeMap;
use std::fmt;

use super::Notice;
use super::format::seconds;
use crate::run::{Cost, Event, RunId, TaskId, TaskTime};

/// Retry statistics, in the terms and layout of the rh_agents document, where an "event" is a task.
/// Takes notices in order; the same notices give the same numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Tasks that have not ended, with the last attempt started of each.
    going: BTreeMap<(RunId, TaskId), u32>,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    retries: u64,
    cost: Cost,
    spent: TaskTime,
}

/// How a task ended.
enum End {
    Succeeded,
    Failed,
    Cancelled,
}

impl Statistics {
    /// Counts a notice.
    pub fn take(&mut self, notice: &Notice<'_>) {
        let run = notice.run;
        match notice.event {
            Event::AttemptStarted { task, attempt, .. } => {
                self.going.insert((run, *task), *attempt);
            }
            Event::TaskSucceeded { task, attempt, spent, .. } => {
                self.spent = self.spent.and(*spent);
                self.end((run, *task), Some(*attempt), &End::Succeeded);
            }
            Event::TaskFailed { task, attempts, spent, .. } => {
                self.spent = self.spent.and(*spent);
                self.end((run, *task), Some(*attempts), &End::Failed);
            }
            Event::CostReported { cost, .. } => self.cost = self.cost.plus(*cost),
            Event::TaskCancelled { task } => self.end((run, *task), None, &End::Cancelled),
            Event::RollbackStarted { .. } | Event::RunEnded { .. } => self.end_run(run),
            _ => {}
        }
    }

    /// Tasks with more than one attempt.
    #[must_use]
    pub fn with_retries(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled + self.unfinished()
    }

    /// Of those, the ones that succeeded.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Of those, the ones that failed for good.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Of those, the ones that were cancelled.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.cancelled
    }

    /// Of those, the ones that have not ended.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.going.values().filter(|attempt| **attempt > 1).count() as u64
    }

    /// The reported cost of all attempts, first ones and retries.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Attempts beyond each task's first.
    #[must_use]
    pub fn retries(&self) -> u64 {
        let going = self.going.values().map(|attempt| u64::from(attempt.saturating_sub(1)));
        self.retries + going.sum::<u64>()
    }

    /// Retries per task with more than one attempt, in tenths, halves rounded up; 0 if there are none.
    #[must_use]
    pub fn average_tenths(&self) -> u64 {
        rounded(self.retries().saturating_mul(10), self.with_retries())
    }

    /// The time of all tasks that succeeded or failed, with or without retries.
    #[must_use]
    pub fn spent(&self) -> TaskTime {
        self.spent
    }

    /// [`Self::spent`] as a tree in the style of the document, which has none.
    pub fn times(&self) -> impl fmt::Display {
        let TaskTime { working, failing, waiting } = self.spent;
        let (working, failing, waiting) = (seconds(working), seconds(failing), seconds(waiting));
        fmt::from_fn(move |f| {
            writeln!(f, "⏱ TIME OF TASKS")?;
            writeln!(f, "├─ Working: {working}")?;
            writeln!(f, "├─ In attempts that failed: {failing}")?;
            writeln!(f, "└─ Waiting to retry: {waiting}")
        })
    }

    fn end(&mut self, key: (RunId, TaskId), attempts: Option<u32>, end: &End) {
        let last = self.going.remove(&key);
        let retries = attempts.or(last).unwrap_or(0).saturating_sub(1);
        if retries == 0 {
            return;
        }
        self.retries += u64::from(retries);
        match end {
            End::Succeeded => self.succeeded += 1,
            End::Failed => self.failed += 1,
            End::Cancelled => self.cancelled += 1,
        }
    }

    /// Tasks that have not ended when the run ends or its rollback starts are cancelled.
    fn end_run(&mut self, run: RunId) {
        let left: Vec<_> = self.going.keys().filter(|key| key.0 == run).copied().collect();
        for key in left {
            self.end(key, None, &End::Cancelled);
        }
    }
}

/// `part / whole` rounded to the nearest, halves up; 0 if `whole` is 0.
fn rounded(part: u64, whole: u64) -> u64 {
    if whole == 0 { 0 } else { (part.saturating_mul(2) + whole) / (whole * 2) }
}

/// The tree of the document. Cancelled tasks, unfinished tasks and costs get additional lines if there
/// are any.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.with_retries();
        let share = |n: u64| format!("{n} ({}%)", rounded(n.saturating_mul(100), of));
        writeln!(f, "📊 RETRY STATISTICS")?;
        writeln!(f, "├─ Total events with retries: {of}")?;
        writeln!(f, "├─ Succeeded after retry: {}", share(self.succeeded))?;
        writeln!(f, "├─ Failed after all retries: {}", share(self.failed))?;
        for (name, n) in [("Cancelled", self.cancelled), ("Still going", self.unfinished())] {
            if n > 0 {
                writeln!(f, "├─ {name} after a retry: {}", share(n))?;
            }
        }
        writeln!(f, "├─ Total retry attempts: {}", self.retries())?;
        if !self.cost.is_zero() {
            writeln!(f, "├─ Cost of all attempts: {}", self.cost)?;
        }
        let tenths = self.average_tenths();
        writeln!(f, "└─ Avg retries per event: {}.{}", tenths / 10, tenths % 10)
    }
}
