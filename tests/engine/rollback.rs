//! Rollback and compensation (C18) through the whole engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::run::{Event, Outcome, RunId};
use retrial::workflow::{Rollback, StepIx, Workflow, WorkflowParts};
use serde_json::json;

use crate::kit::*;

/// `charge`, then `ship`, and a refund for the charge.
pub(crate) fn saga(rollback: Rollback) -> Arc<Workflow> {
    let mut refund = step("refund", patient(3), &[], json!({ "undoes": "${result.charge}" }));
    refund.compensates = Some(StepIx(0));
    let charge = step("charge", patient(2), &[], json!({}));
    let ship = step("ship", patient(1), &[0], json!({}));
    let steps = vec![charge, ship, refund];
    let parts = WorkflowParts { name: "saga".into(), steps, rollback, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// Charges; ships never; refunds at the second attempt.
fn acts() -> Acts {
    Acts::new(|call: Call| async move {
        match (call.step.as_str(), call.attempt) {
            ("charge", _) => Ok(json!({ "charge": 7 })),
            ("ship", _) => Err(Failure::http(409, "sold out")),
            ("refund", 1) => Err(Failure::http(503, "busy")),
            _ => Ok(call.args),
        }
    })
}

/// Waits until so many attempts have begun.
async fn called(acts: &Acts, count: usize) {
    while acts.calls().len() < count {
        pass(1).await;
    }
}

fn steps(acts: &Acts) -> Vec<String> {
    acts.calls().iter().map(|c| format!("{} {} {}", c.step, c.attempt, c.args)).collect()
}

#[tokio::test(start_paused = true)]
async fn c18_a_failed_run_is_rolled_back_by_its_compensations_with_their_retries() {
    let (store, acts) = (Watched::new(), acts());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, saga(Rollback::OnFailure)).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert!(matches!(&ended.outcome, Outcome::Failed { error } if error.code.as_str() == "409"));
    let rollback = ended.state.rollback().unwrap();
    assert_eq!((rollback.compensated, rollback.complete), (1, Some(true)));
    let refund = |n: u32| format!("refund {n} {{\"undoes\":7}}");
    let expected = ["charge 1 {}".to_owned(), "ship 1 {}".to_owned(), refund(1), refund(2)];
    assert_eq!(steps(&acts), expected);
    let receipts: Vec<_> = acts.calls().iter().map(|c| c.receipt()).collect();
    assert!(receipts[2] == receipts[3] && receipts[2] != receipts[0], "a key of its own");
}

#[tokio::test(start_paused = true)]
async fn c18_a_run_is_rolled_back_on_demand_and_its_attempt_called_off() {
    let store = Watched::new();
    let acts = Acts::new(|call: Call| async move {
        match call.step.as_str() {
            "ship" => std::future::pending().await,
            _ => Ok(json!({ "charge": 7 })),
        }
    });
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, saga(Rollback::Never)).await;
    called(&acts, 2).await;
    engine.rollback(run, "wrong address").await.unwrap();
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert!(matches!(&ended.outcome, Outcome::Cancelled { reason } if reason == "wrong address"));
    assert_eq!(ended.state.rollback().unwrap().complete, Some(true));
    assert_eq!(steps(&acts).last().unwrap(), "refund 1 {\"undoes\":7}");
    engine.rollback(run, "again").await.unwrap();
    assert_eq!(engine.state(run).await.unwrap().version(), ended.state.version());
    let unknown = RunId::from_random(1, 1);
    assert!(engine.rollback(unknown, "nobody").await.is_err());
}

/// What works when a rollback begins is called off at once, though compensations take their time.
#[tokio::test(start_paused = true)]
async fn c18_no_attempt_works_on_beside_the_compensations() {
    struct Works(Arc<AtomicBool>);
    impl Drop for Works {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let works = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&works);
    let acts = Acts::new(move |call: Call| {
        let works = Arc::clone(&seen);
        async move {
            match call.step.as_str() {
                "ship" => {
                    works.store(true, Ordering::SeqCst);
                    let _works = Works(works);
                    std::future::pending().await
                }
                "refund" => {
                    pass(5_000).await;
                    Ok(call.args)
                }
                _ => Ok(json!({ "charge": 7 })),
            }
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let run = submit(&engine, saga(Rollback::Never)).await;
    called(&acts, 2).await;
    assert!(works.load(Ordering::SeqCst));
    engine.rollback(run, "wrong address").await.unwrap();
    pass(100).await;
    assert!(!works.load(Ordering::SeqCst), "the attempt works on");
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.state.rollback().unwrap().complete, Some(true));
}

#[tokio::test(start_paused = true)]
async fn c18_w12_a_rollback_goes_on_after_a_restart_and_undoes_nothing_twice() {
    let (store, acts) = (Watched::new(), acts());
    let config = Config::default();
    let engine = start(&store, &acts, config.clone()).await;
    let run = submit(&engine, saga(Rollback::Always)).await;
    // The first attempt of the refund has failed; the second is due in a while.
    called(&acts, 3).await;
    pass(1).await;
    drop(engine);
    let engine = start(&store, &acts, config).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.state.rollback().unwrap().complete, Some(true));
    let refunds = steps(&acts).iter().filter(|s| s.starts_with("refund")).count();
    assert_eq!(refunds, 2);
    let begun = |e: &Event| matches!(e, Event::CompensationStarted { .. });
    let count = history(&store, run).await.iter().filter(|r| begun(&r.event)).count();
    assert_eq!(count, 1);
}
