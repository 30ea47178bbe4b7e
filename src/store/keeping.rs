//! The seam's words for how long runs are kept: archiving (A12) and pruning (X9).

use serde::{Deserialize, Serialize};

use crate::run::RunId;
use crate::time::{Nanos, Timestamp};

/// The answer to an archiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Archived {
    /// It is archived.
    Done {
        /// Since when, store time: the first archiving counts.
        since: Timestamp,
    },
    /// It has work left: only a run that has ended or is deactivated can be archived.
    Active,
    /// There is no such run.
    Unknown,
}

/// Removes what is kept of old runs: events, snapshot, results, queue rows, letters, submission key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prune {
    /// Looks at the runs after this one.
    pub after: Option<RunId>,
    /// The most runs looked at.
    pub limit: usize,
    /// A run goes when it ended at least this long ago.
    pub older_than: Nanos,
    /// Whether only archived runs go.
    pub archived_only: bool,
    /// Whether a run goes although dead letters of it wait for somebody.
    pub with_letters: bool,
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// Store time.
    pub at: Timestamp,
    /// The runs that were removed now.
    pub runs: Vec<RunId>,
    /// Go on after this run; `None` when all were looked at.
    pub next: Option<RunId>,
}
