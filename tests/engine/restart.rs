//! W13, A10: a delay survives the process. The redb store on a file, opened again by another engine.

use std::path::Path;
use std::sync::Arc;

use retrial::action::Call;
use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::run::Outcome;
use retrial::runtime::TokioRuntime;
use retrial::store::RedbStore;
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

pub(crate) type OnFile = (TokioRuntime, Arc<RedbStore>, Acts);

pub(crate) async fn open(path: &Path) -> Arc<RedbStore> {
    Arc::new(RedbStore::open(TokioRuntime::current(), path).await.unwrap())
}

pub(crate) async fn engine(store: &Arc<RedbStore>, acts: &Acts) -> Engine<OnFile> {
    let runtime = TokioRuntime::current();
    Engine::start(runtime, Arc::clone(store), acts.clone(), Config::default(), vec![]).await
}

/// Stops an engine as a crash would, and closes its store.
pub(crate) async fn stop(engine: Engine<OnFile>, store: Arc<RedbStore>) {
    drop(engine);
    let mut store = store;
    loop {
        match Arc::try_unwrap(store) {
            Ok(store) => return store.close().await,
            Err(shared) => store = shared,
        }
        // Its tasks are aborted soon, not at once.
        pass(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn w12_w13_a10_a_restart_in_the_middle_of_a_delay_goes_on_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    let acts = Acts::new(|call: Call| async move {
        match (call.step.as_str(), call.attempt) {
            ("b", 1) => Err(Failure::http(503, "busy")),
            (_, n) => Ok(json!(n)),
        }
    });
    let minute = Backoff::exponential(Nanos::from_secs(60));
    let policy = Policy::builder().attempts(3).backoff(minute).build().unwrap();
    let of_a = json!({ "a": "${steps.a.result}" });
    let steps = vec![step("a", patient(1), &[], json!({})), step("b", policy, &[0], of_a)];
    let store = open(&path).await;
    let first = engine(&store, &acts).await;
    let run = submit(&first, workflow(steps)).await;
    pass(20_000).await;
    assert_eq!(acts.calls().len(), 2);
    soon(stop(first, store)).await;

    let store = open(&path).await;
    let second = engine(&store, &acts).await;
    // The store's clock stood still while it was closed, or went on with the system's.
    pass(30_000).await;
    assert_eq!(acts.calls().len(), 2, "the delay is not over");
    assert_eq!(soon(second.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let attempts: Vec<_> = acts.calls().iter().map(|c| (c.step.clone(), c.attempt)).collect();
    // W12: what succeeded before the restart is not run again.
    assert_eq!(attempts, [("a".into(), 1), ("b".into(), 1), ("b".into(), 2)]);
    assert_eq!(acts.calls()[2].args, json!({ "a": 1 }), "its result is read, not made again");
    let history = history(&*store, run).await;
    let waited = started(&history, 2).since(failed(&history, 1));
    assert!(waited >= Nanos::from_secs(60) && waited < Nanos::from_secs(61), "{waited}");
    soon(stop(second, store)).await;
}
