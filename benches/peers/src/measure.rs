//! What the server and the clients used.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use retrial_testkit::postgres_server::Server;
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

/// What a phase took, for each job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// Jobs a second.
    pub(crate) per_second: f64,
    /// Transactions of the database.
    pub(crate) transactions: f64,
    /// Bytes of the server's log.
    pub(crate) wal_bytes: f64,
    /// Processor time of the server, in microseconds.
    pub(crate) server_us: f64,
    /// Processor time of the clients, in microseconds.
    pub(crate) client_us: f64,
}

/// What was used until one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    transactions: f64,
    wal: f64,
    server: f64,
    clients: f64,
}

impl Used {
    /// By now. The server must be on this machine.
    pub(crate) async fn now(server: &Server, watcher: &Client, database: &str) -> Result<Self> {
        let transactions = format!(
            "SELECT (xact_commit + xact_rollback)::float8 FROM pg_stat_database \
             WHERE datname = '{database}'"
        );
        Ok(Self {
            transactions: number(watcher, &transactions).await?,
            wal: number(watcher, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").await?,
            server: server_ticks(&server.folder().join("data/postmaster.pid"))?,
            // This process, and those that it has waited for.
            clients: ticks("/proc/self/stat", 11..15),
        })
    }

    /// What was used between, where the work took so many seconds.
    pub(crate) fn until(&self, after: &Self, seconds: f64, jobs: u64) -> Phase {
        let jobs = jobs as f64;
        // A tick is a hundredth of a second, wherever Linux runs.
        let us = |ticks: f64| ticks * 10_000.0 / jobs;
        Phase {
            per_second: jobs / seconds,
            transactions: (after.transactions - self.transactions) / jobs,
            wal_bytes: (after.wal - self.wal) / jobs,
            server_us: us(after.server - self.server),
            client_us: us(after.clients - self.clients),
        }
    }
}

/// The number that a statement gives.
pub(crate) async fn number(client: &Client, text: &str) -> Result<f64> {
    Ok(client.query_one(text, &[]).await?.get(0))
}

/// Fields of a `stat` of `/proc`, counted after the name, summed.
fn ticks(stat: impl AsRef<Path>, fields: Range<usize>) -> f64 {
    let text = std::fs::read_to_string(stat).unwrap_or_default();
    let after = text.rsplit_once(") ").map_or("", |(_, after)| after);
    let fields = after.split(' ').skip(fields.start).take(fields.len());
    fields.filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// The processor time of the server, its processes and those that have ended.
fn server_ticks(pid_file: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(pid_file)?;
    let postmaster = text.lines().next().context("the server's pid file is empty")?;
    let folders = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let children = folders.filter(|folder| {
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, after)| after.split(' ').nth(1));
        parent == Some(postmaster)
    });
    let own = ticks(format!("/proc/{postmaster}/stat"), 11..15);
    Ok(own + children.map(|folder| ticks(folder.join("stat"), 11..13)).sum::<f64>())
}
