//! The seam to durable state, and its implementations.
//!
//! Decides nothing about runs: it keeps what it is given, atomically, and answers with its own
//! time. Must never know policies, workflows or what an event means. To add a store, implement
//! [`Store`] and run the conformance suite (`retrial::store::conformance`) over it; to put something
//! over a store, implement [`Store`], answer the requests that it changes and pass on the others.
//!
//! Three rules hold in every implementation:
//! - a claim is only a reservation; the commit of `AttemptStarted` is the lease;
//! - the receipt of a commit is looked at before its version and its fences, so resending the same
//!   [`Commit`] after [`StoreError::Unknown`] is always right;
//! - durations cross the seam, never instants of a node's clock: the store adds its own time.

#[cfg(feature = "conformance")]
pub mod conformance;
mod definitions;
mod due_index;
mod guards;
mod hold_queue;
mod letters;
mod listing;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
mod queue;
mod records;
#[cfg(feature = "redb")]
pub mod redb;
mod requests;
mod retention;
mod run_index;
mod seam;

#[cfg(feature = "postgres")]
pub use self::postgres::{ConnectError, PostgresOptions, PostgresStore};
#[cfg(feature = "redb")]
pub use self::redb::{OpenError, RedbStore};
pub use definitions::{Defined, Definition, StoredDefinition};
pub use letters::{
    AskLetters, Discarded, LetterFilter, LetterHead, LetterRow, LetterStatus, Letters, StoredLetter,
};
pub use listing::{AskRuns, Heads, Listed, RunCursor, RunFilter, RunHead, Tally};
pub use memory::MemoryStore;
pub use retention::{Archived, Prune, Pruned};
pub use seam::{
    Answer, Claim, ClaimId, Claimed, ClaimedTask, Commit, CommitId, Committed, Create, Created,
    Expired, ExpiredTask, Fence, GuardRow, Guarding, Heartbeat, Hold, Holder, Holding, Loaded,
    QueueChange, QueueRow, QueueState, Raised, Renewal, Renewed, Request, ResultRow, RunPhase,
    Snapshot, Store, StoreError, Tail,
};
