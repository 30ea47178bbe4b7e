use std::sync::atomic::{AtomicU64, Ordering};

use deadpool_postgres::Pool;

use super::error::Failed;
use super::layout::nanos;
use super::session::Session;
use crate::runtime::{Runtime as _, TokioRuntime};
use crate::time::{Nanos, Timestamp};

/// How often the answered time is saved in the database, and old claims are forgotten.
const SAVE_EVERY: Nanos = Nanos::from_secs(1);

/// The store's time, never before `$1`. The same as `retrial_now`, which costs five times as much: a
/// function that looks into a table is not made a part of the statement.
pub(super) const NOW: &str =
    "SELECT greatest(retrial_clock() + (SELECT ahead FROM clock), $1::bigint)";
/// If the database's clock was set back, time continues from the last answered time.
pub(super) const RAISE: &str = "UPDATE clock SET ahead = $1 - retrial_clock() \
    WHERE retrial_clock() + ahead < $1";
const SAVE: &str = "UPDATE clock SET seen = $1 WHERE seen < $1";

/// Forgets claims of which nothing is reserved any more. In a transaction of its own, which lasts no
/// longer than the statement: a claim waits for its own writer's row.
const FORGET_CLAIMS: &str = "DELETE FROM claims WHERE writer IN \
    (SELECT writer FROM claims WHERE until <= $1 FOR UPDATE SKIP LOCKED)";

/// Where so many requests shared the last transaction, more are on their way.
const BUSY: usize = 8;
/// How long these are waited for.
const GATHER: Nanos = Nanos::from_millis(1);

/// The database server as all parts of a store share it: the pool, and the store's time.
pub(super) struct Server {
    runtime: TokioRuntime,
    pub(super) pool: Pool,
    /// How long an answer of the server may take.
    patience: Nanos,
    seen: AtomicU64,
    saved: AtomicU64,
    /// The transactions of this store so far.
    pub(super) transactions: AtomicU64,
}

impl Server {
    pub(super) fn new(runtime: TokioRuntime, pool: Pool, patience: Nanos) -> Self {
        Self {
            runtime,
            pool,
            patience,
            seen: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
        }
    }

    /// A connection for one transaction.
    pub(super) async fn session(&self) -> Result<Session, Failed> {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        Session::of(&self.pool).await
    }

    /// Lets requests arrive that may share the next transaction, if `last` shared the one before. A
    /// request that comes alone waits for nobody.
    pub(super) async fn gather(&self, last: usize) {
        if last >= BUSY {
            self.runtime.sleep_until(self.runtime.now().after(GATHER)).await;
        }
    }

    /// Gives `doing` up if the server does not answer in time.
    pub(super) async fn in_time<T, E: From<Failed>>(
        &self,
        doing: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            done = doing => done,
            why = self.too_long() => Err(Failed::Away(why).into()),
        }
    }

    /// Ends when an answer to what is asked now takes too long, and says so.
    pub(super) async fn too_long(&self) -> String {
        self.runtime.sleep_until(self.runtime.now().after(self.patience)).await;
        "PostgreSQL did not answer in time".to_owned()
    }

    /// The latest time that this store has answered. No answer has an earlier one.
    pub(super) fn last_time(&self) -> Timestamp {
        Timestamp::from_nanos(self.seen.load(Ordering::Relaxed))
    }

    /// Records that the database answered `now` when it was asked for a time not before `floor`.
    pub(super) async fn advance_time(&self, now: Timestamp, floor: Timestamp) {
        self.seen.fetch_max(now.as_nanos(), Ordering::Relaxed);
        let saved = self.saved.load(Ordering::Relaxed);
        let is_due = now.since(Timestamp::from_nanos(saved)) >= SAVE_EVERY;
        let may_be_back = now == floor;
        if is_due {
            self.saved.fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
        // Every answer of this store is right without it, so an error is ignored.
        let _ = self.save(now, is_due, may_be_back).await;
    }

    async fn save(&self, now: Timestamp, save: bool, raise: bool) -> Result<(), Failed> {
        if !save && !raise {
            return Ok(());
        }
        let session = self.session().await?;
        let now = nanos(now);
        session.write(usize::from(raise), RAISE, [&now]).await?;
        session.write(usize::from(save), SAVE, [&now]).await?;
        session.write(usize::from(save), FORGET_CLAIMS, [&now]).await?;
        session.done();
        Ok(())
    }
}
