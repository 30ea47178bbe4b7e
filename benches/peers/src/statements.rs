//! The statements that the server spent the most time on.

use anyhow::Result;
use tokio_postgres::Client;

/// The setting that the server counts them with.
pub(crate) const SETTING: (&str, &str) = ("shared_preload_libraries", "pg_stat_statements");

const TEXT: &str = "SELECT calls::float8, total_exec_time, wal_bytes::float8, query
    FROM pg_stat_statements s
    JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()
    ORDER BY total_exec_time DESC LIMIT 24";

/// Counts from now on.
pub(crate) async fn reset(client: &Client) -> Result<()> {
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await?;
    Ok(client.batch_execute("SELECT pg_stat_statements_reset()").await?)
}

/// A line each: calls and time for each job, bytes of log, the text's beginning.
pub(crate) async fn lines(client: &Client, jobs: u64) -> Result<Vec<String>> {
    let jobs = jobs as f64;
    let rows = client.query(TEXT, &[]).await?;
    let line = |row: &tokio_postgres::Row| {
        let (calls, ms, wal): (f64, f64, f64) = (row.get(0), row.get(1), row.get(2));
        let words: Vec<&str> = row.get::<_, &str>(3).split_whitespace().collect();
        let text: String = words.join(" ").chars().take(90).collect();
        let (calls, us, wal) = (calls / jobs, ms * 1e3 / jobs, wal / jobs);
        format!("    {calls:6.3} calls {us:6.1} us {wal:6.0} B of WAL  {text}")
    };
    Ok(rows.iter().map(line).collect())
}
