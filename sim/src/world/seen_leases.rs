//! The leases that are held, by the store's answers, and those that somebody else ended too early.

use std::collections::BTreeMap;

use retrial::run::{RunId, TaskId, Token};
use retrial::store::{Commit, Fence, Holding, QueueChange, Renewal, Renewed};
use retrial::time::{Nanos, Timestamp};

use crate::clock::true_now;
use crate::evidence::EarlyEnd;

/// The parts of a commit that begin or end leases.
pub(super) struct Changes {
    writer: u64,
    run: RunId,
    ends: Vec<(TaskId, Token)>,
    /// The leases that begin: how long each lasts, and how long its attempt may take.
    begins: Vec<(Token, Nanos, Option<Nanos>)>,
}

impl Changes {
    pub(super) fn of(commit: &Commit) -> Self {
        let token = |fence: &Fence| {
            let (Fence::Held { task, token } | Fence::Lapsed { task, token }) = *fence;
            (task, token)
        };
        // A lease that needs heartbeats may end earlier than its renewals say.
        let begins = commit.queue.iter().filter_map(|change| match change {
            QueueChange::Lease { token, lasts, timeout, heartbeat: None, .. } => {
                Some((*token, *lasts, *timeout))
            }
            _ => None,
        });
        Self {
            writer: commit.id.writer,
            run: commit.run,
            ends: commit.fences.iter().map(token).collect(),
            begins: begins.collect(),
        }
    }
}

/// A lease that is held.
#[derive(Debug)]
struct SeenLease {
    holder: u64,
    until: Timestamp,
    deadline: Option<Timestamp>,
}

impl SeenLease {
    fn extend(&mut self, until: Timestamp) {
        self.until = self.deadline.map_or(until, |deadline| until.min(deadline));
    }
}

/// All leases of a world's store.
#[derive(Debug, Default)]
pub(super) struct SeenLeases {
    held: BTreeMap<Token, SeenLease>,
    early_ends: Vec<EarlyEnd>,
}

impl SeenLeases {
    /// A store that starts again may have lost what it said of leases.
    pub(super) fn forget(&mut self) {
        self.held.clear();
    }

    pub(super) fn early_ends(&self) -> Vec<EarlyEnd> {
        self.early_ends.clone()
    }

    /// The commit has landed now, for the first time.
    pub(super) fn landed(&mut self, changes: &Changes, at: Timestamp) {
        for (task, token) in &changes.ends {
            let Some(lease) = self.held.remove(token) else { continue };
            if lease.holder != changes.writer && at < lease.until {
                let (run, until, seen) = (changes.run, lease.until, true_now());
                let (task, token) = (*task, *token);
                self.early_ends.push(EarlyEnd { run, task, token, at, until, seen });
            }
        }
        for (token, lasts, timeout) in &changes.begins {
            let deadline = timeout.map(|timeout| at.after(timeout));
            let mut lease = SeenLease { holder: changes.writer, until: at, deadline };
            lease.extend(at.after(*lasts));
            self.held.insert(*token, lease);
        }
    }

    pub(super) fn renewed(&mut self, asked: &[Holding], answer: &Renewed) {
        for (holding, renewal) in asked.iter().zip(&answer.answers) {
            let lease = self.held.get_mut(&holding.token);
            if let (Some(lease), Renewal::Held) = (lease, renewal) {
                lease.extend(answer.at.after(holding.lasts));
            }
        }
    }
}
