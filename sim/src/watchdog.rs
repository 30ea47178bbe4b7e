//! Findings of the harness itself while a seed runs: livelocks, and tasks that outlive their node.

use std::fmt;
use std::sync::{Arc, Mutex};

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::clock::try_true_now;
use crate::sync::lock;

/// The polls that a simulated second is good for besides the budget: idle nodes look around, and a
/// retry may have to be waited for for days. They are not saved up: after years of idleness a
/// livelock would else go on for years of real time.
const WAITING: u64 = 200;
/// The same for a task that a guard holds back: each second it is looked whether its turn has come.
const HELD: u64 = 10;
/// The most tasks that are counted: held attempts get a generous allowance, and a world with more
/// would run too long.
const MOST_HELD: u64 = 1_000;

/// Something wrong that no oracle need judge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The seed's budget of polls is used up: tasks wake each other without end.
    Livelock {
        /// The node that polled once too often.
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
                write!(
                    f,
                    "stuck: livelock: {node} made poll {polls} of the seed at {at}: tasks wake each \
                     other, or are tried again, without end"
                )
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
pub struct Watchdog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: u64,
    seen: Mutex<Seen>,
    alarm: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    polls: u64,
    /// The polls that count against the budget, less what waiting took until `waited`.
    spent: u64,
    /// The simulated second up to which waiting was taken off.
    waited: u64,
    /// How many tasks guards may hold back.
    guarded: u64,
    has_ended: bool,
    findings: Vec<Finding>,
}

impl Seen {
    /// Takes off what waiting until now took.
    fn allow_for_waiting(&mut self, now: Mono) {
        let second = now.as_nanos() / 1_000_000_000;
        let waited =
            second.saturating_sub(self.waited).saturating_mul(WAITING + HELD * self.guarded);
        self.spent = self.spent.saturating_sub(waited);
        self.waited = second;
    }
}

impl Watchdog {
    /// A watch that allows `polls` polls over all nodes of the seed, and what waiting takes.
    #[must_use]
    pub fn new(polls: u64) -> Self {
        Self(Arc::new(Shared { budget: polls, seen: Mutex::default(), alarm: Notify::new() }))
    }

    /// How many polls there were.
    #[must_use]
    pub fn polls(&self) -> u64 {
        lock(&self.0.seen).polls
    }

    /// The findings, in order.
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

    /// Counts a poll of `node` and says whether it may happen. The first beyond the budget is a
    /// finding, and none may happen after it.
    pub(crate) fn admit(&self, node: &str) -> bool {
        let mut seen = lock(&self.0.seen);
        seen.polls += 1;
        seen.spent += 1;
        if seen.spent <= self.0.budget {
            return true;
        }
        if seen.findings.iter().any(Finding::is_stuck) {
            return false;
        }
        let (polls, at) = (seen.polls, try_true_now().unwrap_or_default());
        seen.allow_for_waiting(at);
        if seen.spent <= self.0.budget {
            return true;
        }
        drop(seen);
        self.report(Finding::Livelock { node: node.to_owned(), polls, at });
        false
    }

    /// Allows for so many tasks that guards may hold back.
    pub fn expect_held(&self, tasks: u64) {
        lock(&self.0.seen).guarded = tasks.min(MOST_HELD);
    }

    /// The world has ended and is being judged.
    pub(crate) fn end(&self) {
        lock(&self.0.seen).has_ended = true;
    }

    /// Whether the world has ended, however long it is judged.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.0.seen).has_ended
    }
}
