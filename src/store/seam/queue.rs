//! What is asked of the queue: claims, rows, leases, renewals.

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
    /// Repeated with the same id, gives the same answer.
    pub id: ClaimId,
    /// The most tasks wanted.
    pub limit: usize,
    /// How long the reservation holds.
    pub lasts: Nanos,
    /// Chance from which the store makes the tokens.
    pub chance: u64,
    /// What the claimer can run.
    pub able: Arc<Able>,
}

/// The answer to [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Store time.
    pub at: Timestamp,
    /// The reserved tasks.
    pub tasks: Vec<ClaimedTask>,
    /// When the next task is due, if any waits; a reserved one is due at its reservation's end. What
    /// is due already and the claimer can't run does not count.
    pub next_due: Option<Timestamp>,
    /// What is due that the claimer can't run: a few needs, each with the time since when its first
    /// task has been due.
    pub unable: Vec<(Need, Timestamp)>,
}

impl Claimed {
    /// The most needs told of in [`Claimed::unable`].
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
    /// The reservation's token, which becomes the attempt's.
    pub token: Token,
    /// The task's newest progress, from earlier attempts (X1).
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
        /// What the attempt before said last of its progress, where no renewal has brought it.
        progress: Option<Progress>,
    },
    /// The attempt has started: the lease. Replaces any row of the task but for its progress.
    Lease {
        /// The task.
        task: TaskId,
        /// The attempt, from 1.
        attempt: u32,
        /// Its token.
        token: Token,
        /// How long the lease holds unless renewed.
        lasts: Nanos,
        /// How long the attempt may take, if limited: renewals never extend the lease past it.
        timeout: Option<Nanos>,
        /// How long the lease may hold without a heartbeat, if limited (X1): only renewals that
        /// bring one extend it past that.
        heartbeat: Option<Nanos>,
    },
    /// The task needs the queue no more.
    Remove {
        /// The task.
        task: TaskId,
    },
}

impl QueueChange {
    /// The same, a waiting task's row keeping `progress` if that is newer than what it has.
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

/// A row of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    /// The task.
    pub task: TaskId,
    /// The attempt to come or in progress, from 1.
    pub attempt: u32,
    /// Waiting or leased.
    pub state: QueueState,
    /// The newest progress (X1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// Whether a queued task waits or is leased. A reservation counts as waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// Waits until this time.
    Due {
        /// `scheduled_at` (R5).
        at: Timestamp,
        /// What a node must have to run it.
        need: Need,
    },
    /// Under a lease.
    Leased {
        /// `delivery_token` (R7).
        token: Token,
        /// The end of the lease.
        until: Timestamp,
        /// The end of the attempt's time, if limited.
        deadline: Option<Timestamp>,
        /// When the lease ends without a heartbeat, if limited (X1).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beat_by: Option<Timestamp>,
    },
}

/// A lease that its holder wants extended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The run.
    pub run: RunId,
    /// The task.
    pub task: TaskId,
    /// The attempt's token.
    pub token: Token,
    /// How long it shall hold from now.
    pub lasts: Nanos,
    /// The attempt's newest heartbeat, where it must give some.
    pub heartbeat: Option<Heartbeat>,
}

/// A heartbeat as a renewal brings it (X1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// How long from now the lease may hold without another one. A shorter time than is left by
    /// heartbeats before it takes nothing away.
    pub within: Nanos,
    /// The progress given with it, where the store may not have it yet.
    pub progress: Option<Progress>,
}

/// The answer to a renewal, in the order of the question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Store time.
    pub at: Timestamp,
    /// One answer a holding.
    pub answers: Vec<Renewal>,
}

impl Renewed {
    /// Those of `held`, the question, whose holders hold them no more.
    pub fn lost<'h>(&self, held: &'h [Holding]) -> impl Iterator<Item = &'h Holding> {
        let answers = held.iter().zip(&self.answers);
        answers.filter(|(_, answer)| **answer == Renewal::Lost).map(|(holding, _)| holding)
    }
}

/// Whether one lease was extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// It holds.
    Held,
    /// The token is not good any more: stop the work (spec decision 16).
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
