//! What grouping buys on PostgreSQL: a node that works on 1, 10 or 100 attempts at once claims and
//! commits as many together. A private server that waits for the disk; it is on this machine, so the
//! network costs nothing.
//!
//! ```text
//! cargo bench --features postgres --bench postgres
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use retrial_testkit::bench_support;
use retrial_testkit::postgres_server;

use std::time::Duration;

use bench_support::{actions, complete, workflow};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use postgres_server::{Server, Setup};
use retrial::action::Registry;
use retrial::engine::{Config, Engine};
use retrial::runtime::TokioRuntime;
use retrial::store::{PostgresOptions, PostgresStore};
use tokio::runtime::Runtime;

/// Runs of a batch, submitted together.
const RUNS: u64 = 300;

type Database = (TokioRuntime, PostgresStore, Registry);

/// A node on an empty database.
async fn node(server: &Server, concurrency: usize) -> Engine<Database> {
    let runtime = TokioRuntime::current();
    let url = server.url(&server.database().await);
    let options = PostgresOptions::from_url(&url).unwrap();
    let store = PostgresStore::connect(runtime.clone(), options).await.unwrap();
    let config = Config { sole_owner: false, concurrency, ..Config::default() };
    Engine::start(runtime, store, actions(), config, Vec::new()).await
}

fn throughput(c: &mut Criterion) {
    let tokio = Runtime::new().unwrap();
    let (server, workflow) =
        (Server::start_as(Setup { fsync: true, ..Setup::default() }), workflow(None));
    let mut group = c.benchmark_group("postgres");
    group.throughput(Throughput::Elements(RUNS)).sample_size(10);
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(5));
    for concurrency in [1, 10, 100] {
        group.bench_function(format!("{concurrency} at once"), |b| {
            b.iter_batched_ref(
                || tokio.block_on(node(&server, concurrency)),
                |engine| tokio.block_on(complete(engine, &workflow, RUNS)),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
