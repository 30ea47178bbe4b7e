//! Heartbeats (X1): they keep an attempt going, a missed one ends it, their progress reaches the
//! next attempt.

use std::sync::Arc;
use std::time::Duration;

use retrial::action::{Call, Context, Registry, Reports};
use retrial::engine::{Config, Engine};
use retrial::failure::{ErrorCode, Failure, RetryKind};
use retrial::policy::Policy;
use retrial::run::{Event, Outcome, RunId};
use retrial::runtime::TokioRuntime;
use retrial::store::Store as _;
use retrial::time::Nanos;
use retrial::workflow::{Step, Workflow};
use serde_json::json;

use crate::kit::*;

const LIMIT: Nanos = Nanos::from_secs(3);

/// One step that must give a heartbeat every 3 s, three attempts.
fn beating(policy: Policy) -> Arc<Workflow> {
    let a = step("a", policy, &[], json!({}));
    workflow(vec![Step { heartbeat_timeout: Some(LIMIT), ..a }])
}

fn shared() -> Config {
    Config { sole_owner: false, ..Config::default() }
}

/// Gives a heartbeat every `every` ms, `count` times, and then nothing more.
async fn beats(call: &Call, every: u64, count: u64) {
    for n in 1..=count {
        pass(every).await;
        call.reports.beat(Some(json!({ "done": n }).to_string().into()));
    }
}

fn failures(history: &[retrial::run::Recorded]) -> Vec<(String, RetryKind)> {
    let failure = |r: &retrial::run::Recorded| match &r.event {
        Event::AttemptFailed { failure, .. } => {
            Some((failure.code().as_str().to_owned(), failure.kind()))
        }
        _ => None,
    };
    history.iter().filter_map(failure).collect()
}

// X1: for as long as heartbeats come, the attempt goes on, over many leases.
#[tokio::test(start_paused = true)]
async fn x1_heartbeats_keep_an_attempt_going() {
    let acts = Acts::new(|call: Call| async move {
        beats(&call, 2_900, 50).await;
        Ok(json!("done"))
    });
    let store = Watched::new();
    let _other = start(&store, &acts, shared()).await;
    let engine = start(&store, &acts, shared()).await;
    let run = submit(&engine, beating(patient(3))).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(acts.calls().len(), 1);
}

// X1, R10, R11: the node itself ends an attempt that misses a heartbeat, whatever the store says of
// leases; it is a timeout of its own, and counts against the retries that timeouts may cause.
#[tokio::test(start_paused = true)]
async fn x1_a_missed_heartbeat_ends_the_attempt_early() {
    let (store, acts) = (
        Watched::new(),
        Acts::new(|call: Call| async move {
            beats(&call, 2_000, 2).await;
            std::future::pending().await
        }),
    );
    store.hide_expired();
    let engine = start(&store, &acts, Config::default()).await;
    let policy = Policy::builder()
        .attempts(9)
        .timeout_retries(1)
        .attempt_timeout(Nanos::from_secs(600))
        .build()
        .unwrap();
    let run = submit(&engine, beating(policy)).await;
    let Outcome::Failed { error } = soon(engine.outcome(run)).await.unwrap().outcome else {
        panic!("it did not fail")
    };
    assert_eq!((error.code.as_str(), error.attempt), (ErrorCode::HEARTBEAT_TIMEOUT, 2));
    let calls = acts.calls();
    assert!(calls.len() == 2 && calls.iter().all(|c| c.cancelled.is_cancelled()));
    assert!(calls.iter().all(|c| c.heartbeat_timeout == Some(LIMIT)));
    let history = history(&store, run).await;
    assert_eq!(failed(&history, 1).since(started(&history, 1)).as_millis(), 7_000);
    let missed = (ErrorCode::HEARTBEAT_TIMEOUT.to_owned(), RetryKind::Timeout);
    assert_eq!(failures(&history), [missed.clone(), missed]);
    let Event::AttemptFailed { failure, .. } = &history[3].event else { panic!("{history:#?}") };
    assert!(failure.is_a("TimeoutError"));
}

// X1: the lease does not outlive a missed heartbeat: another node finds it when the first is gone,
// before a lease would end.
#[tokio::test(start_paused = true)]
async fn x1_a_missed_heartbeat_is_found_when_the_node_is_gone() {
    let store = Watched::new();
    let hangs = Acts::new(|call: Call| async move {
        beats(&call, 1_000, 1_000).await;
        Ok(json!(null))
    });
    let works = hangs.beside(|call: Call| async move { Ok(json!(call.progress)) });
    let config = Config { lease: Nanos::from_secs(30), ..shared() };
    let lost = start(&store, &hangs, config.clone()).await;
    let run = submit(&lost, beating(patient(3))).await;
    pass(60_500).await;
    assert_eq!(hangs.calls().len(), 1);
    let dropped = store.clock().await.unwrap();
    drop(lost);
    let other = start(&store, &works, config).await;
    let ended = soon(other.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    let history = history(&store, run).await;
    let missed = (ErrorCode::HEARTBEAT_TIMEOUT.to_owned(), RetryKind::Timeout);
    assert_eq!(failures(&history), [missed]);
    let waited = failed(&history, 1).since(dropped);
    // 3 s, and the third of a lease that a heartbeat may take to reach the store.
    assert!(waited > Nanos::from_secs(10) && waited <= Nanos::from_millis(14_000), "{waited}");
    // Progress is brought once a second here, so the last or the last but one has come.
    let seen = ended.state.result(ended.state.tasks().next().unwrap().0).unwrap();
    let seen = seen["done"].as_u64().unwrap();
    assert!(seen == 59 || seen == 60, "{seen}");
}

// X1: where no heartbeat is asked for, the progress of those that come is brought all the same.
#[tokio::test(start_paused = true)]
async fn x1_progress_outlives_its_node_without_a_limit() {
    let store = Watched::new();
    let hangs = Acts::new(|call: Call| async move {
        beats(&call, 1_000, 1_000).await;
        Ok(json!(null))
    });
    let works = hangs.beside(|call: Call| async move { Ok(json!(call.progress)) });
    let config = Config { lease: Nanos::from_secs(3), ..shared() };
    let lost = start(&store, &hangs, config.clone()).await;
    let run = submit(&lost, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(60_500).await;
    drop(lost);
    let other = start(&store, &works, config).await;
    let ended = soon(other.outcome(run)).await.unwrap();
    let seen = ended.state.result(ended.state.tasks().next().unwrap().0).unwrap();
    let seen = seen["done"].as_u64().unwrap();
    assert!(seen == 59 || seen == 60, "{seen}");
}

// X1: what an action gives while a renewal is under way is brought by the next one.
#[tokio::test(start_paused = true)]
async fn x1_progress_that_comes_during_a_renewal_is_brought_too() {
    let store = Watched::new();
    let hangs = Acts::new(|call: Call| async move {
        beats(&call, 130, 9).await;
        std::future::pending().await
    });
    let works = hangs.beside(|call: Call| async move { Ok(json!(call.progress)) });
    let config = Config { lease: Nanos::from_secs(3), ..shared() };
    store.answer_renewals_late(Duration::from_millis(500));
    let lost = start(&store, &hangs, config.clone()).await;
    let run = submit(&lost, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(5_000).await;
    drop(lost);
    let other = start(&store, &works, config).await;
    let ended = soon(other.outcome(run)).await.unwrap();
    let seen = ended.state.result(ended.state.tasks().next().unwrap().0).unwrap();
    assert_eq!(**seen, json!({ "done": 9 }));
}

// X1: a node that dies loses its lease before a heartbeat is missed where that is allowed to take
// longer: that is a lost lease, as ever.
#[tokio::test(start_paused = true)]
async fn x1_a_lease_ends_before_a_heartbeat_that_may_take_longer() {
    let store = Watched::new();
    let hangs = Acts::new(|_: Call| std::future::pending());
    let works = hangs.beside(|_: Call| async move { Ok(json!(null)) });
    let config = Config { lease: Nanos::from_secs(3), ..shared() };
    let lost = start(&store, &hangs, config.clone()).await;
    let a = step("a", patient(3), &[], json!({}));
    let slow = Step { heartbeat_timeout: Some(Nanos::from_secs(60)), ..a };
    let run = submit(&lost, workflow(vec![slow])).await;
    pass(20_000).await;
    drop(lost);
    let other = start(&store, &works, config).await;
    assert_eq!(soon(other.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let lost = (ErrorCode::LEASE_LOST.to_owned(), RetryKind::LeaseLost);
    assert_eq!(failures(&history(&store, run).await), [lost]);
}

/// The world of registered functions.
type Typed = (TokioRuntime, Arc<Watched>, Registry);

async fn registered(store: &Arc<Watched>, registry: Registry) -> Engine<Typed> {
    let runtime = TokioRuntime::current();
    Engine::start(runtime, Arc::clone(store), registry, Config::default(), Vec::new()).await
}

async fn seen(store: &Arc<Watched>, engine: &Engine<Typed>, run: RunId) -> serde_json::Value {
    let ended = soon(engine.outcome(run)).await.unwrap();
    let history = history(store, run).await;
    assert_eq!(ended.outcome, Outcome::Completed, "{history:#?}");
    ended.state.result(ended.state.tasks().next().unwrap().0).unwrap().as_ref().clone()
}

// X1: progress given a moment before the failure reaches the next attempt with the failure's own
// commit, and the attempts in between need give none.
#[tokio::test(start_paused = true)]
async fn x1_progress_reaches_the_next_attempt() {
    let store = Watched::new();
    let mut registry = Registry::new();
    registry.register("act", |context: Context| async move {
        let seen: Option<Vec<u32>> = context.progress()?;
        if context.attempt() == 1 {
            assert_eq!(seen, None);
            context.heartbeat([1])?;
            context.heartbeat([1, 2])?;
            context.beat();
            return Err(Failure::http(503, "at the third"));
        }
        match context.attempt() {
            2 => Err(Failure::http(503, "at once")),
            _ => Ok(json!({ "seen": seen, "attempt": context.attempt() })),
        }
    });
    let engine = registered(&store, registry).await;
    let run = submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    assert_eq!(seen(&store, &engine, run).await, json!({ "seen": [1, 2], "attempt": 3 }));
}

// X1, H17: what was reported outlives a pause, whether the run was paused before the failure or in
// the delay after it.
#[tokio::test(start_paused = true)]
async fn x1_h17_progress_is_carried_over_a_pause() {
    for pause_at in [200, 1_000] {
        let store = Watched::new();
        let mut registry = Registry::new();
        registry.register("act", |context: Context| async move {
            let seen: Option<u32> = context.progress()?;
            if context.attempt() == 1 {
                context.heartbeat(7)?;
                pass(500).await;
                return Err(Failure::http(503, "busy"));
            }
            Ok(json!(seen))
        });
        let engine = registered(&store, registry).await;
        let run = submit(&engine, workflow(vec![step("a", patient(2), &[], json!({}))])).await;
        pass(pause_at).await;
        engine.pause(run, "let me look").await.unwrap();
        pass(600_000).await;
        engine.resume(run).await.unwrap();
        assert_eq!(seen(&store, &engine, run).await, json!(7), "paused at {pause_at} ms");
    }
}

// X1: what is too large or of another shape is a permanent failure of the action's own.
#[tokio::test(start_paused = true)]
async fn x1_progress_is_bounded_and_typed() {
    let store = Watched::new();
    let mut registry = Registry::new();
    registry.register("act", |context: Context| async move {
        let large = "x".repeat(Reports::MAX_PROGRESS);
        let refused = context.heartbeat(large).unwrap_err();
        assert_eq!(refused.code().as_str(), "PROGRESS_TOO_LARGE");
        if context.attempt() == 1 {
            context.heartbeat("x".repeat(Reports::MAX_PROGRESS - 2))?;
            return Err(Failure::http(503, "busy"));
        }
        let refused = context.progress::<u32>().unwrap_err();
        assert!(!refused.message().contains("xxx"), "{refused}");
        Ok(json!(refused.code().as_str()))
    });
    let engine = registered(&store, registry).await;
    let run = submit(&engine, workflow(vec![step("a", patient(2), &[], json!({}))])).await;
    assert_eq!(seen(&store, &engine, run).await, json!("BAD_PROGRESS"));
}

// X15, W15: an attempt without a timeout of its own is told its node's, and is cut there although it
// beats. What the first node recorded holds on another one, which has another setting.
#[tokio::test(start_paused = true)]
async fn x15_heartbeats_do_not_extend_the_default_timeout() {
    for node_dies in [false, true] {
        let store = Watched::new();
        let acts = Acts::new(|call: Call| async move {
            beats(&call, 1_000, 1_000).await;
            Ok(json!(null))
        });
        let limit = Nanos::from_secs(40);
        let first = Config { attempt_timeout: Some(limit), ..shared() };
        let first = start(&store, &acts, first).await;
        let run = submit(&first, beating(patient(1))).await;
        pass(39_500).await;
        let calls = acts.calls();
        assert!(calls.len() == 1 && calls[0].timeout == Some(limit), "{calls:?}");
        let second = Config { attempt_timeout: None, ..shared() };
        let second = start(&store, &acts, second).await;
        if node_dies {
            drop(first);
        }
        let ended = soon(second.outcome(run)).await.unwrap();
        let Outcome::Failed { error } = ended.outcome else { panic!("{:?}", ended.outcome) };
        assert_eq!((error.code.as_str(), error.attempt), (ErrorCode::TIMEOUT, 1));
        let history = history(&store, run).await;
        let cut = failed(&history, 1).since(started(&history, 1));
        assert!(cut >= limit && cut < Nanos::from_secs(43), "{cut}");
    }
}

// C4: its node cuts an attempt at its timeout, however well it beats.
#[tokio::test(start_paused = true)]
async fn c4_heartbeats_do_not_hide_the_attempts_timeout() {
    let acts = Acts::new(|call: Call| async move {
        beats(&call, 500, 50).await;
        Ok(json!("done"))
    });
    let store = Watched::new();
    store.hide_expired();
    let engine = start(&store, &acts, Config::default()).await;
    let policy = Policy::builder().attempts(1).attempt_timeout(Nanos::from_secs(5)).build();
    let run = submit(&engine, beating(policy.unwrap())).await;
    assert!(matches!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Failed { .. }));
    let history = history(&store, run).await;
    assert_eq!(failures(&history), [("TIMEOUT".to_owned(), RetryKind::Timeout)]);
    assert_eq!(failed(&history, 1).since(started(&history, 1)), Nanos::from_secs(5));
}
