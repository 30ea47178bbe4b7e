use std::future::Future;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::definitions::{Defined, Definition, StoredDefinition};
pub use super::guards::{GuardRow, Guarding, Hold, Holder, Raised};
use super::letters::{AskLetters, Discarded, LetterRow, Letters, StoredLetter};
use super::listing::{AskRuns, Heads, Listed, Tally};
use super::retention::{Archived, Prune, Pruned};
use crate::run::{Digest, LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;

mod queue;

pub use queue::{
    Claim, ClaimId, Claimed, ClaimedTask, Expired, ExpiredTask, Fence, Heartbeat, Holding,
    QueueChange, QueueRow, QueueState, Renewal, Renewed,
};

/// Durable state. Every method may be called again with the same argument after
/// [`StoreError::Unknown`] and then gives the same effect once.
pub trait Store: Send + Sync + 'static {
    /// The store's time.
    fn clock(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send;

    /// Adds a run. Idempotent on the caller's run id and, where given, on the submission key (X8).
    fn create(&self, create: Create) -> impl Future<Output = Result<Created, StoreError>> + Send;

    /// Reserves due tasks that the claimer can run (X12), earliest first. Uses up nothing: a
    /// reservation that no commit of `AttemptStarted` follows lapses and the task is due again.
    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Claimed, StoreError>> + Send;

    /// Records what happened to one run, all or nothing.
    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Committed, StoreError>> + Send;

    /// Extends leases that their holders still hold, and keeps the progress that heartbeats brought
    /// (X1).
    fn renew(&self, held: Vec<Holding>)
    -> impl Future<Output = Result<Renewed, StoreError>> + Send;

    /// Leases whose end, or whose attempt's deadline, has passed; earliest first. Changes nothing.
    fn expired(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send;

    /// A run's newest snapshot not newer than asked for, and what followed it. With `after`, no
    /// snapshot and only what followed that version; a version that was trimmed away gives the
    /// snapshot after all.
    fn load(
        &self,
        run: RunId,
        after: Option<Version>,
    ) -> impl Future<Output = Result<Option<Loaded>, StoreError>> + Send;

    /// Runs in the order of their ids, from the one after `after`.
    fn heads(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> impl Future<Output = Result<Heads, StoreError>> + Send;

    /// A run's rows in the queue, by task. For recovery and checks.
    fn queue(&self, run: RunId) -> impl Future<Output = Result<Vec<QueueRow>, StoreError>> + Send;

    /// Forgets a run's events below `below`, which must not be above its newest snapshot.
    fn trim(
        &self,
        run: RunId,
        below: Version,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Dead letters in the order of their ids.
    fn letters(&self, ask: AskLetters) -> impl Future<Output = Result<Letters, StoreError>> + Send;

    /// One dead letter.
    fn letter(
        &self,
        id: LetterId,
    ) -> impl Future<Output = Result<Option<StoredLetter>, StoreError>> + Send;

    /// Puts a waiting letter aside for good.
    fn discard(
        &self,
        id: LetterId,
        reason: String,
    ) -> impl Future<Output = Result<Discarded, StoreError>> + Send;

    /// Marks a run that is at rest as archived (A12): no recovery takes it up. A commit that makes
    /// the run active again takes the mark away.
    fn archive(&self, run: RunId) -> impl Future<Output = Result<Archived, StoreError>> + Send;

    /// Removes everything kept of runs that ended long ago, looking at a bounded number of runs.
    fn prune(&self, prune: Prune) -> impl Future<Output = Result<Pruned, StoreError>> + Send;

    /// A page of runs, the newest first.
    fn list(&self, ask: AskRuns) -> impl Future<Output = Result<Listed, StoreError>> + Send;

    /// How many runs there are.
    fn tally(&self) -> impl Future<Output = Result<Tally, StoreError>> + Send;

    /// Every action's guards, by the action's name, for people to see.
    fn guards(&self) -> impl Future<Output = Result<Vec<GuardRow>, StoreError>> + Send;

    /// Keeps a workflow definition under its name, in the place of the one before it.
    fn define(
        &self,
        definition: Definition,
    ) -> impl Future<Output = Result<Defined, StoreError>> + Send;

    /// The newest definition of a name.
    fn definition(
        &self,
        name: String,
    ) -> impl Future<Output = Result<Option<StoredDefinition>, StoreError>> + Send;

    /// Definitions in the order of their names, from the one after `after`.
    fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<StoredDefinition>, StoreError>> + Send;

    /// Ends when another process may have made something due: a hint, which may be false, late or
    /// never come, so whoever waits for it also asks now and then. A store that is told nothing
    /// never ends it.
    fn news(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// What went wrong in a store. All three are infrastructure failures: no attempt is used up (C8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// It may have happened. Send the same bytes again until a definite answer comes.
    #[error("the store's answer was lost, so it is unknown whether it happened: {0}")]
    Unknown(String),
    /// It did not happen. Try again later.
    #[error("the store did not do it: {0}")]
    NotDone(String),
    /// Stored bytes are wrong (spec decision 19). Names the run, or the store.
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
    /// Of workflow and input, to tell a repeated submission from a conflicting one.
    pub digest: Digest,
    /// The workflow's name, for lists.
    pub workflow: String,
    /// The first events, encoded.
    pub events: Vec<Bytes>,
    /// The first queue rows.
    pub queue: Vec<QueueChange>,
    /// The run's phase after those events.
    pub phase: RunPhase,
    /// The dead letter that the run redrives. It must wait, and is marked in the same transaction.
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
    /// The key, or the run's id, was used before for the same workflow and input. What is stored is
    /// that first creation: the events of this one are void.
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
    /// Another run has redriven the letter before.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommitId {
    /// Drawn by the writer when it started.
    pub writer: u64,
    /// Counted up by the writer.
    pub counter: u64,
}

/// Records what happened to one run, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The receipt.
    pub id: CommitId,
    /// The run.
    pub run: RunId,
    /// The version that the events follow.
    pub expect: Version,
    /// Tokens that must still be good.
    pub fences: Vec<Fence>,
    /// The events, encoded.
    pub events: Vec<Bytes>,
    /// What changes in the queue, in order.
    pub queue: Vec<QueueChange>,
    /// Results of tasks that succeeded (W11).
    pub results: Vec<ResultRow>,
    /// Tasks that failed for good (C18).
    #[serde(default)]
    pub letters: Vec<LetterRow>,
    /// The run's phase after the events.
    pub phase: RunPhase,
    /// The state after the events, encoded, when it is time for one.
    pub snapshot: Option<Bytes>,
    /// What the events mean to the guards of actions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guarding>,
    /// The alerts that the events tell, in the order in which `guards` raise them. Where it raises
    /// others it does not land.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<Raised>,
    /// Runs that are added with it, without key or letter, unless they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Create>,
}

/// A successful result, append-only (W11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRow {
    /// The task.
    pub task: TaskId,
    /// The attempt that gave it.
    pub attempt: u32,
    /// JSON text.
    pub result: Bytes,
}

/// A run's phase, as its head in the store says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Work is left.
    Running,
    /// Work is left, and no retry starts until somebody has decided (H17).
    Paused,
    /// Ended well.
    Completed,
    /// Ended by a failure.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Taken out of recovery and claiming (A12).
    Deactivated,
}

impl RunPhase {
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
    /// It landed now.
    Applied {
        /// The run's version after it.
        version: Version,
        /// Store time.
        at: Timestamp,
    },
    /// It had landed before.
    Already {
        /// The run's version after it.
        version: Version,
        /// Store time.
        at: Timestamp,
    },
    /// Others wrote first; this id did not and cannot land.
    Conflict {
        /// What they wrote after the expected version.
        tail: Tail,
        /// Store time.
        at: Timestamp,
    },
    /// Others wrote first, and what they wrote after the expected version was trimmed away: load
    /// the run again. This id did not and cannot land.
    Behind {
        /// Store time.
        at: Timestamp,
    },
    /// Guards hold something back, so nothing landed. A start that is held is not reserved any
    /// more: its task is due again when the guard is to be asked again.
    Held {
        /// Everything that is held.
        holds: Vec<Hold>,
        /// Store time.
        at: Timestamp,
    },
    /// The alerts that it raises are not those that its events tell, so nothing landed.
    Untold {
        /// What its events must tell.
        raised: Vec<Raised>,
        /// Store time.
        at: Timestamp,
    },
    /// A token is not good any more (R7); this id did not and cannot land.
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
    /// All the run's results recorded with or after the first of those events; more do no harm.
    pub results: Vec<ResultRow>,
}

/// A run's state as bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// How many events are folded into it.
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
