//! What nodes report: SQL over a table of their own. A damaged report is left out.

use bytes::Bytes;
use tokio_postgres::Row;

use super::super::reports::{Report, StoredReport};
use super::error::Failed;
use super::layout::{length, nanos, sum, text, time, untext};
use super::server::{NOW, Server};
use super::session::Session;
use crate::time::Timestamp;

const PUT: &str = "INSERT INTO reports (node, body, at, sum) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (node) DO UPDATE SET body = excluded.body, at = excluded.at, sum = excluded.sum";
const FORGET: &str = "DELETE FROM reports WHERE at < $1";
const ALL: &str = "SELECT node, body, at, sum FROM reports ORDER BY node";

/// Stores a report and removes old ones.
pub(super) async fn put(server: &Server, report: &Report) -> Result<(), Failed> {
    let floor = server.last_time();
    let session = server.session().await?;
    session.run("BEGIN").await?;
    let clock = session.ask(NOW, [&nanos(floor)]).await?;
    let now = clock.first().map_or(floor, |row| time(row.get(0)));
    let (node, body, at) = (text(&report.node), &report.body[..], nanos(now));
    let sum = sum_of(&report.node, now, body);
    session.write(1, PUT, [&node, &body, &at, &sum]).await?;
    session.write(1, FORGET, [&(at - length(Report::KEPT))]).await?;
    session.commit().await?;
    server.advance_time(now, floor).await;
    Ok(())
}

/// The reports, by node.
pub(super) async fn all(session: &Session) -> Result<Vec<StoredReport>, Failed> {
    Ok(session.ask(ALL, []).await?.iter().filter_map(read).collect())
}

fn read(row: &Row) -> Option<StoredReport> {
    let (node, body, at) = (untext(row.get(0)).into_owned(), row.get::<_, &[u8]>(1), row.get(2));
    let at = time(at);
    let is_whole = sum_of(&node, at, body) == row.get::<_, i32>(3);
    let report = Report { node, body: Bytes::copy_from_slice(body) };
    is_whole.then_some(StoredReport { report, at })
}

fn sum_of(node: &str, at: Timestamp, body: &[u8]) -> i32 {
    sum("reports", &[node.as_bytes()], &[&nanos(at).to_be_bytes(), body])
}
