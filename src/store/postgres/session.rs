use deadpool_postgres::{Object, Pool};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::error::Failed;

/// A value of a statement.
pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// A connection that returns to the pool only when its work is done. One that is dropped within a
/// transaction is closed, which rolls back.
pub(super) struct Session(Option<Object>);

impl Session {
    pub(super) async fn of(pool: &Pool) -> Result<Self, Failed> {
        Ok(Self(Some(pool.get().await.map_err(Failed::pool)?)))
    }

    fn client(&self) -> Result<&Object, Failed> {
        self.0.as_ref().ok_or_else(|| Failed::Before("the connection is closed".into()))
    }

    /// Prepares statements, once for each connection. They are prepared before they are sent, so that
    /// statements sent together run in their order.
    pub(super) async fn prepare<const N: usize>(
        &self,
        texts: [&str; N],
    ) -> Result<[Statement; N], Failed> {
        let client = self.client()?;
        let mut statements = Vec::with_capacity(N);
        for text in texts {
            statements.push(client.prepare_cached(text).await?);
        }
        statements.try_into().map_err(|_| Failed::Before("statements were lost".into()))
    }

    pub(super) async fn query<const N: usize>(
        &self,
        statement: &Statement,
        values: [Value<'_>; N],
    ) -> Result<Vec<Row>, Failed> {
        Ok(self.client()?.query(statement, &values).await?)
    }

    /// With `rows` 0 nothing is sent.
    pub(super) async fn query_for<const N: usize>(
        &self,
        rows: usize,
        statement: &Statement,
        values: [Value<'_>; N],
    ) -> Result<Vec<Row>, Failed> {
        match rows {
            0 => Ok(vec![]),
            _ => self.query(statement, values).await,
        }
    }

    /// Prepares and runs a query.
    pub(super) async fn ask<const N: usize>(
        &self,
        text: &str,
        values: [Value<'_>; N],
    ) -> Result<Vec<Row>, Failed> {
        let [statement] = self.prepare([text]).await?;
        self.query(&statement, values).await
    }

    /// Prepares and runs a statement, and returns the number of rows. With `rows` 0 nothing is sent.
    pub(super) async fn write<const N: usize>(
        &self,
        rows: usize,
        text: &str,
        values: [Value<'_>; N],
    ) -> Result<u64, Failed> {
        if rows == 0 {
            return Ok(0);
        }
        let [statement] = self.prepare([text]).await?;
        Ok(self.client()?.execute(&statement, &values).await?)
    }

    /// Runs statements without values and answers.
    pub(super) async fn run(&self, text: &str) -> Result<(), Failed> {
        Ok(self.client()?.batch_execute(text).await?)
    }

    /// Commits. If this fails, it is unknown whether the transaction happened.
    pub(super) async fn commit(self) -> Result<(), Failed> {
        self.run("COMMIT").await.map_err(Failed::commit)?;
        self.done();
        Ok(())
    }

    /// Returns the connection, which is in no transaction, to the pool.
    pub(super) fn done(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}
