//! What does a run cost that waits an hour for its retry? Memory, once its store was opened again; how
//! long opening takes, beside reading the file once; how soon a run that is submitted then has its
//! outcome; and what its entry in a due queue takes, beside tokio's `DelayQueue`.
//!
//! ```sh
//! RUNS=100000 cargo bench --bench waiting
//! ```
#![allow(clippy::disallowed_methods, reason = "a bench measures real time, outside any simulation")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::runtime::TokioRuntime;
use retrial::schedule::DueQueue;
use retrial::store::{RedbStore, Store as _};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Step, Workflow, WorkflowParts};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::time::DelayQueue;

#[global_allocator]
static COUNTED: PeakAlloc = PeakAlloc;

type World = (TokioRuntime, RedbStore, Registry);
type Failed = Box<dyn Error + Send + Sync>;

/// How many submit at once, and how many runs work at once.
const AT_ONCE: u64 = 256;
/// The events of a run that has failed once and waits.
const WAITS: u64 = 5;

fn workflow(action: &str) -> Result<Arc<Workflow>, Failed> {
    let hour = Backoff::exponential(Nanos::from_secs(3_600));
    let policy = Policy::builder().attempts(3).backoff(hour).build()?;
    let steps = vec![Step::new("a", action, policy)];
    let parts = WorkflowParts { name: "one".into(), steps, ..WorkflowParts::default() };
    Ok(Arc::new(Workflow::try_from(parts)?))
}

async fn engine(path: &Path) -> Result<Engine<World>, Failed> {
    let mut actions = Registry::new();
    actions.register("busy", |_: Context| async move {
        Err::<Value, Failure>(Failure::http(503, "busy"))
    });
    actions.register("free", |_: Context| async move { Ok::<Value, Failure>(Value::Null) });
    let runtime = TokioRuntime::current();
    let store = RedbStore::open(runtime.clone(), path).await?;
    let config = Config { concurrency: AT_ONCE as usize, ..Config::default() };
    Ok(Engine::start(runtime, store, actions, config, Vec::new()).await)
}

/// Leaves `runs` runs waiting in the store at `path`.
async fn leave(path: &Path, runs: u64) -> Result<(), Failed> {
    let (engine, workflow) = (engine(path).await?, workflow("busy")?);
    let mut users = JoinSet::new();
    for user in 0..AT_ONCE {
        let (engine, workflow) = (engine.clone(), Arc::clone(&workflow));
        users.spawn(async move {
            for _ in (user..runs).step_by(AT_ONCE as usize) {
                engine.submit(Submission::new(Arc::clone(&workflow))).await?;
            }
            Ok::<(), Failed>(())
        });
    }
    while let Some(user) = users.join_next().await {
        user??;
    }
    let mut after = None;
    loop {
        let page = engine.store().heads(after, 1_000).await?;
        let Some(last) = page.runs.last() else { break };
        match page.runs.iter().all(|head| head.version.0 >= WAITS) {
            true => after = Some(last.run),
            false => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    engine.shutdown().await;
    Ok(())
}

/// How long a run takes that is submitted alone.
async fn result(engine: &Engine<World>) -> Result<Duration, Failed> {
    let begun = Instant::now();
    let run = engine.submit(Submission::new(workflow("free")?)).await?;
    run.outcome().await?;
    Ok(begun.elapsed())
}

/// The bytes that each entry of a queue of `entries` takes.
fn bytes_an_entry<Q>(entries: u32, fill: impl FnOnce() -> Q) -> f64 {
    let before = COUNTED.current_usage();
    let queue = fill();
    let bytes = COUNTED.current_usage().saturating_sub(before);
    drop(queue);
    bytes as f64 / f64::from(entries)
}

/// Entries of four bytes that are due within an hour.
fn queues(entries: u32) {
    let due = |n: u32| Nanos::from_millis(u64::from(n.wrapping_mul(2_654_435_769)) % 3_600_000);
    let ours = bytes_an_entry(entries, || {
        let mut queue = DueQueue::<u32>::new();
        (0..entries).for_each(|n| _ = queue.insert(Timestamp::default().after(due(n)), n));
        queue
    });
    let theirs = bytes_an_entry(entries, || {
        let mut queue = DelayQueue::<u32>::new();
        (0..entries).for_each(|n| _ = queue.insert(n, Duration::from_nanos(due(n).get())));
        queue
    });
    println!("due queue: {ours:.0} bytes an entry; tokio's DelayQueue: {theirs:.0}");
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let runs: u64 = std::env::var("RUNS").map_or(Ok(100_000), |runs| runs.parse())?;
    queues(u32::try_from(runs)?);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("runs.redb");
    leave(&path, runs).await?;
    // The tasks of the engine are aborted soon, not at once; then the file is free.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let bytes = std::fs::read(&path)?.len();
    let read = begun.elapsed();
    let (before, begun) = (COUNTED.current_usage(), Instant::now());
    let engine = engine(&path).await?;
    let opened = begun.elapsed();
    let [first, later] = [result(&engine).await?, result(&engine).await?];
    tokio::time::sleep(Duration::from_secs(2)).await;
    let held = COUNTED.current_usage().saturating_sub(before);
    let each = |bytes: usize| bytes as f64 / runs as f64;
    println!("{runs} runs that wait, in a file of {:.0} bytes a run", each(bytes));
    println!("in memory: {:.0} bytes a run, redb's cache of at most 64 MiB included", each(held));
    println!("opening: {:.1} times reading the file", opened.as_secs_f64() / read.as_secs_f64());
    println!("the first result after it: {first:.1?}; the next one: {later:.1?}");
    engine.shutdown().await;
    Ok(())
}
