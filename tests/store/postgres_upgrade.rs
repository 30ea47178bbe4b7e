//! Upgrades of a PostgreSQL store while nodes work on it.
//!
//! A migration only adds: columns that may be absent, tables, indexes. So nodes of the release
//! before it go on, and what they write stays readable. `tests/fixtures/postgres/v1.sql` is a store
//! of the first version as it was left, with runs that are not finished: every later release must
//! take them up. `UPGRADE=write` makes it anew, which only a version that was never released
//! allows.
#![cfg(feature = "postgres")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::postgres::kit;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kit::{World, connect, new_schema, options, server, with_http};
use retrial::action::{Context, Registry};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Config, Engine, Handle, Submission};
use retrial::failure::Failure;
use retrial::run::{Outcome, RunState};
use retrial::runtime::TokioRuntime;
use retrial::store::{DynStore, PostgresOptions, PostgresStore, RunPhase, Store as _};
use retrial::time::Nanos;

const WORKFLOW: &str = r#"
    workflow = "order"
    [[steps]]
    id = "charge"
    action = "charge"
    retry = "[retry: 3, backoff: 30s]"
    [[steps]]
    id = "ship"
    action = "ship"
    after = ["charge"]
"#;

/// A node whose `charge` fails where the test wants it, and what it did.
struct Node {
    engine: Engine<World>,
    calls: Arc<AtomicUsize>,
}

async fn node(options: &PostgresOptions, fails: bool) -> Node {
    let calls = Arc::new(AtomicUsize::new(0));
    let mut actions = Registry::new();
    for name in ["charge", "ship"] {
        let calls = Arc::clone(&calls);
        actions.register(name, move |context: Context| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move {
                context.sleep(Nanos::from_millis(20)).await;
                match fails && name == "charge" {
                    true => Err(Failure::http(503, "busy")),
                    false => Ok("done".to_owned()),
                }
            }
        });
    }
    let config = Config {
        sole_owner: false,
        poll: Nanos::from_millis(50),
        concurrency: 4,
        ..Config::default()
    };
    let (store, actions) = (DynStore::new(connect(options).await), with_http(actions));
    let engine = Engine::start(TokioRuntime::current(), store, actions, config, vec![]).await;
    Node { engine, calls }
}

impl Node {
    async fn submit(&self) -> Handle<World> {
        let read = parse_workflow("w.toml", WORKFLOW, Format::Toml, &Environment::default());
        let workflow = Arc::new(read.unwrap().workflow);
        self.engine.submit(Submission::new(workflow)).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn nodes_that_start_at_once_make_the_tables_once() {
    let options = new_schema();
    let connects = (0..8).map(|_| {
        let options = options.clone();
        tokio::runtime::Handle::current()
            .spawn(async move { PostgresStore::connect(TokioRuntime::current(), options).await })
    });
    for connected in connects.collect::<Vec<_>>() {
        connected.await.unwrap().unwrap().close().await;
    }
    let node = node(&options, false).await;
    assert_eq!(node.submit().await.outcome().await.unwrap().outcome, Outcome::Completed);
}

/// What the next release may do to the tables while nodes of this one work.
async fn add_to_the_tables(schema: &str) {
    let client = server().client("postgres").await;
    let text = format!(
        "SET search_path TO {schema};
         BEGIN;
         ALTER TABLE runs ADD COLUMN hue text;
         ALTER TABLE events ADD COLUMN hue text;
         ALTER TABLE queue ADD COLUMN hue int DEFAULT 7;
         ALTER TABLE letters ADD COLUMN hue text;
         CREATE TABLE hues (hue text PRIMARY KEY);
         INSERT INTO retrial_migrations
             SELECT 1000, 'later', applied_on, checksum FROM retrial_migrations LIMIT 1;
         COMMIT;"
    );
    client.batch_execute(&text).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_node_goes_on_while_a_later_release_adds_to_the_tables() {
    let (schema, runs) = ("upgraded", 60);
    let options = options("postgres").schema(schema).unwrap();
    let node = node(&options, false).await;
    let mut handles = Vec::new();
    for n in 0..runs {
        if n == runs / 2 {
            // Runs are at work, and their commits in flight.
            while node.calls.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            add_to_the_tables(schema).await;
        }
        handles.push(node.submit().await);
    }
    for handle in &handles {
        assert_eq!(handle.outcome().await.unwrap().outcome, Outcome::Completed);
    }
    assert_eq!(node.calls.load(Ordering::SeqCst), 2 * runs, "nothing is lost or done twice");

    // Going back: a node of this release may still start, and it goes on from there.
    node.engine.shutdown().await;
    let node = self::node(&options, false).await;
    assert_eq!(node.submit().await.outcome().await.unwrap().outcome, Outcome::Completed);

    // Once what it uses is taken away it says what to do instead of guessing.
    let client = server().client("postgres").await;
    let text = format!("UPDATE {schema}.compatible SET oldest = 1000");
    client.batch_execute(&text).await.unwrap();
    let refused = PostgresStore::connect(TokioRuntime::current(), options.clone()).await;
    let words = refused.map(drop).unwrap_err().to_string();
    assert!(
        words.contains("knows 1000, and this one knows 3") && words.contains("use a newer"),
        "{words}"
    );
    // The one that works goes on.
    assert_eq!(node.submit().await.outcome().await.unwrap().outcome, Outcome::Completed);
}

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/postgres/v1.sql")
}

/// A store with a run that ended and two that wait for their second attempt, as `pg_dump` writes
/// it.
async fn write_fixture() {
    let options = options("postgres").schema("v1").unwrap();
    let ended = node(&options, false).await;
    ended.submit().await.outcome().await.unwrap();
    ended.engine.shutdown().await;
    let waiting = node(&options, true).await;
    for _ in 0..2 {
        let run = waiting.submit().await.run;
        let is_again = |state: RunState| state.tasks().any(|(_, task)| task.attempt == 2);
        while !is_again(waiting.engine.state(run).await.unwrap()) {
            let runtime = TokioRuntime::current();
            let soon = retrial::runtime::Runtime::now(&runtime).after(Nanos::from_millis(20));
            retrial::runtime::Runtime::sleep_until(&runtime, soon).await;
        }
    }
    waiting.engine.shutdown().await;
    let dump = Command::new("pg_dump")
        .args(["--inserts", "--no-owner", "--schema=v1"])
        .arg(server().url("postgres"))
        .output()
        .unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap();
    // Comments and what only psql reads.
    let lines = text.lines().filter(|line| !line.starts_with("--") && !line.starts_with('\\'));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    std::fs::create_dir_all(fixture().parent().unwrap()).unwrap();
    std::fs::write(fixture(), lines.join("\n") + "\n").unwrap();
}

fn writes() -> bool {
    std::env::var_os("UPGRADE").is_some_and(|what| what == "write")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_store_of_the_first_version_is_taken_up() {
    if writes() {
        write_fixture().await;
    }
    let database = server().database().await;
    let client = server().client(&database).await;
    client.batch_execute(&std::fs::read_to_string(fixture()).unwrap()).await.unwrap();
    let options = options(&database).schema("v1").unwrap();
    // What they wait for is due by then.
    let store = connect(&options).await;
    let heads = store.heads(None, 10).await.unwrap();
    assert!(heads.damaged.is_empty(), "{:?}", heads.damaged);
    let phases = |wanted: RunPhase| heads.runs.iter().filter(move |h| h.phase == wanted);
    assert_eq!(phases(RunPhase::Completed).count(), 1);
    let unfinished: Vec<_> = phases(RunPhase::Running).map(|head| head.run).collect();
    assert_eq!(unfinished.len(), 2);
    store.close().await;

    let node = node(&options, false).await;
    for run in unfinished {
        assert_eq!(node.engine.outcome(run).await.unwrap().outcome, Outcome::Completed);
        let state = node.engine.state(run).await.unwrap();
        let attempts: Vec<_> = state.tasks().map(|(_, task)| task.attempt).collect();
        assert_eq!(attempts, [2, 1], "what was done before counts");
    }
    assert_eq!(node.calls.load(Ordering::SeqCst), 4);
}
