//! A12: runs can be deactivated and activated; recovery starts from the persisted runs, activates
//! what is missing from the active projection, and queues what its rows lost.

use std::future::poll_fn;
use std::task::Poll;

use retrial::action::Call;
use retrial::engine::{CommandError, Config};
use retrial::failure::Failure;
use retrial::run::{Outcome, RunId};
use retrial::store::{Commit, CommitId, Committed, QueueChange, RunPhase, Store as _};
use serde_json::json;

use crate::kit::*;

/// Fails the first attempt of each task.
fn once() -> Acts {
    Acts::new(|call: Call| async move {
        match call.attempt {
            1 => Err(Failure::http(503, "busy")),
            n => Ok(json!(n)),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a12_a_deactivated_run_rests_until_it_is_activated() {
    let (store, acts) = (Watched::new(), once());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(500).await;
    engine.deactivate(run).await.unwrap();
    pass(60_000).await;
    assert_eq!(acts.calls().len(), 1, "the delay is over, yet nothing starts");
    assert_eq!(store.heads(None, 9).await.unwrap().runs[0].phase, RunPhase::Deactivated);
    // Recovery leaves it alone as well.
    drop(engine);
    let engine = start(&store, &acts, Config::default()).await;
    pass(60_000).await;
    assert_eq!(acts.calls().len(), 1);
    engine.activate(run).await.unwrap();
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert_eq!(acts.calls().len(), 2);
    let names = names(&history(&store, run).await);
    let told = |name: &str| names.iter().filter(|n| **n == name).count();
    assert_eq!((told("run_deactivated"), told("run_activated")), (1, 1), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_in_progress_ends_in_a_deactivated_run() {
    let acts = Acts::new(|_: Call| async {
        pass(1_000).await;
        Ok(json!(1))
    });
    let engine = alone(&acts, Config::default()).await;
    let steps = vec![step("a", patient(1), &[], json!({})), step("b", patient(1), &[0], json!({}))];
    let run = submit(&engine, workflow(steps)).await;
    pass(500).await;
    engine.deactivate(run).await.unwrap();
    pass(60_000).await;
    let names = names(&history(engine.store(), run).await);
    assert!(names.contains(&"task_succeeded"), "{names:?}");
    assert_eq!(acts.calls().len(), 1);
    engine.activate(run).await.unwrap();
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

/// Goes to the end of the queue of tasks that are ready, so often.
async fn step_back(times: u32) {
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// An attempt may start in the very commit that deactivates its run: then it is run, not left to
/// lose its lease. Which yield makes them meet is the engine's business.
#[tokio::test(start_paused = true)]
async fn a_start_that_meets_a_deactivation_is_not_lost() {
    for yields in 0..40 {
        let acts = Acts::new(|_: Call| async {
            pass(1_000).await;
            Ok(json!(1))
        });
        let engine = alone(&acts, Config::default()).await;
        let steps = ["a", "b", "c"].map(|id| step(id, patient(2), &[], json!({})));
        let run = submit(&engine, workflow(steps.into())).await;
        let user = engine.clone();
        let mut asking = tokio::task::JoinSet::new();
        asking.spawn(async move {
            step_back(yields).await;
            user.deactivate(run).await
        });
        asking.join_next().await.unwrap().unwrap().unwrap();
        pass(120_000).await;
        engine.activate(run).await.unwrap();
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
        let names = names(&history(engine.store(), run).await);
        assert!(!names.contains(&"attempt_failed"), "after {yields} yields: {names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_run_is_said_to_be_unknown() {
    let engine = alone(&once(), Config::default()).await;
    let run = RunId::from_random(1, 2);
    let unknown = Err(CommandError::UnknownRun(run));
    assert_eq!(engine.deactivate(run).await, unknown);
    assert_eq!(engine.activate(run).await, unknown);
    assert_eq!(engine.cancel(run, "why not").await, unknown);
    assert_eq!(engine.outcome(run).await.map(|_| ()), unknown);
}

/// A run left in its first delay by an engine that is gone.
async fn left_behind(store: &std::sync::Arc<Watched>, acts: &Acts) -> RunId {
    let engine = start(store, acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(500).await;
    drop(engine);
    pass(10).await;
    run
}

/// Takes the row of the run's only task out of the queue, its events untouched.
async fn lose_rows(store: &Watched, run: RunId) {
    let rows = store.queue(run).await.unwrap();
    assert_eq!(rows.len(), 1);
    let version = store.load(run, None).await.unwrap().unwrap().version;
    let commit = Commit {
        id: CommitId { writer: 1, counter: 1 },
        run,
        expect: version,
        fences: vec![],
        events: vec![],
        queue: vec![QueueChange::Remove { task: rows[0].task }],
        results: vec![],
        phase: RunPhase::Running,
        snapshot: None,
        guards: vec![],
        raised: vec![],
        creates: vec![],
        letters: vec![],
    };
    assert!(matches!(store.commit(commit).await.unwrap(), Committed::Applied { .. }));
    assert_eq!(store.queue(run).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a12_recovery_repairs_a_missing_queue_row() {
    let (store, acts) = (Watched::new(), once());
    let run = left_behind(&store, &acts).await;
    lose_rows(&store, run).await;
    let engine = start(&store, &acts, Config::default()).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert_eq!(acts.calls().len(), 2);
    let history = history(&store, run).await;
    assert!(!names(&history).contains(&"run_activated"), "it was active all the time");
    assert!(started(&history, 2).since(failed(&history, 1)) >= SECOND);
}

/// A store with a million of them starts at once, and they take no memory: their rows wait.
#[tokio::test(start_paused = true)]
async fn recovery_loads_no_run_that_only_waits() {
    let (store, acts) = (Watched::new(), once());
    let engine = start(&store, &acts, Config::default()).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await);
    }
    pass(500).await;
    drop(engine);
    pass(10).await;
    let before = store.loads();
    let engine = start(&store, &acts, Config { poll: SECOND, ..Config::default() }).await;
    pass(100).await;
    assert_eq!(store.loads(), before);
    for run in runs {
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a12_recovery_first_records_that_a_forgotten_run_is_active() {
    let (store, acts) = (Watched::new(), once());
    let run = left_behind(&store, &acts).await;
    store.hide_active();
    let engine = start(&store, &acts, Config::default()).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let names = names(&history(&store, run).await);
    let place = |name: &str| names.iter().rposition(|n| *n == name).unwrap();
    assert_eq!(names.iter().filter(|n| **n == "run_activated").count(), 1);
    assert!(place("run_activated") < place("attempt_started"), "{names:?}");
}
