//! Runs of one step that does nothing, submitted before and then worked off by one node on
//! PostgreSQL, beside plain SQL that writes the same kind of rows in batches. Rounds are interleaved
//! on one private server that waits for the disk.
//!
//! ```text
//! cargo run --release -p retrial-testkit --example worked_off -- [RUNS] [ROUNDS] [PLACES] [sole|shared]
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench tells what it took")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use retrial::action::Registry;
use retrial::engine::{Config, Engine, Submission};
use retrial::runtime::TokioRuntime;
use retrial::store::{PostgresOptions, PostgresStore};
use retrial_testkit::bench_support::{actions, workflow};
use retrial_testkit::postgres_server::{Server, Setup};
use tokio::task::JoinSet;
use tokio_postgres::Client;

/// What plain SQL starts from: a run, its creation, its queue row.
const FLOOR_TABLES: &str = "
    CREATE TABLE runs (run uuid PRIMARY KEY, record bytea, sum int, updated bigint, phase int)
        WITH (fillfactor = 70);
    CREATE TABLE events (run uuid, version bigint, event bytea NOT NULL, sum int NOT NULL,
        PRIMARY KEY (run, version));
    CREATE TABLE queue (run uuid, step int, item bigint, attempt int, need text, token uuid,
        until bigint, due bigint, turn bigint, PRIMARY KEY (run, step, item)) WITH (fillfactor = 70);
    CREATE INDEX ON queue (need, due, turn) WHERE due IS NOT NULL;
    CREATE TABLE results (run uuid, place bigint, at bigint, step int, item bigint, attempt int,
        result bytea, sum int, PRIMARY KEY (run, place));";
const FLOOR_RUNS: &str = "
    INSERT INTO runs SELECT gen_random_uuid(), decode(repeat('ab', 150), 'hex'), 1, 0, 0
        FROM generate_series(1, $N);
    INSERT INTO events SELECT run, 0, decode(repeat('cd', 200), 'hex'), 1 FROM runs;
    INSERT INTO queue SELECT run, 0, 0, 1, 'fnothing', NULL, NULL, row_number() OVER (),
        row_number() OVER () FROM runs;
    ANALYZE;";
/// Starts 100 attempts in one transaction and ends them in the next.
const FLOOR_START: &str = "
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
const FLOOR_END: &str = "
    BEGIN;
    INSERT INTO events SELECT run, 2, decode(repeat('ef', 120), 'hex'), 1 FROM d;
    INSERT INTO results SELECT run, 0, 0, 0, 0, 1, '\\x6e756c6c', 1 FROM d;
    UPDATE runs r SET record = decode(repeat('ab', 170), 'hex'), updated = 2, phase = 1
        WHERE r.run = ANY(ARRAY(SELECT run FROM d));
    DELETE FROM queue q WHERE q.run = ANY(ARRAY(SELECT run FROM d));
    COMMIT;";
/// How many write at once.
const FLOOR_CLIENTS: usize = 4;
/// How many submit at once.
const USERS: usize = 256;

type Database = (TokioRuntime, PostgresStore<TokioRuntime>, Registry);

async fn store(url: &str) -> PostgresStore<TokioRuntime> {
    let options = PostgresOptions::from_url(url).unwrap();
    PostgresStore::connect(TokioRuntime::current(), options).await.unwrap()
}

async fn count(client: &Client, text: &str) -> f64 {
    client.query_one(&format!("SELECT ({text})::float8"), &[]).await.unwrap().get(0)
}

/// What the server and this process have used so far.
#[derive(Clone, Copy)]
struct Used {
    at: Instant,
    wal: f64,
    server: f64,
    node: f64,
}

impl Used {
    async fn now(server: &Server, client: &Client) -> Self {
        const WAL: &str = "pg_current_wal_insert_lsn() - '0/0'";
        Self {
            at: Instant::now(),
            wal: count(client, WAL).await,
            server: server_ticks(&server.folder().join("data/postmaster.pid")),
            node: ticks("/proc/self/stat", 11..13),
        }
    }

    fn line(&self, until: &Self, runs: u64) -> String {
        let runs = runs as f64;
        let seconds = (until.at - self.at).as_secs_f64();
        let (server, node) = (until.server - self.server, until.node - self.node);
        let us = |ticks: f64| ticks * 10_000.0 / runs;
        format!(
            "{:7.0}/s  {:6.0} B WAL  {:5.0} us server  {:5.0} us node",
            runs / seconds,
            (until.wal - self.wal) / runs,
            us(server),
            us(node)
        )
    }
}

/// Fields of a `stat` of `/proc`, counted after the name, summed.
fn ticks(stat: impl AsRef<Path>, fields: std::ops::Range<usize>) -> f64 {
    let text = std::fs::read_to_string(stat).unwrap_or_default();
    let after = text.rsplit_once(") ").map_or("", |(_, after)| after);
    let fields = after.split(' ').skip(fields.start).take(fields.len());
    fields.filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// The processor time of the server, its processes and those that have ended.
fn server_ticks(pid_file: &Path) -> f64 {
    let text = std::fs::read_to_string(pid_file).unwrap();
    let postmaster = text.lines().next().unwrap();
    let folders = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let children = folders.filter(|folder| {
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, after)| after.split(' ').nth(1));
        parent == Some(postmaster)
    });
    let own = ticks(format!("/proc/{postmaster}/stat"), 11..15);
    own + children.map(|folder| ticks(folder.join("stat"), 11..13)).sum::<f64>()
}

async fn floor(server: &Arc<Server>, runs: u64) -> f64 {
    let name = server.database().await;
    let client = server.client(&name).await;
    client.batch_execute(FLOOR_TABLES).await.unwrap();
    client.batch_execute(&FLOOR_RUNS.replace("$N", &runs.to_string())).await.unwrap();
    let before = Used::now(server, &client).await;
    let mut clients = JoinSet::new();
    for _ in 0..FLOOR_CLIENTS {
        let client = server.client(&name).await;
        clients.spawn(async move {
            loop {
                client.batch_execute(FLOOR_START).await.unwrap();
                client.batch_execute(FLOOR_END).await.unwrap();
                if count(&client, "SELECT count(*) FROM d").await == 0.0 {
                    return;
                }
            }
        });
    }
    while clients.join_next().await.is_some() {}
    let after = Used::now(server, &client).await;
    println!("floor    {}", before.line(&after, runs));
    runs as f64 / (after.at - before.at).as_secs_f64()
}

async fn submit(engine: &Engine<Database>, runs: u64) {
    let workflow = workflow(None);
    let mut users = JoinSet::new();
    for user in 0..USERS as u64 {
        let (engine, workflow) = (engine.clone(), Arc::clone(&workflow));
        users.spawn(async move {
            for _ in (user..runs).step_by(USERS) {
                engine.submit(Submission::new(Arc::clone(&workflow))).await.unwrap();
            }
        });
    }
    while let Some(done) = users.join_next().await {
        done.unwrap();
    }
}

async fn retrial(server: &Server, runs: u64, config: Config) -> f64 {
    let name = server.database().await;
    let (url, client) = (server.url(&name), server.client("postgres").await);
    let watcher = server.client(&name).await;
    let runtime = TokioRuntime::current();
    let idle = Engine::idle(runtime.clone(), store(&url).await, actions(), Config::default()).await;
    let before = Used::now(server, &client).await;
    submit(&idle, runs).await;
    let after = Used::now(server, &client).await;
    println!("submit   {}", before.line(&after, runs));
    drop(idle);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let _ = watcher.batch_execute("CREATE EXTENSION pg_stat_statements").await;
    let _ = watcher.batch_execute("SELECT pg_stat_statements_reset()").await;
    let transactions = format!(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{name}'"
    );
    let begun = count(&client, &transactions).await;
    let before = Used::now(server, &client).await;
    let engine = Engine::<Database>::start(
        runtime.clone(),
        store(&url).await,
        actions(),
        config,
        Vec::new(),
    )
    .await;
    let mut polls = 0.0;
    let mut first = None;
    loop {
        const LEFT: &str =
            "SELECT coalesce((SELECT 1 FROM retrial.runs WHERE phase = 'running' LIMIT 1), 0)";
        const ANY: &str =
            "SELECT coalesce((SELECT 1 FROM retrial.runs WHERE phase <> 'running' LIMIT 1), 0)";
        tokio::time::sleep(Duration::from_millis(10)).await;
        polls += 1.0;
        if first.is_none() {
            first = (count(&watcher, ANY).await == 1.0).then(|| before.at.elapsed());
        } else if count(&watcher, LEFT).await == 0.0 {
            break;
        }
    }
    let after = Used::now(server, &client).await;
    drop(engine);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let transactions = count(&client, &transactions).await - begun - polls;
    println!(
        "retrial  {}  {:.3} transactions  first after {} ms",
        before.line(&after, runs),
        transactions / runs as f64,
        first.unwrap_or_default().as_millis(),
    );
    if std::env::var_os("STATEMENTS").is_some() {
        statements(&watcher, runs).await;
    }
    runs as f64 / (after.at - before.at).as_secs_f64()
}

/// The statements that took the longest.
async fn statements(client: &Client, runs: u64) {
    const TEXT: &str = "SELECT calls, total_exec_time, query, wal_bytes::float8 FROM pg_stat_statements s \
        JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database() \
        WHERE query NOT LIKE '%float8%' ORDER BY total_exec_time DESC LIMIT 24";
    let Ok(rows) = client.query(TEXT, &[]).await else { return };
    for row in rows {
        let (calls, ms, query): (i64, f64, &str) = (row.get(0), row.get(1), row.get(2));
        let query: String =
            query.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(90).collect();
        let wal: f64 = row.get(3);
        println!(
            "    {calls:7} {ms:8.0} ms {:6.1} us/run {:6.0} B/run  {query}",
            ms * 1e3 / runs as f64,
            wal / runs as f64
        );
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, or: u64| args.get(n).map_or(or, |arg| arg.parse().unwrap());
    let (runs, rounds, places) = (number(0, 5_000), number(1, 3), number(2, 256));
    let sole_owner = args.get(3).is_none_or(|arg| arg == "sole");
    let settings = match std::env::var_os("STATEMENTS") {
        Some(_) => vec![("shared_preload_libraries".to_owned(), "pg_stat_statements".to_owned())],
        None => vec![],
    };
    let server = Arc::new(Server::start_as(Setup { fsync: true, settings, ..Setup::default() }));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let config = Config { sole_owner, concurrency: places as usize, ..Config::default() };
        let (mut floors, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            floors.push(floor(&server, runs).await);
            ours.push(retrial(&server, runs, config.clone()).await);
        }
        let ratios = ours.iter().zip(&floors).map(|(ours, floor)| ours / floor).collect();
        println!(
            "median of ours {:.0}/s, of the floor {:.0}/s, of their ratios {:.3}",
            median(ours),
            median(floors),
            median(ratios)
        );
    });
}
