use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use super::guards::{GuardRow, Guarding, Hold, Holder, Raised};
use super::letters::LetterRow;
use crate::run::{Digest, LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;

mod queue;
mod store;

pub use queue::{
    Claim, ClaimId, Claimed, ClaimedTask, Expired, ExpiredTask, Fence, Heartbeat, Holding,
    LeasedTask, QueueChange, QueueRow, QueueState, Renewal, Renewed,
};
pub use store::{Answer, Request, Store};

/// What went wrong in a store. All three are failures of the
/// infrastructure: they use up no attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// It may have happened. Send the same bytes again until a definite answer comes.
    #[error("the store's answer was lost, so it is unknown whether it happened: {0}")]
    Unknown(String),
    /// It did not happen. Try again later.
    #[error("the store did not do it: {0}")]
    NotDone(String),
    /// Stored bytes are wrong. The text names the run, or the store.
    #[error("stored data is damaged: {0}")]
    Broken(String),
}

/// Adds a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    /// The run's id, drawn by the caller.
    pub run: RunId,
    /// The submission's idempotency key.
    pub key: Option<String>,
    /// The digest of workflow and input. A conflicting submission has another.
    pub digest: Digest,
    /// Who creates it. A repeat after a lost answer has the same; another submission of the same run,
    /// though it may begin at the same instant with the same events, has another.
    #[serde(default)]
    pub id: CommitId,
    /// The workflow's name, for lists.
    pub workflow: String,
    /// The fields of the input by which lists find the run, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The first events, encoded.
    pub events: Vec<Bytes>,
    /// The first queue rows.
    pub queue: Vec<QueueChange>,
    /// The run's phase after those events.
    pub phase: RunPhase,
    /// The dead letter that the run redrives. It must be waiting; the same transaction marks it.
    #[serde(default)]
    pub redrives: Option<LetterId>,
}

/// The answer to [`Create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Created {
    /// The run was added, now or by an earlier sending of the same `Create`.
    New {
        /// Store time.
        at: Timestamp,
    },
    /// The key, or the run's id, was used before for the same workflow and input. The store keeps
    /// that first creation and ignores the events of this one.
    Existing {
        /// The first run.
        run: RunId,
        /// Store time.
        at: Timestamp,
    },
    /// The key was used before for another workflow or input.
    KeyConflict {
        /// The first run.
        run: RunId,
    },
    /// Another run already redrives the letter.
    AlreadyRedriven {
        /// That run.
        run: RunId,
    },
    /// The letter was discarded.
    LetterDiscarded,
    /// There is no such letter.
    UnknownLetter,
}

/// Names a commit: the writer's incarnation and its own count, which goes up within a run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CommitId {
    /// The writer's incarnation, drawn when it started.
    pub writer: u64,
    /// The writer's own count.
    pub counter: u64,
}

/// Records what happened to one run, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Names the commit. The store keeps it as the receipt.
    pub id: CommitId,
    /// The run.
    pub run: RunId,
    /// The run's version before the events.
    pub expect: Version,
    /// Tokens that must still be valid.
    pub fences: Vec<Fence>,
    /// The events, encoded.
    pub events: Vec<Bytes>,
    /// What changes in the queue, in order.
    pub queue: Vec<QueueChange>,
    /// Results of tasks that succeeded.
    pub results: Vec<ResultRow>,
    /// Dead letters of tasks that failed and have no retries left.
    #[serde(default)]
    pub letters: Vec<LetterRow>,
    /// The run's phase after the events.
    pub phase: RunPhase,
    /// The state after the events, encoded, if the caller wants a snapshot stored.
    pub snapshot: Option<Bytes>,
    /// What the events change in the guards of actions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guarding>,
    /// The alerts that the events announce, in the order in which `guards` raise them. If the guards
    /// raise other alerts, the commit does not land.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<Raised>,
    /// Runs that the commit adds, without key or letter. A run that exists already stays as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Create>,
}

/// A successful result, append-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRow {
    /// The task.
    pub task: TaskId,
    /// The attempt that returned it.
    pub attempt: u32,
    /// JSON text.
    pub result: Bytes,
}

/// A run's phase, as stored in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Work is left.
    Running,
    /// Work is left, and no retry starts until a person decides.
    Paused,
    /// Ended in success.
    Completed,
    /// Ended by a failure.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Excluded from recovery and claiming.
    Deactivated,
}

impl RunPhase {
    /// Each of them. A place here is part of the stored format: one more goes to the end.
    #[cfg(feature = "postgres")]
    pub(super) const ALL: [Self; 6] = [
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Deactivated,
    ];

    /// Whether nothing can happen any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether the run's due tasks are claimed and recovery takes it up.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

/// The answer to [`Commit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Committed {
    /// The commit landed now.
    Applied {
        /// The run's version after it.
        version: Version,
        /// Store time.
        at: Timestamp,
    },
    /// The commit landed before.
    Already {
        /// The run's version after it.
        version: Version,
        /// Store time.
        at: Timestamp,
    },
    /// Others wrote first. This id did not land and never will.
    Conflict {
        /// What they wrote after the expected version.
        tail: Tail,
        /// Store time.
        at: Timestamp,
    },
    /// Others wrote first, and what they wrote after the expected version was trimmed: load the run
    /// again. This id did not land and never will.
    Behind {
        /// Store time.
        at: Timestamp,
    },
    /// Guards hold something back, so nothing landed. A start that is held loses its reservation:
    /// its task is due again when the guard may be asked again.
    Held {
        /// Everything that is held.
        holds: Vec<Hold>,
        /// Store time.
        at: Timestamp,
    },
    /// The guards raise other alerts than the events announce, so nothing landed.
    Untold {
        /// The alerts that the events must announce.
        raised: Vec<Raised>,
        /// Store time.
        at: Timestamp,
    },
    /// A token is no longer valid. This id did not land and never will.
    Fenced {
        /// The first task whose fence failed.
        task: TaskId,
        /// Store time.
        at: Timestamp,
    },
}

/// Events after some version, and the results that belong to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// The events, encoded, in order.
    pub events: Vec<Bytes>,
    /// All the run's results recorded with or after the first of those events, and perhaps older
    /// ones.
    pub results: Vec<ResultRow>,
}

/// A run's state as bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// How many events it includes.
    pub version: Version,
    /// The encoded state.
    pub state: Bytes,
}

/// What a store keeps of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Store time.
    pub at: Timestamp,
    /// The run's version.
    pub version: Version,
    /// The newest snapshot, unless only a tail was asked for and is whole.
    pub snapshot: Option<Snapshot>,
    /// What followed the snapshot, or the version asked for.
    pub tail: Tail,
}
