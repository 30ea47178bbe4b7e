//! The seam to durable state, and its implementations.
//!
//! This room decides nothing about runs: it stores what it is given, atomically, and answers with
//! its own time. It must never know policies, workflows or what an event means.
//!
//! Three rules hold in every store:
//! - A claim is only a reservation. The commit of `AttemptStarted` is the lease.
//! - A store looks at the receipt of a commit before its version and its fences, so it is always
//!   right to send the same `Commit` again after [`StoreError::Unknown`].
//! - Durations cross the seam, never instants of a node's clock. The store adds its own time.
//!
//! To add a store, implement [`Store::ask`] and run the conformance suite
//! (`retrial::store::conformance`) over it. To put a store over another store, answer the requests
//! that it changes, pass the others on, and pass on [`Store::news`]. To add a request, add a row to
//! the table in `seam/store.rs`; the compiler names every store that must answer it.
//!
//! The files, in reading order:
//!
//! | file | decides |
//! | --- | --- |
//! | `seam/store.rs` | what a caller can ask and what a store answers: [`Store`], `Request`, `Answer` |
//! | `seam.rs`, `seam/queue.rs` | the types that those carry |
//! | `letters.rs`, `listing.rs` | the types for dead letters, and for lists and counts of runs |
//! | `requests.rs` | what a store does with each request, whatever it keeps its records on |
//! | `retention.rs`, `definitions.rs`, `reports.rs` | the same for dead letters, archiving and pruning, for workflow definitions, and for what nodes report |
//! | `guards.rs` | what a commit does to the guards of actions, and which commits they hold back |
//! | `records.rs` | the trait through which those files read and write records |
//! | `queue.rs`, `queue/row.rs`, `queue/task_rows.rs`, `queue/restored.rs` | claims, leases and renewals, on queue rows in memory |
//! | `queue/row_transfer.rs` | how queue rows move between memory and a database that other nodes use |
//! | `due_index.rs`, `hold_queue.rs` | which row is due next, which lease ends next, which tasks a guard holds back |
//! | `run_index.rs` | the order of runs in lists, and their counts |
//! | `interner.rs` | one copy of what many rows or runs have in common |
//! | `memory.rs` | the store in memory |
//! | `dyn_store.rs` | any store behind one type |
//! | `redb/` | the store on one redb file |
//! | `postgres/` | the store on PostgreSQL, for many nodes |
//! | `conformance/` | the suite that every store passes |

#[cfg(feature = "unstable")]
pub mod conformance;
mod definitions;
mod due_index;
mod dyn_store;
mod guards;
mod hold_queue;
mod interner;
mod letters;
mod listing;
mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
mod queue;
mod records;
#[cfg(feature = "redb")]
pub mod redb;
mod reports;
mod requests;
mod retention;
mod run_index;
mod seam;

#[cfg(feature = "postgres")]
pub use self::postgres::{ConnectError, PostgresOptions, PostgresStore};
#[cfg(feature = "redb")]
pub use self::redb::{OpenError, RedbStore};
pub use dyn_store::DynStore;
pub use letters::{AskLetters, LetterFilter, LetterHead, LetterStatus, Letters, StoredLetter};
pub use listing::{AskRuns, Heads, Listed, RunCursor, RunFilter, RunHead, Stranded, Tally};
pub use memory::MemoryStore;
pub use retention::{Prune, Pruned};
pub use seam::{RunPhase, Store, StoreError};

unstable! {
    use retention::{Archived};
    use letters::{LetterRow, Discarded};
    use definitions::{Defined, Definition, StoredDefinition};
    use reports::{Report, StoredReport};
    use seam::{Answer, Claim, ClaimId, Claimed, ClaimedTask, Commit, CommitId, Committed, Create, Created, Expired, ExpiredTask, Fence, GuardRow, Guarding, Heartbeat, Hold, Holder, Holding, LeasedTask, Loaded, QueueChange, QueueRow, QueueState, Raised, Renewal, Renewed, Request, ResultRow, Snapshot, Tail};
}
