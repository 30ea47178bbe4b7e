//! A node whose idea of a run others have overtaken: what reaches it is judged by what is stored.

use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::run::Outcome;
use retrial::runtime::TokioRuntime;
use serde_json::json;

use crate::kit::*;

/// The world of registered functions.
type Plain = (TokioRuntime, Arc<Watched>, Registry);

/// An engine on a store that others use too.
async fn node(store: &Arc<Watched>, registry: Registry) -> Engine<Plain> {
    let config = Config { sole_owner: false, ..Config::default() };
    let runtime = TokioRuntime::current();
    Engine::start(runtime, Arc::clone(store), registry, config, Vec::new()).await
}

/// `act` works for a second, and its first attempt fails.
async fn worker(store: &Arc<Watched>) -> Engine<Plain> {
    let mut registry = Registry::new();
    registry.register("act", |context: Context| async move {
        pass(1_000).await;
        match context.attempt() {
            1 => Err(Failure::http(503, "busy")),
            n => Ok(n),
        }
    });
    node(store, registry).await
}

// H17: the one that pauses and resumes can't run the action, the one that can hears of the pause
// from a conflict and of the resuming from nobody.
#[tokio::test(start_paused = true)]
async fn h17_a_resumed_retry_runs_on_a_node_that_knows_the_run_as_paused() {
    let store = Watched::new();
    let worker = worker(&store).await;
    let desk = node(&store, Registry::new()).await;
    let run = submit(&desk, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(500).await;
    desk.pause(run, "wait").await.unwrap();
    pass(10_000).await;
    desk.resume(run).await.unwrap();
    assert_eq!(soon(worker.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

// H17: a command that means nothing to the node's idea of the run may mean something to the run.
#[tokio::test(start_paused = true)]
async fn h17_a_node_that_has_not_heard_of_a_pause_ends_it() {
    let store = Watched::new();
    let worker = worker(&store).await;
    let desk = node(&store, Registry::new()).await;
    let run = submit(&desk, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(500).await;
    desk.pause(run, "wait").await.unwrap();
    worker.resume(run).await.unwrap();
    assert_eq!(worker.state(run).await.unwrap().paused(), None);
    assert_eq!(soon(desk.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}
