//! One task's attempts: retried after its delays, cut at its timeout, cancelled at once, its
//! failure routed to a handler.

use std::time::Duration;

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::policy::{ActionKind, Policy};
use retrial::run::Outcome;
use retrial::time::Nanos;
use retrial::workflow::StepIx;
use serde_json::json;

use crate::kit::*;

/// Fails the first `fail` attempts of each task with a 503.
fn flaky(fail: u32) -> Acts {
    Acts::new(move |call: Call| async move {
        match call.attempt <= fail {
            true => Err(Failure::http(503, "busy")),
            false => Ok(json!({ "attempt": call.attempt, "args": call.args })),
        }
    })
}

/// An outcome that is there when the time is up counts.
#[tokio::test(start_paused = true)]
async fn w14_an_outcome_at_the_very_end_of_its_time_counts() {
    let acts = Acts::new(|_| async {
        pass(7_000).await;
        Ok(json!("just in time"))
    });
    let engine = alone(&acts, Config::default()).await;
    let policy = Policy::builder().attempts(1).attempt_timeout(Nanos::from_secs(7)).build();
    let run = submit(&engine, workflow(vec![step("a", policy.unwrap(), &[], json!({}))])).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

fn hanging() -> Acts {
    Acts::new(|_| std::future::pending())
}

// W8, W9, W13: retried after the delays, with the same task, until it succeeds.
#[tokio::test(start_paused = true)]
async fn w9_w13_retries_until_it_succeeds() {
    let acts = Acts::new(|call: Call| async move {
        match call.step == "a" && call.attempt < 3 {
            true => Err(Failure::http(503, "busy")),
            false => Ok(json!({ "attempt": call.attempt, "args": call.args })),
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let of_a = json!({ "n": "${steps.a.result.attempt}" });
    let steps = vec![
        step("a", patient(3), &[], json!({})),
        step("b", ActionKind::ToolCall.built_in(), &[0], of_a),
    ];
    let begun = tokio::time::Instant::now();
    let run = submit(&engine, workflow(steps)).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(acts.calls().len(), 4);
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(4), "{took:?}");
    let b = ended.state.left_by(StepIx(1)).unwrap();
    assert_eq!(b["result"]["args"], json!({ "n": 3 }));
    engine.shutdown().await;
}

// A14, W15: every attempt has the task's own receipt, its number and what is left.
#[tokio::test(start_paused = true)]
async fn a14_w15_an_attempt_knows_what_it_is() {
    let acts = flaky(2);
    let engine = alone(&acts, Config::default()).await;
    let policy = Policy::builder().attempts(3).attempt_timeout(Nanos::from_secs(7)).build();
    let steps = vec![step("a", policy.unwrap(), &[], json!({}))];
    let run = submit(&engine, workflow(steps)).await;
    soon(engine.outcome(run)).await.unwrap();
    let calls = acts.calls();
    let told: Vec<_> = calls.iter().map(|c| (c.attempt, c.retries_left, c.timeout)).collect();
    let limit = Some(Nanos::from_secs(7));
    assert_eq!(told, [(1, Some(2), limit), (2, Some(1), limit), (3, Some(0), limit)]);
    assert!(calls.iter().all(|c| c.receipt() == calls[0].receipt() && c.run == run));
}

// C4, W14: the node itself cuts an attempt at its timeout, whatever the store says of leases.
#[tokio::test(start_paused = true)]
async fn c4_cuts_an_attempt_at_its_timeout() {
    let (store, acts) = (Watched::new(), hanging());
    store.hide_expired();
    let engine = start(&store, &acts, Config::default()).await;
    let policy = Policy::builder().attempts(2).attempt_timeout(Nanos::from_secs(5)).build();
    let run = submit(&engine, workflow(vec![step("a", policy.unwrap(), &[], json!({}))])).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    let Outcome::Failed { error } = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert_eq!((error.code.as_str(), error.attempt), ("TIMEOUT", 2));
    let calls = acts.calls();
    assert!(calls.len() == 2 && calls.iter().all(|c| c.cancelled.is_cancelled()));
    let history = history(&store, run).await;
    assert_eq!(failed(&history, 1).since(started(&history, 1)).as_millis(), 5_000);
}

// H12: cancelling during an attempt and during a delay ends the run at once.
#[tokio::test(start_paused = true)]
async fn h12_cancels_at_once() {
    for acts in [hanging(), flaky(9)] {
        let engine = alone(&acts, Config::default()).await;
        let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
        pass(1_500).await;
        let (begun, before) = (tokio::time::Instant::now(), acts.calls().len());
        engine.cancel(run, "enough").await.unwrap();
        let ended = soon(engine.outcome(run)).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Cancelled { reason: "enough".into() });
        assert_eq!(begun.elapsed(), Duration::ZERO);
        pass(600_000).await;
        assert_eq!(acts.calls().len(), before, "nothing starts after the end");
    }
}

// H12: a command that comes when its run has just ended is answered, not passed on without end.
#[tokio::test(start_paused = true)]
async fn h12_more_cancels_than_one_commit_takes_are_all_answered() {
    let engine = alone(&hanging(), Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(1), &[], json!({}))])).await;
    let mut users = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let engine = engine.clone();
        users.spawn(async move { engine.cancel(run, "enough").await });
    }
    while let Some(answer) = soon(users.join_next()).await {
        answer.unwrap().unwrap();
    }
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Cancelled { reason: "enough".into() });
}

// C5, C6, decision 14: the handler's arguments see the `_last_error` that it was routed.
#[tokio::test(start_paused = true)]
async fn c5_a_handler_sees_last_error() {
    let acts = Acts::new(|call: Call| async move {
        match call.step.as_str() {
            "work" => Err(Failure::http(503, "busy")),
            _ => Ok(call.args),
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let seen = json!({
        "code": "${_last_error.code}",
        "attempt": "${_last_error.attempt}",
        "words": "step ${_last_error.node_id} gave ${_last_error.code}",
        "action": "${_last_error.action_id}",
    });
    let handler = step("handler", ActionKind::ToolCall.built_in(), &[], seen);
    let workflow = handled(step("work", patient(2), &[], json!({})), handler);
    let run = submit(&engine, workflow).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    let result = &ended.state.left_by(StepIx(1)).unwrap()["result"];
    let expected = json!({
        "code": "503", "attempt": 2, "words": "step work gave 503", "action": "act",
    });
    assert_eq!(*result, expected);
}
