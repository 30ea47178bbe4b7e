use std::sync::atomic::Ordering;

use super::error::Failed;
use super::session::Session;
use super::{Boxed, PostgresStore};
use crate::store::StoreError;

/// What a store has asked of its server, for benches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUse {
    /// The transactions of this store so far, those that only read and those that were rolled back
    /// among them.
    pub transactions: u64,
    /// The bytes that the whole server has written to its log so far.
    pub wal_bytes: u64,
    /// The server's version.
    pub version: String,
}

impl PostgresStore {
    /// What was used so far. The question itself counts for nothing.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn used(&self) -> Boxed<'_, Result<ServerUse, StoreError>> {
        Box::pin(self.ask_what_was_used())
    }

    async fn ask_what_was_used(&self) -> Result<ServerUse, StoreError> {
        const USED: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, \
            current_setting('server_version')";
        let transactions = self.server.transactions.load(Ordering::Relaxed);
        let asked = async {
            let session = Session::of(&self.server.pool).await?;
            let rows = session.ask(USED, []).await?;
            session.done();
            Ok(rows)
        };
        let rows: Result<_, Failed> = self.server.in_time(asked).await;
        let rows = rows.map_err(StoreError::from)?;
        let (wal, version) = rows.first().map(|row| (row.get(0), row.get(1))).unwrap_or_default();
        Ok(ServerUse { transactions, wal_bytes: i64::cast_unsigned(wal), version })
    }

    /// Removes the schema with everything in it. The store is of no use after that.
    ///
    /// # Errors
    /// If the server does not answer or refuses, such as while another connection holds a lock.
    pub fn drop_schema(&self) -> Boxed<'_, Result<(), StoreError>> {
        Box::pin(self.drop_now())
    }

    async fn drop_now(&self) -> Result<(), StoreError> {
        const DROP: &str = "DO $$ BEGIN \
            EXECUTE format('DROP SCHEMA %I CASCADE', current_schema()); END $$";
        let dropped = async {
            let session = Session::of(&self.server.pool).await?;
            session.run(DROP).await?;
            session.done();
            Ok(())
        };
        let done: Result<(), Failed> = self.server.in_time(dropped).await;
        done.map_err(StoreError::from)
    }
}
