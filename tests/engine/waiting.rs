//! What waiting costs: who waits for an outcome reads little, and a run that waits is not in memory.

use retrial::action::Call;
use retrial::engine::{CommandError, Config};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Jitter, Policy, Shape};
use retrial::run::{Outcome, RunId};
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

fn each(delay: Nanos) -> Policy {
    let backoff = Backoff { shape: Shape::Fixed { base: delay }, jitter: Jitter::None, cap: None };
    Policy::builder().attempts(2).backoff(backoff).build().unwrap()
}

/// Fails at first, then succeeds.
fn at_second() -> Acts {
    Acts::new(|call: Call| async move {
        match call.attempt {
            1 => Err(Failure::http(503, "busy")),
            _ => Ok(json!(1)),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn who_waits_where_the_run_is_at_work_reads_nothing() {
    let store = Watched::new();
    let acts = Acts::new(|_| async { Ok(json!("done")) });
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, fan_out(30, patient(2))).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!((ended.outcome, store.loads()), (Outcome::Completed, 0));
    assert_eq!(ended.state, engine.state(run).await.unwrap(), "it is what the store has");
}

#[tokio::test(start_paused = true)]
async fn two_who_wait_for_one_run_both_have_its_end() {
    let store = Watched::new();
    let acts = Acts::new(|_| async {
        pass(100).await;
        Ok(json!("done"))
    });
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, fan_out(3, patient(2))).await;
    let (one, other) = tokio::join!(soon(engine.outcome(run)), soon(engine.outcome(run)));
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(store.loads(), 0, "neither has to ask the store");
}

/// Within a poll of one second, and without reading all of the run each time.
#[tokio::test(start_paused = true)]
async fn who_waits_elsewhere_looks_at_the_head() {
    let (store, acts) = (Watched::new(), at_second());
    let config = || Config { sole_owner: false, ..Config::default() };
    let first = start(&store, &acts, config()).await;
    let run = submit(&first, fan_out(1, each(Nanos::from_secs(600)))).await;
    pass(1_000).await;
    let (link, began) = (store.beside(), tokio::time::Instant::now());
    let second = start(
        &link,
        &acts.beside(|_| std::future::pending()),
        Config { concurrency: 0, ..config() },
    )
    .await;
    let ended = soon(second.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert!(began.elapsed().as_secs() <= 601, "{:?}", began.elapsed());
    assert!(link.loads() <= 20, "{} loads", link.loads());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_no_run_is_told() {
    let engine = alone(&at_second(), Config::default()).await;
    let none = RunId::from_random(1, 2);
    assert_eq!(soon(engine.outcome(none)).await, Err(CommandError::UnknownRun(none)));
}

/// It is loaded again for what happens to it: a retry that is due later than an idle run may stay has
/// let it go at once.
#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_long_leaves_memory_at_once() {
    for (delay, again) in [(10, 0), (3_600, 1)] {
        let (store, acts) = (Watched::new(), at_second());
        let engine = start(&store, &acts, Config::default()).await;
        let run = submit(&engine, fan_out(1, each(Nanos::from_secs(delay)))).await;
        pass(1_000).await;
        engine.pause(run, "a look").await.unwrap();
        // The command itself looks once at the run.
        assert_eq!(store.loads(), 1 + again, "a retry in {delay} s");
        engine.resume(run).await.unwrap();
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
        assert_eq!(acts.calls().len(), 2);
    }
}

/// What reaches a run while it leaves goes to its next lane.
#[tokio::test(start_paused = true)]
async fn what_reaches_a_run_that_leaves_is_not_lost() {
    let acts = at_second();
    let engine = alone(&acts, Config::default()).await;
    let flow = fan_out(2, each(Nanos::from_secs(3_600)));
    let mut runs = Vec::new();
    for _ in 0..20 {
        let run = submit(&engine, flow.clone()).await;
        pass(1).await;
        let (paused, resumed) = (engine.pause(run, "a look"), engine.resume(run));
        let (paused, resumed) = tokio::join!(soon(paused), soon(resumed));
        paused.and(resumed).unwrap();
        engine.resume(run).await.unwrap();
        runs.push(run);
    }
    for run in runs {
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
}

// A run ends elsewhere while an attempt of it goes on here. Who waits here is told when the store has it,
// and need not wait until the attempt's lease is renewed; nor does the attempt.
#[tokio::test(start_paused = true)]
async fn who_waits_beside_an_attempt_is_told_of_an_end_elsewhere() {
    let (store, acts) = (Watched::new(), Acts::new(|_| std::future::pending()));
    let config = || Config { sole_owner: false, ..Config::default() };
    let first = start(&store, &acts, config()).await;
    let run = submit(&first, fan_out(1, patient(1))).await;
    pass(500).await;
    assert_eq!(acts.calls().len(), 1);
    let second = start(&store.beside(), &acts, Config { concurrency: 0, ..config() }).await;
    let began = tokio::time::Instant::now();
    let (ended, cancelled) = tokio::join!(soon(first.outcome(run)), async {
        pass(500).await;
        second.cancel(run, "enough").await
    });
    cancelled.unwrap();
    assert!(matches!(ended.unwrap().outcome, Outcome::Cancelled { .. }));
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    assert!(acts.calls()[0].cancelled.is_cancelled(), "it is called off at once");
}
