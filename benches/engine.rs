//! How fast is the whole engine? Many runs of one step that does nothing, and one run that fans out
//! into many tasks, on the memory store beside redb in a file. And how fast is redb alone, where records
//! of the same sizes are written in batches?
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use retrial_testkit::bench_support;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bench_support::{actions, complete, workflow};
use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
};
use redb::{Database, TableDefinition, TableHandle as _};
use retrial::action::Registry;
use retrial::engine::{Config, Engine, World};
use retrial::runtime::TokioRuntime;
use retrial::store::{MemoryStore, RedbStore, Store};
use retrial::workflow::Workflow;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Runs of a batch, all submitted together.
const RUNS: u64 = 512;
/// How many of them work at once.
const AT_ONCE: u64 = 256;
/// Tasks of the run that fans out.
const TASKS: u64 = 1_000;

/// A store to measure.
trait Peer: Store + Sized {
    const NAME: &str;
    fn open(runtime: TokioRuntime, folder: &TempDir) -> impl Future<Output = Self>;
}

impl Peer for MemoryStore<TokioRuntime> {
    const NAME: &str = "memory";

    async fn open(runtime: TokioRuntime, _: &TempDir) -> Self {
        Self::new(runtime)
    }
}

impl Peer for RedbStore {
    const NAME: &str = "redb";

    async fn open(runtime: TokioRuntime, folder: &TempDir) -> Self {
        Self::open(runtime, folder.path().join("bench.redb")).await.unwrap()
    }
}

/// The engine on tokio and the store `S`, its actions registered functions.
struct On<S>(PhantomData<S>);

impl<S: Store> World for On<S> {
    type Runtime = TokioRuntime;
    type Store = S;
    type Actions = Registry;
}

/// An engine on an empty store. Its folder lives as long as it does.
struct Fresh<S: Store>(Engine<On<S>>, #[expect(dead_code, reason = "held, not read")] TempDir);

async fn fresh<S: Peer>() -> Fresh<S> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = TokioRuntime::current();
    let store = S::open(runtime.clone(), &folder).await;
    let config = Config { concurrency: AT_ONCE as usize, ..Config::default() };
    Fresh(Engine::start(runtime, store, actions(), config, Vec::new()).await, folder)
}

fn measure<S: Peer>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    tokio: &Runtime,
    workflow: &Arc<Workflow>,
    count: u64,
) {
    group.bench_function(S::NAME, |b| {
        b.iter_batched_ref(
            || tokio.block_on(fresh::<S>()),
            |Fresh(engine, _)| tokio.block_on(complete(engine, workflow, count)),
            BatchSize::PerIteration,
        );
    });
}

type Rows = TableDefinition<'static, (u64, u64), &'static [u8]>;
const RECORDS: Rows = TableDefinition::new("runs");
const EVENTS: Rows = TableDefinition::new("events");
const QUEUE: Rows = TableDefinition::new("queue");
const RESULTS: Rows = TableDefinition::new("results");

/// Writes what `runs` leave behind, in three durable transactions for each batch: submission, start
/// and end. The sizes are those of the floor in `benches/peers`.
fn write_by_hand(database: &Database, runs: u64) {
    let phases: [&[(Rows, usize)]; 3] = [
        &[(RECORDS, 150), (EVENTS, 200), (QUEUE, 60)],
        &[(RECORDS, 160), (EVENTS, 60), (QUEUE, 80)],
        &[(RECORDS, 170), (EVENTS, 120), (QUEUE, 0), (RESULTS, 4)],
    ];
    // Ids of runs begin with the time, so newer ones come later.
    let bytes = [0; 200];
    for first in (0..runs).step_by(AT_ONCE as usize) {
        for (version, rows) in (0..).zip(phases) {
            let transaction = database.begin_write().unwrap();
            for (table, size) in rows {
                let version = if table.name() == EVENTS.name() { version } else { 0 };
                let mut table = transaction.open_table(*table).unwrap();
                for run in first..runs.min(first + AT_ONCE) {
                    match size {
                        0 => drop(table.remove((run, version)).unwrap()),
                        _ => drop(table.insert((run, version), &bytes[..*size]).unwrap()),
                    }
                }
            }
            transaction.commit().unwrap();
        }
    }
}

fn by_hand(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function("redb by hand", |b| {
        b.iter_batched_ref(
            || {
                let folder = tempfile::tempdir().unwrap();
                (Database::create(folder.path().join("bench.redb")).unwrap(), folder)
            },
            |(database, _)| write_by_hand(database, RUNS),
            BatchSize::PerIteration,
        );
    });
}

fn throughput(c: &mut Criterion) {
    let tokio = Runtime::new().unwrap();
    let items: Vec<u64> = (0..TASKS).collect();
    let shapes =
        [("runs", RUNS, RUNS, workflow(None)), ("fan-out", TASKS, 1, workflow(Some(json!(items))))];
    for (name, elements, count, workflow) in shapes {
        let mut group = c.benchmark_group(format!("engine/{name}"));
        group.throughput(Throughput::Elements(elements)).sample_size(10);
        group.warm_up_time(Duration::from_millis(300));
        group.measurement_time(Duration::from_secs(2));
        measure::<MemoryStore<TokioRuntime>>(&mut group, &tokio, &workflow, count);
        measure::<RedbStore>(&mut group, &tokio, &workflow, count);
        if name == "runs" {
            by_hand(&mut group);
        }
        group.finish();
    }
}

criterion_group!(benches, throughput);
criterion_main!(benches);
