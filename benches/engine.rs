//! How fast is the whole engine? Many runs of one step that does nothing, and one run that fans out
//! into many tasks, on the memory store beside redb in a file.
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
use retrial::action::Registry;
use retrial::engine::{Config, Engine, World};
use retrial::runtime::TokioRuntime;
use retrial::store::{MemoryStore, RedbStore, Store};
use retrial::workflow::Workflow;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Runs of a batch, all in flight together.
const RUNS: u64 = 500;
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
    Fresh(Engine::start(runtime, store, actions(), Config::default(), Vec::new()).await, folder)
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
        group.finish();
    }
}

criterion_group!(benches, throughput);
criterion_main!(benches);
