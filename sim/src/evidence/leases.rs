//! What was seen beside the histories of leases that ended and of nodes that were shut down.

use retrial::run::{RunId, TaskId, Token};
use retrial::time::{Mono, Timestamp};

/// A lease that a commit of another writer than its holder ended before its time. That is right where
/// the holder was dead.
#[derive(Clone, Copy, Debug)]
pub struct EarlyEnd {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The token of the lease.
    pub token: Token,
    /// Store time of the commit.
    pub at: Timestamp,
    /// The end of the lease, by the store's last answer to its holder.
    pub until: Timestamp,
    /// True time of the commit's answer.
    pub seen: Mono,
}

/// A shutdown in good order that ended before the time for it was over: so everything had ended.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// The node.
    pub node: String,
    /// Its incarnation.
    pub incarnation: u32,
    /// True time at which it was done.
    pub at: Mono,
}
