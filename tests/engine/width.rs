//! How much at once: bounded concurrency, and one lane a run that folds what arrives together.

use std::sync::Arc;

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::run::Outcome;
use retrial::workflow::{Step, Workflow, WorkflowParts};
use serde_json::json;

use crate::kit::*;

fn working(millis: u64) -> Acts {
    Acts::new(move |call: Call| async move {
        pass(millis).await;
        Ok(json!(call.task.item))
    })
}

#[tokio::test(start_paused = true)]
async fn never_more_attempts_at_once_than_configured() {
    for concurrency in [1, 3, 7] {
        let acts = working(100);
        let config = Config { concurrency, action_share: 100, ..Config::default() };
        let engine = alone(&acts, config).await;
        let begun = tokio::time::Instant::now();
        let mut runs = Vec::new();
        for _ in 0..2 {
            runs.push(submit(&engine, fan_out(20, patient(1))).await);
        }
        for run in runs {
            assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
        }
        assert_eq!(acts.calls().len(), 40);
        assert_eq!(acts.most() as usize, concurrency, "all that is allowed, and no more");
        let least = 100 * (40 / concurrency) as u128;
        assert!(begun.elapsed().as_millis() >= least);
    }
}

// A slot is free again once a failed attempt's outcome is durable, not after its delay.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_takes_up_no_slot() {
    let acts = Acts::new(|call: Call| async move {
        match call.task.item == 0 && call.attempt == 1 {
            true => Err(Failure::http(503, "busy")),
            false => Ok(json!(1)),
        }
    });
    let engine = alone(&acts, Config { concurrency: 1, ..Config::default() }).await;
    let run = submit(&engine, fan_out(5, patient(2))).await;
    pass(500).await;
    assert_eq!(acts.calls().len(), 5, "the others went on while the first waits");
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

// A11, rule 1: what arrives together is one commit.
#[tokio::test(start_paused = true)]
async fn a_fan_out_of_500_takes_few_commits() {
    let (store, acts) = (Watched::new(), working(10));
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, fan_out(500, patient(1))).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(acts.calls().len(), 500);
    let commits = store.commits();
    assert!(commits <= 100, "{commits} commits for 1,000 outcomes and starts");
}

/// A11, H12: what is cancelled is called off at once, also where the run goes on.
#[tokio::test(start_paused = true)]
async fn a11_siblings_at_work_are_called_off_where_one_failure_is_enough() {
    let acts = Acts::new(|call: Call| async move {
        match (&*call.step, call.task.item) {
            ("each", 0) => {
                pass(100).await;
                Err(Failure::http(400, "no"))
            }
            _ => std::future::pending().await,
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let fanned = fan_out(3, patient(1));
    let each = Step { fail_fast: true, ..fanned.steps()[0].clone() };
    let handler = step("mend", patient(1), &[], json!({}));
    let transitions = handled(each.clone(), handler.clone()).transitions().to_vec();
    let (input, steps) = (fanned.input().clone(), vec![each, handler]);
    let parts =
        WorkflowParts { name: "fan".into(), input, steps, transitions, ..Default::default() };
    submit(&engine, Arc::new(Workflow::try_from(parts).unwrap())).await;
    pass(200).await;
    let calls = acts.calls();
    let (each, mend): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.step == "each");
    assert_eq!((each.len(), mend.len()), (3, 1));
    assert!(each[1..].iter().all(|call| call.cancelled.is_cancelled()));
    assert!(!mend[0].cancelled.is_cancelled());
}
