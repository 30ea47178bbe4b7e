//! When the runs of a bench were due, started and ended, as an observer of its nodes sees it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;
use retrial::observe::{Notice, Observer};
use retrial::run::{Event, Outcome, RunId, TaskId};
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::time::{Mono, Nanos};
use tokio::sync::Notify;

/// Watches the runs that it was told of. Durable events count when they are told, so what a figure
/// says has happened can't be lost any more.
pub(super) struct Watch {
    runtime: TokioRuntime,
    bar: ProgressBar,
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Default)]
struct Seen {
    /// The runs that have not ended.
    runs: BTreeMap<RunId, Times>,
    /// When retries are due.
    retries: BTreeMap<(RunId, TaskId), Mono>,
    /// Runs that nobody watches and that wait for a retry.
    pending: u64,
    counted: Counted,
}

struct Times {
    due: Mono,
    started: Option<Mono>,
}

/// What was counted in a round.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Runs that completed.
    pub(super) completed: u64,
    /// Runs that ended otherwise.
    pub(super) failed: u64,
    /// Tasks that ended.
    pub(super) tasks: u64,
    /// From when each attempt was due until its start was durable.
    pub(super) due_to_start: Vec<Nanos>,
    /// From the start of each run's first attempt until its end was durable.
    pub(super) start_to_end: Vec<Nanos>,
    /// When the last run ended.
    pub(super) last_end: Mono,
}

impl Counted {
    fn ended(&self) -> u64 {
        self.completed + self.failed
    }
}

impl Watch {
    pub(super) fn new(runtime: TokioRuntime, bar: ProgressBar) -> Self {
        Self { runtime, bar, seen: Mutex::default(), changed: Notify::new() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a run that is about to be submitted, due at `due`.
    pub(super) fn expect(&self, run: RunId, due: Mono) {
        self.seen().runs.insert(run, Times { due, started: None });
    }

    /// From now on nodes work. The runs before were due, but nobody was there: they are due now.
    pub(super) fn open(&self) -> Mono {
        let now = self.runtime.now();
        self.seen().runs.values_mut().for_each(|times| times.due = now);
        now
    }

    /// Waits until so many runs have ended, and gives what was counted since the last call.
    pub(super) async fn ended(&self, runs: u64) -> Counted {
        self.until(|seen| seen.counted.ended() >= runs).await;
        std::mem::take(&mut self.seen().counted)
    }

    /// Waits until so many runs that nobody watches wait for a retry.
    pub(super) async fn pending(&self, runs: u64) {
        self.until(|seen| seen.pending >= runs).await;
    }

    async fn until(&self, is: impl Fn(&Seen) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is(&self.seen()) {
                return;
            }
            changed.await;
        }
    }
}

impl Seen {
    /// Whether a run has ended, or waits and is not watched.
    fn take(&mut self, now: Mono, notice: &Notice<'_>) -> bool {
        let run = notice.run;
        let Some(times) = self.runs.get_mut(&run) else {
            let waits = matches!(notice.event, Event::RetryScheduled { .. });
            self.pending += u64::from(waits);
            return waits;
        };
        match notice.event {
            Event::AttemptStarted { task, .. } => {
                let due = self.retries.remove(&(run, *task)).unwrap_or(times.due);
                self.counted.due_to_start.push(now.since(due));
                times.started.get_or_insert(now);
            }
            Event::RetryScheduled { task, delay, .. } => {
                self.retries.insert((run, *task), now.after(*delay));
            }
            Event::TaskSucceeded { .. } | Event::TaskFailed { .. } => self.counted.tasks += 1,
            Event::RunEnded { outcome, .. } => {
                let started = times.started.unwrap_or(now);
                self.counted.start_to_end.push(now.since(started));
                self.counted.last_end = now;
                self.runs.remove(&run);
                match outcome {
                    Outcome::Completed => self.counted.completed += 1,
                    Outcome::Failed { .. } | Outcome::Cancelled { .. } => self.counted.failed += 1,
                }
                return true;
            }
            _ => {}
        }
        false
    }
}

impl Observer for Watch {
    fn tell(&self, notice: &Notice<'_>) {
        let now = self.runtime.now();
        if !self.seen().take(now, notice) {
            return;
        }
        self.bar.inc(1);
        self.changed.notify_one();
    }
}
