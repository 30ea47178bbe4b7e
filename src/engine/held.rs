//! The attempts that a node holds leases of: from their start until their outcome is durable, or is
//! known to come too late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::action::{Canceller, Reports};
use crate::run::{RunId, TaskId, Token};
use crate::runtime::Task;
use crate::time::{Mono, Nanos};

/// The attempts of one node whose leases it renews.
#[derive(Default)]
pub(super) struct HeldAttempts {
    map: Mutex<BTreeMap<(RunId, TaskId), Held>>,
    /// Woken when one of them is let go or the node begins to close.
    pub(super) changed: Notify,
}

/// An attempt whose lease this node holds.
pub(super) struct Held {
    pub(super) token: Token,
    pub(super) canceller: Canceller,
    pub(super) reports: Reports,
    /// The number of the newest progress that the store has acknowledged.
    pub(super) kept: u64,
    /// Set when the attempt must send heartbeats.
    pub(super) beating: Option<Beating>,
    /// Whether its outcome is there and waits for its commit.
    pub(super) ended: bool,
    pub(super) task: Option<Task>,
}

/// The heartbeats of an attempt.
pub(super) struct Beating {
    /// The longest time between two heartbeats.
    pub(super) limit: Nanos,
    /// When the last one arrived; before the first, when the attempt started.
    pub(super) last: Mono,
}

/// The lease of an attempt, which is renewed until this is dropped: an outcome that waits for its
/// commit is work done, and must not be called lost.
pub(super) struct KeptLease {
    attempts: Arc<HeldAttempts>,
    run: RunId,
    task: TaskId,
    token: Token,
}

impl HeldAttempts {
    pub(super) fn map(&self) -> MutexGuard<'_, BTreeMap<(RunId, TaskId), Held>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the lease of `task` until what this returns is dropped.
    pub(super) fn keep(self: &Arc<Self>, run: RunId, task: TaskId, token: Token) -> KeptLease {
        KeptLease { attempts: Arc::clone(self), run, task, token }
    }
}

impl Drop for KeptLease {
    /// A later attempt of the task may have taken its place; that one stays.
    fn drop(&mut self) {
        let mut map = self.attempts.map();
        let key = (self.run, self.task);
        if map.get(&key).is_some_and(|held| held.token == self.token)
            && let Some(Held { task: Some(spawned), .. }) = map.remove(&key)
        {
            spawned.detach();
        }
        drop(map);
        self.attempts.changed.notify_waiters();
    }
}
