use std::io;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use super::super::seam::StoreError;

/// Why a store could not be reached or used. Each error says what to do; none contains a password.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address or an option is malformed.
    #[error(
        "the PostgreSQL address can't be used: {why}. It looks like `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require&schema=retrial`."
    )]
    Address {
        /// What is wrong with it.
        why: String,
    },
    /// The root certificates could not be read.
    #[error(
        "the root certificates in `{path}` can't be used: {source}. Name a file of certificates in PEM."
    )]
    Certificates {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The server could not be reached, or refused the login.
    #[error(
        "PostgreSQL at {place} can't be used: {why}. Check that it runs, and user, password, database and sslmode."
    )]
    Server {
        /// Host, port and database.
        place: String,
        /// The answer of the server or the network.
        why: String,
    },
    /// The server has no TLS, and the address demands it or leads to another machine.
    #[error(
        "PostgreSQL at {place} offers no TLS, so passwords and data could be read on the way. Turn on `ssl` on the server. If the network is trusted, add `sslmode=disable` to the address."
    )]
    NoTls {
        /// Host, port and database.
        place: String,
    },
    /// The tables could not be migrated.
    #[error(
        "the tables in schema `{schema}` at {place} can't be brought up to date: {why}. The user needs the right to create them, once; or name a schema of its own."
    )]
    Migration {
        /// Host, port and database.
        place: String,
        /// The schema.
        schema: String,
        /// What the server answered.
        why: String,
    },
    /// A later release has changed the tables.
    #[error(
        "the tables in schema `{schema}` at {place} have version {found}, which needs a release that knows {oldest}, and this one knows {known}: use a newer Retrial."
    )]
    Newer {
        /// Host, port and database.
        place: String,
        /// The schema.
        schema: String,
        /// The tables' version.
        found: i32,
        /// The newest that this release knows.
        known: i32,
        /// The oldest version that a release must know to use these tables.
        oldest: i32,
    },
}

impl ConnectError {
    /// The error for a failed connection to `place`.
    pub(super) fn server(place: String, error: &tokio_postgres::Error) -> Self {
        let why = message_of(error);
        match why.contains("server does not support TLS") {
            true => Self::NoTls { place },
            false => Self::Server { place, why },
        }
    }
}

/// Why requests failed.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    /// Before their commit: it did not happen.
    Before(String),
    /// Another transaction was in the way: it did not happen, and may succeed the next time.
    InTheWay(String),
    /// The server can't be reached, or is overloaded: it did not happen.
    Away(String),
    /// In their commit: it may have happened.
    Commit(String),
}

impl Failed {
    pub(super) fn pool(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Away(message_of(&error)),
            other => Self::Away(other.to_string()),
        }
    }

    /// The same failure, of a commit: it is unknown whether it happened.
    pub(super) fn commit(self) -> Self {
        match self {
            Self::Before(why) | Self::InTheWay(why) | Self::Away(why) | Self::Commit(why) => {
                Self::Commit(why)
            }
        }
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        let why = message_of(&error);
        let in_the_way = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ];
        match error.code() {
            Some(code) if in_the_way.contains(code) => Self::InTheWay(why),
            Some(code) if is_away(code.code()) => Self::Away(why),
            Some(_) => Self::Before(why),
            None => Self::Away(why),
        }
    }
}

/// Whether the server is stopping, takes too long, has no room, or has become a standby. Then no
/// request succeeds alone either.
fn is_away(code: &str) -> bool {
    ["53", "57"].iter().any(|class| code.starts_with(class)) || code == "25006"
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Before(error.to_string())
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Before(why) | Failed::InTheWay(why) | Failed::Away(why) => Self::NotDone(why),
            Failed::Commit(why) => Self::Unknown(why),
        }
    }
}

/// The server's own words, without details, which may show stored values.
pub(super) fn message_of(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(answer) => format!("{} ({})", answer.message(), answer.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
