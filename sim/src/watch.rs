//! What the harness itself finds wrong while a seed runs, and where everything is written down.

use std::fmt;
use std::sync::{Arc, Mutex};

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::clock::try_true_now;
use crate::fault::Strikes;
use crate::sync::lock;
use crate::trace::Trace;

/// The polls that a simulated second adds to the budget: idle nodes look around, and a retry may
/// have to be waited for for days.
const WAITING: u64 = 200;
/// The polls that a commit adds to the budget: it is progress, and there are worlds with many tasks.
const COMMIT: u64 = 200;
/// The most that commits add: they may be what goes round and round.
const COMMITS: u64 = 20_000_000;

/// Where one seed writes down what happens. Clones share it.
#[derive(Clone, Debug)]
pub struct Records {
    /// The history and its fingerprint.
    pub trace: Trace,
    /// The faults that struck.
    pub strikes: Strikes,
    /// What the harness itself finds wrong.
    pub watch: Watch,
}

impl Records {
    /// Empty records. `keep` keeps the history's lines; `polls` is the budget of [`Watch::new`].
    #[must_use]
    pub fn new(keep: bool, polls: u64) -> Self {
        Self { trace: Trace::new(keep), strikes: Strikes::default(), watch: Watch::new(polls) }
    }
}

/// Something wrong that no oracle need judge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The seed's budget of polls is used up: tasks wake each other without end.
    Livelock {
        /// The node whose poll was one too many.
        node: String,
        /// The budget.
        polls: u64,
        /// True time.
        at: Mono,
    },
    /// Tasks of a dead incarnation were still there 1 ms after its kill.
    Stragglers {
        /// The node.
        node: String,
        /// The dead incarnation.
        incarnation: u32,
        /// How many tasks.
        tasks: u64,
        /// True time.
        at: Mono,
    },
}

impl Finding {
    /// Whether this means that the seed is stuck.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        matches!(self, Self::Livelock { .. })
    }
}

/// One line for the reader.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Livelock { node, polls, at } => {
                let at = Nanos::new(at.as_nanos());
                write!(f, "stuck: livelock: {node} made poll {polls} of the seed at {at}")
            }
            Self::Stragglers { node, incarnation, tasks, at } => {
                let at = Nanos::new(at.as_nanos());
                write!(f, "{tasks} tasks outlived incarnation {incarnation} of {node} at {at}")
            }
        }
    }
}

/// Counts a seed's polls against its budget and keeps the findings. Clones share it.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: u64,
    seen: Mutex<Seen>,
    alarm: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    polls: u64,
    commits: u64,
    findings: Vec<Finding>,
}

impl Watch {
    /// A watch that allows `polls` polls over all nodes of the seed, and what waiting and commits
    /// take.
    #[must_use]
    pub fn new(polls: u64) -> Self {
        Self(Arc::new(Shared { budget: polls, seen: Mutex::default(), alarm: Notify::new() }))
    }

    /// How many polls there were.
    #[must_use]
    pub fn polls(&self) -> u64 {
        lock(&self.0.seen).polls
    }

    /// What was found, in order.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        lock(&self.0.seen).findings.clone()
    }

    /// Adds a finding.
    pub fn report(&self, finding: Finding) {
        lock(&self.0.seen).findings.push(finding);
        self.0.alarm.notify_one();
    }

    /// Waits for the first finding. One waiter at a time.
    pub async fn alarm(&self) -> Finding {
        loop {
            let first = lock(&self.0.seen).findings.first().cloned();
            match first {
                Some(finding) => return finding,
                None => self.0.alarm.notified().await,
            }
        }
    }

    /// Counts a commit that landed.
    pub(crate) fn landed(&self) {
        lock(&self.0.seen).commits += 1;
    }

    /// Counts a poll of `node` and says whether it may happen. The first beyond the budget is a
    /// finding, and none may happen after it.
    pub(crate) fn admit(&self, node: &str) -> bool {
        let mut seen = lock(&self.0.seen);
        seen.polls += 1;
        if seen.polls <= self.0.budget {
            return true;
        }
        let (polls, at) = (seen.polls, try_true_now().unwrap_or_default());
        let waited = (at.as_nanos() / 1_000_000_000).saturating_mul(WAITING);
        let landed = seen.commits.saturating_mul(COMMIT).min(COMMITS);
        let stuck = seen.findings.iter().any(Finding::is_stuck);
        if !stuck && polls <= self.0.budget.saturating_add(waited).saturating_add(landed) {
            return true;
        }
        drop(seen);
        if !stuck {
            self.report(Finding::Livelock { node: node.to_owned(), polls, at });
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commits_may_be_many_but_not_without_end() {
        let admitted = |commits: u64| {
            let watch = Watch::new(10);
            (0..commits).for_each(|_| watch.landed());
            let most = 10 + (commits * COMMIT).min(COMMITS);
            lock(&watch.0.seen).polls = most - 1;
            assert!(watch.admit("node"), "{commits} commits allow {most} polls");
            assert!(!watch.admit("node"), "and no more");
            watch.findings().len()
        };
        assert_eq!([admitted(0), admitted(7), admitted(COMMITS)], [1, 1, 1]);
    }
}
