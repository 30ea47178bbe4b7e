use std::sync::atomic::{AtomicU64, Ordering};

use deadpool_postgres::Pool;

use super::error::Failed;
use super::layout::nanos;
use super::session::Session;
use crate::time::{Nanos, Timestamp};

/// How often the time that was told is kept in the database.
const NOTED: Nanos = Nanos::from_secs(1);

/// Where the database's clock was set back, time goes on from the last that was told.
pub(super) const RAISE: &str = "UPDATE clock SET ahead = $1 - retrial_clock() \
    WHERE retrial_clock() + ahead < $1";
const NOTE: &str = "UPDATE clock SET seen = $1 WHERE seen < $1";

/// What all parts of a store share.
pub(super) struct Shared {
    pub(super) pool: Pool,
    /// How long an answer of the server may take.
    pub(super) patience: Nanos,
    seen: AtomicU64,
    noted: AtomicU64,
}

impl Shared {
    pub(super) fn new(pool: Pool, patience: Nanos) -> Self {
        Self { pool, patience, seen: AtomicU64::new(0), noted: AtomicU64::new(0) }
    }

    /// The last time that was told here. No answer tells an earlier one.
    pub(super) fn floor(&self) -> Timestamp {
        Timestamp::from_nanos(self.seen.load(Ordering::Relaxed))
    }

    /// Takes in that it is `now`, where it was asked for a time not before `floor`.
    pub(super) async fn saw(&self, now: Timestamp, floor: Timestamp) {
        self.seen.fetch_max(now.as_nanos(), Ordering::Relaxed);
        let noted = self.noted.load(Ordering::Relaxed);
        let is_due = now.since(Timestamp::from_nanos(noted)) >= NOTED;
        let may_be_back = now == floor;
        if is_due {
            self.noted.fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
        // Nothing depends on it now: every answer of this store is right without it.
        let _ = self.keep(now, is_due, may_be_back).await;
    }

    async fn keep(&self, now: Timestamp, note: bool, raise: bool) -> Result<(), Failed> {
        if !note && !raise {
            return Ok(());
        }
        let session = Session::of(&self.pool).await?;
        let now = nanos(now);
        session.write(usize::from(raise), RAISE, [&now]).await?;
        session.write(usize::from(note), NOTE, [&now]).await?;
        session.done();
        Ok(())
    }
}
