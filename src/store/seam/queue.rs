//! The seam's types for the queue: claims, rows, leases, renewals.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::run::{Lapse, Progress, RunId, TaskId, Token};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Need};

/// Names a claim: the writer's incarnation and its own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClaimId {
    /// Drawn by the writer when it started.
    pub writer: u64,
    /// Counted up by the writer.
    pub counter: u64,
}

/// Reserves due tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Names the claim. The same id gets the same answer again.
    pub id: ClaimId,
    /// The most tasks wanted.
    pub limit: usize,
    /// How long the reservation lasts.
    pub lasts: Nanos,
    /// Chance from which the store makes the tokens.
    pub chance: u64,
    /// What the claimer can run.
    pub able: Arc<Able>,
    /// The actions whose tasks are passed over: the claimer has no place for them.
    pub full: BTreeSet<Arc<str>>,
}

impl Claim {
    /// Whether a task that needs `need` may be claimed.
    pub(in crate::store) fn takes(&self, need: &Need) -> bool {
        self.able.can(need) && !self.full.contains(&need.action)
    }
}

/// The answer to [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Store time.
    pub at: Timestamp,
    /// The reserved tasks.
    pub tasks: Vec<ClaimedTask>,
    /// When the next task is due, if any waits. A reserved task is due at its reservation's end. A
    /// task that is due and that the claimer can't run, or has no place for, does not count.
    pub next_due: Option<Timestamp>,
    /// What is due that the claimer can't run: a few needs, each with the due time of its first
    /// task.
    pub unable: Vec<(Need, Timestamp)>,
}

impl Claimed {
    /// The most needs in [`Claimed::unable`].
    pub const MOST_UNABLE: usize = 16;
}

/// A reserved task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// Its run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The attempt to start, from 1.
    pub attempt: u32,
    /// What the claimer must have to run it.
    pub need: Need,
    /// The reservation's token, which becomes the attempt's.
    pub token: Token,
    /// The task's newest progress, from earlier attempts.
    pub progress: Option<Progress>,
}

/// A token that must still be good when a commit lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fence {
    /// The task is reserved or leased under this token.
    Held {
        /// The task.
        task: TaskId,
        /// The token.
        token: Token,
    },
    /// The task is leased under this token and the lease or the attempt's deadline has passed.
    Lapsed {
        /// The task.
        task: TaskId,
        /// The token.
        token: Token,
    },
}

impl Fence {
    /// The task whose token it is.
    #[must_use]
    pub fn task(&self) -> TaskId {
        match *self {
            Self::Held { task, .. } | Self::Lapsed { task, .. } => task,
        }
    }
}

/// One change of the queue. Lengths of time count from the commit, by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueChange {
    /// The task waits for `attempt`, `after` from now. Replaces any row of the task but for newer
    /// progress.
    Due {
        /// The task.
        task: TaskId,
        /// The attempt to come, from 1.
        attempt: u32,
        /// The wait.
        after: Nanos,
        /// What a node must have to run it.
        need: Need,
        /// The previous attempt's last progress, if no renewal has stored it yet.
        progress: Option<Progress>,
    },
    /// The attempt has started: this is its lease. Replaces the task's row and keeps its progress.
    Lease {
        /// The task.
        task: TaskId,
        /// The attempt, from 1.
        attempt: u32,
        /// Its token.
        token: Token,
        /// How long the lease lasts unless renewed.
        lasts: Nanos,
        /// How long the attempt may take, if limited: renewals never extend the lease past it.
        timeout: Option<Nanos>,
        /// How long the lease may last without a heartbeat, if limited: only a renewal with a
        /// heartbeat extends the lease past that.
        heartbeat: Option<Nanos>,
    },
    /// The task leaves the queue.
    Remove {
        /// The task.
        task: TaskId,
    },
}

impl QueueChange {
    /// The same change, with progress for a waiting task's row. The row keeps the newer one.
    #[must_use]
    pub fn with(mut self, come: Option<&Progress>) -> Self {
        if let Self::Due { progress, .. } = &mut self {
            *progress = come.cloned();
        }
        self
    }

    /// The task whose row changes.
    #[must_use]
    pub fn task(&self) -> TaskId {
        match self {
            Self::Due { task, .. } | Self::Lease { task, .. } | Self::Remove { task } => *task,
        }
    }
}

/// A leased task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasedTask {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The token of the lease.
    pub token: Token,
}

/// A row of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    /// The task.
    pub task: TaskId,
    /// The attempt to come or in progress, from 1.
    pub attempt: u32,
    /// Waiting or leased.
    pub state: QueueState,
    /// The newest progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// Whether a queued task waits or is leased. A reservation counts as waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// Waits until this time.
    Due {
        /// The column `scheduled_at`.
        at: Timestamp,
        /// What a node must have to run it.
        need: Need,
    },
    /// Under a lease.
    Leased {
        /// The column `delivery_token`.
        token: Token,
        /// The end of the lease.
        until: Timestamp,
        /// The end of the attempt's time, if limited.
        deadline: Option<Timestamp>,
        /// When the lease ends without a heartbeat, if limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beat_by: Option<Timestamp>,
    },
}

/// A lease that its holder asks to extend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The attempt's token.
    pub token: Token,
    /// How long the lease lasts from now.
    pub lasts: Nanos,
    /// The attempt's newest heartbeat, if it must send heartbeats.
    pub heartbeat: Option<Heartbeat>,
}

/// A heartbeat as part of a renewal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// How long from now the lease may last without another heartbeat. A time shorter than earlier
    /// heartbeats left changes nothing.
    pub within: Nanos,
    /// The attempt's progress, if the store may not have it yet.
    pub progress: Option<Progress>,
}

/// The answer to a renewal, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Store time.
    pub at: Timestamp,
    /// One answer for each holding.
    pub answers: Vec<Renewal>,
}

impl Renewed {
    /// The leases of `held`, the request, that were lost.
    pub fn lost<'h>(&self, held: &'h [Holding]) -> impl Iterator<Item = &'h Holding> {
        let answers = held.iter().zip(&self.answers);
        answers.filter(|(_, answer)| **answer == Renewal::Lost).map(|(holding, _)| holding)
    }
}

/// Whether one lease was extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// The lease holds.
    Held,
    /// The token is no longer valid: stop the work.
    Lost,
}

/// Leases that have passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Store time.
    pub at: Timestamp,
    /// The leases.
    pub tasks: Vec<ExpiredTask>,
    /// When the next lease that has not passed will, unless renewed.
    pub next: Option<Timestamp>,
}

/// A lease that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredTask {
    /// Its run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The attempt's token.
    pub token: Token,
    /// What passed first.
    pub lapse: Lapse,
}
