//! Shutting down: attempts in progress may end within the grace, nothing new begins.

use std::time::Duration;

use retrial::action::Call;
use retrial::engine::{Config, Submission, SubmitError};
use retrial::run::Outcome;
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

fn slow() -> Acts {
    Acts::new(|call: Call| async move {
        pass(3_000).await;
        Ok(json!(call.attempt))
    })
}

fn two_steps() -> std::sync::Arc<retrial::workflow::Workflow> {
    workflow(vec![step("a", patient(3), &[], json!({})), step("b", patient(3), &[0], json!({}))])
}

#[tokio::test(start_paused = true)]
async fn shutting_down_waits_for_attempts_in_progress() {
    let (store, acts) = (Watched::new(), slow());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, two_steps()).await;
    pass(1_000).await;
    let begun = tokio::time::Instant::now();
    let handle = engine.clone();
    soon(engine.shutdown()).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_millis(2_500), "{took:?}");
    let names = names(&history(&store, run).await);
    assert!(names.contains(&"task_succeeded"), "{names:?}");
    // Nothing is taken or begun any more.
    let refused = handle.submit(Submission::new(two_steps())).await;
    assert_eq!(refused, Err(SubmitError::Closing));
    pass(600_000).await;
    assert_eq!(acts.calls().len(), 1);
    drop(handle);
    // W12: what succeeded is not run again.
    let next = start(&store, &acts, Config::default()).await;
    assert_eq!(soon(next.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let calls = acts.calls();
    let steps: Vec<&str> = calls.iter().map(|c| c.step.as_str()).collect();
    assert_eq!(steps, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_waits_no_longer_than_the_grace() {
    let (store, acts) = (Watched::new(), slow());
    let config = Config { grace: Nanos::from_secs(1), ..Config::default() };
    let engine = start(&store, &acts, config).await;
    let run = submit(&engine, two_steps()).await;
    pass(1_000).await;
    let begun = tokio::time::Instant::now();
    soon(engine.shutdown()).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    pass(600_000).await;
    assert!(!names(&history(&store, run).await).contains(&"task_succeeded"));
    // The attempt that was cut off comes back as a lost lease.
    let next = start(&store, &acts, Config::default()).await;
    assert_eq!(soon(next.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let attempts: Vec<_> = acts.calls().iter().map(|c| (c.step.clone(), c.attempt)).collect();
    assert_eq!(attempts, [("a".into(), 1), ("a".into(), 2), ("b".into(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_shuts_down_at_once() {
    let engine = alone(&slow(), Config::default()).await;
    let begun = tokio::time::Instant::now();
    soon(engine.shutdown()).await;
    assert!(begun.elapsed() < Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_gets_free_while_the_node_closes_is_not_taken_again() {
    let (store, acts) = (Watched::new(), slow());
    let config = Config { concurrency: 1, ..Config::default() };
    let engine = start(&store, &acts, config).await;
    let one = || workflow(vec![step("a", patient(3), &[], json!({}))]);
    let runs = [submit(&engine, one()).await, submit(&engine, one()).await];
    pass(1_000).await;
    let begun = tokio::time::Instant::now();
    soon(engine.shutdown()).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_millis(2_500), "{took:?}");
    pass(600_000).await;
    assert_eq!(acts.calls().len(), 1, "another attempt began");
    let mut ended = Vec::new();
    for run in runs {
        ended.push(names(&history(&store, run).await).contains(&"run_ended"));
    }
    ended.sort_unstable();
    assert_eq!(ended, [false, true]);
}
