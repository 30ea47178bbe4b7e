//! Several engines on one store: they share the work, no attempt runs twice at once, and what a lost
//! node held comes back when its lease ends.

use std::sync::Arc;

use retrial::action::Call;
use retrial::engine::{Config, Engine};
use retrial::failure::{ErrorCode, RetryKind};
use retrial::policy::Policy;
use retrial::run::{Event, Outcome};
use retrial::runtime::TokioRuntime;
use retrial::store::Store as _;
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

fn shared(concurrency: usize) -> Config {
    let lease = Nanos::from_secs(3);
    Config { sole_owner: false, concurrency, lease, ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn two_engines_share_the_work_of_one_store() {
    let store = Watched::new();
    let by_first = Acts::new(|call: Call| async move {
        pass(20 + u64::from(call.task.item % 7)).await;
        Ok(json!("first"))
    });
    let by_second = by_first.beside(|call: Call| async move {
        pass(20 + u64::from(call.task.item % 5)).await;
        Ok(json!("second"))
    });
    let engines =
        [start(&store, &by_first, shared(4)).await, start(&store, &by_second, shared(4)).await];
    let mut runs = Vec::new();
    for number in 0..4 {
        runs.push(submit(&engines[number % 2], fan_out(25, patient(2))).await);
    }
    let mut by = std::collections::BTreeMap::<String, u32>::new();
    for (number, run) in runs.into_iter().enumerate() {
        // Either node knows of the other's runs.
        let ended = soon(engines[(number + 1) % 2].outcome(run)).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Completed);
        for (task, _) in ended.state.tasks() {
            let who = ended.state.result(task).unwrap().as_str().unwrap().to_owned();
            *by.entry(who).or_default() += 1;
        }
    }
    assert_eq!(by.values().sum::<u32>(), 100);
    assert!(by.len() == 2 && by.values().all(|n| *n >= 10), "{by:?}");
    let calls = by_first.calls();
    assert!(calls.len() == 100 && calls.iter().all(|c| c.attempt == 1), "{} calls", calls.len());
    assert!(!by_first.ever_twice());
}

// A node that starts beside others takes its share while it still looks through what they have.
#[tokio::test(start_paused = true)]
async fn a_node_that_shares_its_store_claims_while_it_recovers() {
    let store = Watched::new();
    let acts = Acts::new(|_| async { Ok(json!(1)) });
    store.hold_recovery(true);
    let engine = start(&store, &acts, shared(4)).await;
    let run = submit(&engine, fan_out(3, patient(2))).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

// A node that worked on a run which another one ended has nothing to tell of it, so nobody waits
// for it there.
#[tokio::test(start_paused = true)]
async fn each_node_that_shared_a_run_knows_its_outcome_at_once() {
    let store = Watched::new();
    let acts = Acts::new(|call: Call| async move {
        pass(20 + u64::from(call.task.item % 7)).await;
        Ok(json!(1))
    });
    let began = tokio::time::Instant::now();
    let engines = [start(&store, &acts, shared(4)).await, start(&store, &acts, shared(4)).await];
    let run = submit(&engines[0], fan_out(30, patient(2))).await;
    for engine in &engines {
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
    // Thirty at eight a time, and a second until a node asks the store again.
    let took = began.elapsed();
    assert!(took.as_millis() < 2_000, "it took {took:?}");
}

// Decision 12, R10: the lease of a node that is gone ends; the attempt counts, and another follows.
#[tokio::test(start_paused = true)]
async fn decision_12_the_work_of_a_lost_node_is_taken_over_after_its_lease() {
    let store = Watched::new();
    let hangs = Acts::new(|_: Call| std::future::pending());
    let works = hangs.beside(|call: Call| async move { Ok(json!(call.attempt)) });
    let lost = start(&store, &hangs, shared(4)).await;
    let run = submit(&lost, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(10_000).await;
    // Held for three leases by renewing it: nobody else may have it.
    let other = start(&store, &works, shared(4)).await;
    pass(10_000).await;
    assert_eq!(hangs.calls().len(), 1);
    let dropped = store.clock().await;
    drop(lost);
    let ended = soon(other.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    let history = history(&store, run).await;
    assert_eq!(
        names(&history)[2..],
        [
            "attempt_started",
            "attempt_failed",
            "retry_scheduled",
            "attempt_started",
            "task_succeeded",
            "step_succeeded",
            "run_ended",
        ]
    );
    let [failed, scheduled] = &history[3..5] else { panic!("{history:#?}") };
    let Event::AttemptFailed { failure, .. } = &failed.event else { panic!("{failed:?}") };
    assert_eq!(failure.code().as_str(), ErrorCode::LEASE_LOST);
    let Event::RetryScheduled { kind, .. } = scheduled.event else { panic!("{scheduled:?}") };
    assert_eq!(kind, RetryKind::LeaseLost);
    // The last renewal was at most a third of a lease before the end.
    let waited = failed.at.since(dropped.unwrap());
    let (least, most) = (Nanos::from_secs(2), Nanos::from_millis(4_100));
    assert!(waited >= least && waited <= most, "{waited}");
    assert_eq!(ended.state.tasks().next().unwrap().1.attempt, 2);
}

// Promise 6: what another node ended is let go of here, and nothing else.
#[tokio::test(start_paused = true)]
async fn promise_6_one_lost_lease_ends_one_attempt() {
    let store = Watched::new();
    let slow = Acts::new(|_: Call| async {
        pass(20_000).await;
        Ok(json!(1))
    });
    let node = start(&store, &slow, shared(4)).await;
    let one = || workflow(vec![step("a", patient(3), &[], json!({}))]);
    let (cancelled, other) = (submit(&node, one()).await, submit(&node, one()).await);
    pass(5_000).await;
    let elsewhere = start(&store, &slow, shared(4)).await;
    elsewhere.cancel(cancelled, "no more").await.unwrap();
    // Some renewals, each of which is refused one of its leases.
    assert_eq!(soon(node.outcome(other)).await.unwrap().outcome, Outcome::Completed);
    let attempts: Vec<u32> =
        slow.calls().iter().filter(|call| call.run == other).map(|call| call.attempt).collect();
    assert_eq!(attempts, [1]);
    assert!(matches!(
        soon(node.outcome(cancelled)).await.unwrap().outcome,
        Outcome::Cancelled { .. }
    ));
}

// W14, R6, decision 12: the attempt's own deadline counts when its node is gone, and says timeout.
#[tokio::test(start_paused = true)]
async fn w14_a_timeout_holds_when_the_worker_is_gone() {
    let store = Watched::new();
    let hangs = Acts::new(|_: Call| std::future::pending());
    let works = hangs.beside(|call: Call| async move { Ok(json!(call.attempt)) });
    let lost = start(&store, &hangs, shared(4)).await;
    let limit = Nanos::from_secs(2);
    let policy = Policy::builder().attempts(2).attempt_timeout(limit).build().unwrap();
    let run = submit(&lost, workflow(vec![step("a", policy, &[], json!({}))])).await;
    pass(500).await;
    drop(lost);
    let other = start(&store, &works, shared(4)).await;
    assert_eq!(soon(other.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let history = history(&store, run).await;
    let Event::AttemptFailed { failure, .. } = &history[3].event else { panic!("{history:#?}") };
    assert_eq!(failure.code().as_str(), ErrorCode::TIMEOUT);
    let took = failed(&history, 1).since(started(&history, 1));
    assert!(took >= limit && took <= limit.saturating_add(SECOND), "{took}");
}

// On a store of its own a new process need not wait: whoever held the lease is dead.
#[tokio::test(start_paused = true)]
async fn a_sole_owner_takes_its_own_work_up_at_once() {
    let store = Watched::new();
    let hangs = Acts::new(|_: Call| std::future::pending());
    let lost = start(&store, &hangs, Config::default()).await;
    let run = submit(&lost, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(100).await;
    drop(lost);
    let works = hangs.beside(|call: Call| async move { Ok(json!(call.attempt)) });
    let dropped = store.clock().await.unwrap();
    let next = start(&store, &works, Config::default()).await;
    soon(next.outcome(run)).await.unwrap();
    let history = history(&store, run).await;
    assert!(failed(&history, 1).since(dropped) <= Nanos::from_millis(100));
    assert_eq!(started(&history, 2).since(failed(&history, 1)), SECOND);
}

// It works meanwhile, and its own attempts are no dead process's.
#[tokio::test(start_paused = true)]
async fn a_sole_owner_that_recovers_ends_the_leases_of_the_dead_alone() {
    let store = Watched::new();
    let one_step = || workflow(vec![step("a", patient(3), &[], json!({}))]);
    let hangs = Acts::new(|_: Call| std::future::pending());
    let lost = start(&store, &hangs, Config::default()).await;
    let left = submit(&lost, one_step()).await;
    pass(100).await;
    drop(lost);
    let works = hangs.beside(|call: Call| async move {
        pass(500).await;
        Ok(json!(call.attempt))
    });
    store.hold_recovery(true);
    let next = start(&store, &works, Config::default()).await;
    let fresh = submit(&next, one_step()).await;
    pass(100).await;
    assert_eq!(names(&history(&store, fresh).await).last(), Some(&"attempt_started"));
    store.hold_recovery(false);
    for run in [left, fresh] {
        assert_eq!(soon(next.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
    let failures = |names: Vec<&str>| names.iter().filter(|n| **n == "attempt_failed").count();
    assert_eq!(failures(names(&history(&store, left).await)), 1);
    assert_eq!(failures(names(&history(&store, fresh).await)), 0);
}

// A node waits for more places to ask for more at once, but only for as long as that takes.
#[tokio::test(start_paused = true)]
async fn one_free_place_is_enough_to_go_on() {
    let store = Watched::new();
    let acts = Acts::new(|call: Call| async move {
        pass(if call.task.item < 3 { 100_000 } else { 20 }).await;
        Ok(json!(1))
    });
    let engine = start(&store, &acts, Config { action_share: 100, ..shared(4) }).await;
    let run = submit(&engine, fan_out(23, patient(2))).await;
    pass(10_000).await;
    assert_eq!(acts.calls().len(), 23);
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

// What was due before the node started is claimed at once: nobody waits for its first poll.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_claims_what_is_due_at_once() {
    let store = Watched::new();
    let acts = Acts::new(|_| async { Ok(json!(1)) });
    let config = Config { poll: Nanos::from_secs(3_600), ..shared(4) };
    let runtime = TokioRuntime::current();
    let idle =
        Engine::<Test>::idle(runtime, Arc::clone(&store), acts.clone(), config.clone()).await;
    let run = submit(&idle, workflow(vec![step("a", patient(1), &[], json!({}))])).await;
    drop(idle);
    let begun = tokio::time::Instant::now();
    let _engine = start(&store, &acts, config).await;
    while acts.calls().is_empty() {
        pass(1).await;
    }
    assert_eq!(acts.calls()[0].run, run);
    let took = begun.elapsed().as_millis();
    assert!(took < 100, "{took} ms");
}
