use std::io::{self, ErrorKind};

use redb::{DatabaseError, StorageError};
use serde::de::DeserializeOwned;

use super::super::seam::StoreError;
use crate::run::RunId;

/// Why a store could not be opened. Each error names the place and says what to do. Opening never
/// overwrites a file that it could not read.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is not a Retrial store.
    #[error(
        "`{place}` is not a Retrial store: {why}. It was left as it is; name another place for the \
         store or move this file away."
    )]
    Foreign {
        /// Path or name.
        place: String,
        /// What was seen.
        why: String,
    },
    /// The file is a damaged store.
    #[error(
        "the store `{place}` is damaged: {why}. It was left as it is; put a backup in its place, or \
         move it away to begin with an empty store."
    )]
    Damaged {
        /// Path or name.
        place: String,
        /// What was seen.
        why: String,
    },
    /// Written by a later release.
    #[error(
        "the store `{place}` has format {found}, and this release reads up to format {known}: open \
         it with a newer Retrial."
    )]
    Newer {
        /// Path or name.
        place: String,
        /// The store's format.
        found: u32,
        /// The newest format that this release reads.
        known: u32,
    },
    /// Another process has it open.
    #[error("the store `{place}` is open in another process: stop that one or name another place.")]
    Locked {
        /// Path or name.
        place: String,
    },
    /// The file could not be reached.
    #[error("the store `{place}` can't be opened: {source}.")]
    Io {
        /// Path or name.
        place: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl OpenError {
    /// The error for redb's answer to opening `place`.
    pub(super) fn from_redb(place: &str, error: DatabaseError) -> Self {
        let place = place.to_owned();
        match error {
            DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
                Self::Locked { place }
            }
            DatabaseError::UpgradeRequired(version) => Self::Foreign {
                place,
                why: format!("it has redb's file format {version}, which no Retrial ever wrote"),
            },
            DatabaseError::Storage(error) => Self::from_storage(&place, error),
            other => Self::Damaged { place, why: other.to_string() },
        }
    }

    /// The error for redb's answer to reading `place`, or to creating the store there.
    pub(super) fn from_storage(place: &str, error: impl Into<redb::Error>) -> Self {
        let place = place.to_owned();
        match error.into() {
            redb::Error::Io(source) if !is_damage(source.kind()) => Self::Io { place, source },
            error @ redb::Error::PreviousIo => Self::Io { place, source: io::Error::other(error) },
            other => Self::Damaged { place, why: other.to_string() },
        }
    }

    pub(super) fn damaged(place: &str, why: impl Into<String>) -> Self {
        Self::Damaged { place: place.to_owned(), why: why.into() }
    }
}

/// For a store that was open before and can't be opened again: damage stays, other causes may pass.
impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Foreign { .. } | OpenError::Damaged { .. } | OpenError::Newer { .. } => {
                Self::Broken(error.to_string())
            }
            OpenError::Locked { .. } | OpenError::Io { .. } => Self::NotDone(error.to_string()),
        }
    }
}

/// The error for a failed call inside a transaction, before its commit.
pub(super) fn before_commit(error: StorageError) -> StoreError {
    match error {
        StorageError::Corrupted(why) => StoreError::Broken(format!("the store: {why}")),
        StorageError::Io(e) if is_damage(e.kind()) => StoreError::Broken(format!("the store: {e}")),
        other => StoreError::NotDone(other.to_string()),
    }
}

/// A read past the end or of invalid data is the file's fault, not the disk's.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
}

/// A run's record is damaged.
pub(super) fn broken(run: RunId, what: &str) -> StoreError {
    StoreError::Broken(format!("run {run}: {what}"))
}

pub(super) fn parse<T: DeserializeOwned>(
    run: RunId,
    what: &str,
    value: &[u8],
) -> Result<T, StoreError> {
    serde_json::from_slice(value).map_err(|_| broken(run, what))
}
