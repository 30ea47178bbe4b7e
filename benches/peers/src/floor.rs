//! The floor: plain SQL that writes the kind of rows that Retrial writes. All runs are submitted by
//! `COPY` in one transaction. 100 runs share a transaction of the work, over 4 connections; it begins each
//! run in one transaction and ends it in another, as Retrial must.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use retrial_testkit::postgres_server::Server;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::measure::{Phase, Used, number};

/// What it starts from: a run, its creation, its queue row.
const TABLES: &str = "
    CREATE TABLE runs (run uuid PRIMARY KEY, record bytea, sum int, updated bigint, phase int)
        WITH (fillfactor = 70);
    CREATE TABLE events (run uuid, version bigint, event bytea NOT NULL, sum int NOT NULL,
        PRIMARY KEY (run, version));
    CREATE TABLE queue (run uuid, step int, item bigint, attempt int, need text, token uuid,
        until bigint, due bigint, turn bigint, PRIMARY KEY (run, step, item)) WITH (fillfactor = 70);
    CREATE INDEX ON queue (need, due, turn) WHERE due IS NOT NULL;
    CREATE TABLE results (run uuid, place bigint, at bigint, step int, item bigint, attempt int,
        result bytea, sum int, PRIMARY KEY (run, place));";
const RUNS: &str = "
    INSERT INTO runs SELECT gen_random_uuid(), decode(repeat('ab', 150), 'hex'), 1, 0, 0
        FROM generate_series(1, $N);
    INSERT INTO events SELECT run, 0, decode(repeat('cd', 200), 'hex'), 1 FROM runs;
    INSERT INTO queue SELECT run, 0, 0, 1, 'fnothing', NULL, NULL, row_number() OVER (),
        row_number() OVER () FROM runs;";
/// What a submission writes.
const SUBMITTED: [&str; 3] = ["runs", "events", "queue"];
/// Starts 100 attempts in one transaction and ends them in the next.
const START: &str = "
    BEGIN;
    CREATE TEMP TABLE IF NOT EXISTS c (run uuid) ON COMMIT DELETE ROWS;
    WITH t AS MATERIALIZED (SELECT run FROM queue WHERE need = 'fnothing' AND due <= 9999999999
            ORDER BY due, turn LIMIT 100 FOR UPDATE SKIP LOCKED),
        u AS (UPDATE queue q SET due = NULL, token = gen_random_uuid(), until = 5
            WHERE q.run = ANY(ARRAY(SELECT run FROM t)) RETURNING q.run)
    INSERT INTO c SELECT run FROM u;
    INSERT INTO events SELECT run, 1, decode(repeat('ef', 60), 'hex'), 1 FROM c;
    UPDATE runs r SET record = decode(repeat('ab', 160), 'hex'), updated = 1
        WHERE r.run = ANY(ARRAY(SELECT run FROM c));
    CREATE TEMP TABLE IF NOT EXISTS d (run uuid);
    TRUNCATE d; INSERT INTO d SELECT run FROM c;
    COMMIT;";
const END: &str = "
    BEGIN;
    INSERT INTO events SELECT run, 2, decode(repeat('ef', 120), 'hex'), 1 FROM d;
    INSERT INTO results SELECT run, 0, 0, 0, 0, 1, '\\x6e756c6c', 1 FROM d;
    UPDATE runs r SET record = decode(repeat('ab', 170), 'hex'), updated = 2, phase = 1
        WHERE r.run = ANY(ARRAY(SELECT run FROM d));
    DELETE FROM queue q WHERE q.run = ANY(ARRAY(SELECT run FROM d));
    COMMIT;";
/// How many write at once.
const CLIENTS: usize = 4;

/// Submits the runs and works them off.
pub(crate) async fn run(
    server: &Arc<Server>,
    watcher: &Client,
    database: &str,
    runs: u64,
) -> Result<(Phase, Phase)> {
    let client = server.client(database).await;
    client.batch_execute(TABLES).await?;
    let submit = submit(server, watcher, database, runs).await?;
    client.batch_execute("ANALYZE; CHECKPOINT").await?;
    Ok((submit, work(server, watcher, database, runs).await?))
}

/// Copies rows that were written to files before.
async fn submit(
    server: &Arc<Server>,
    watcher: &Client,
    database: &str,
    runs: u64,
) -> Result<Phase> {
    let client = server.client(database).await;
    let all = |doing: &dyn Fn(&str, String) -> String| {
        let file = |table| server.folder().join("data").join(table).display().to_string();
        SUBMITTED.map(|table| doing(table, file(table))).concat()
    };
    client.batch_execute(&RUNS.replace("$N", &runs.to_string())).await?;
    client.batch_execute(&all(&|table, file| format!("COPY {table} TO '{file}';"))).await?;
    client.batch_execute("TRUNCATE runs, events, queue; CHECKPOINT").await?;
    let copies = all(&|table, file| format!("COPY {table} FROM '{file}';"));
    let (before, begun) = (Used::now(server, watcher, database).await?, Instant::now());
    client.batch_execute(&format!("BEGIN; {copies} COMMIT;")).await?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(before.until(&Used::now(server, watcher, database).await?, seconds, runs))
}

async fn work(server: &Arc<Server>, watcher: &Client, database: &str, runs: u64) -> Result<Phase> {
    let (before, begun) = (Used::now(server, watcher, database).await?, Instant::now());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let client = server.client(database).await;
        clients.spawn(async move {
            loop {
                client.batch_execute(START).await?;
                client.batch_execute(END).await?;
                if number(&client, "SELECT count(*)::float8 FROM d").await? == 0.0 {
                    return anyhow::Ok(());
                }
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(before.until(&Used::now(server, watcher, database).await?, seconds, runs))
}
