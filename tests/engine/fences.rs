//! Tokens that are refused, and tokens that are good again: nothing else is lost with them, and
//! nothing that goes on is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::run::{Event, Outcome, RunId};
use retrial::store::{Answer, Commit, Committed, Fence, Request};
use retrial::time::Nanos;
use retrial::workflow::Step;
use serde_json::json;
use tokio::time::Instant;

use crate::kit::*;

async fn lost(store: &Watched, run: RunId) -> usize {
    let is_lost = |event: &Event| matches!(event, Event::AttemptFailed { failure, .. } if failure.code().as_str() == "LEASE_LOST");
    history(store, run).await.iter().filter(|recorded| is_lost(&recorded.event)).count()
}

// Decision 12, 16: where the store refuses one token of a commit, the outcomes of other tasks in it
// are recorded all the same.
#[tokio::test(start_paused = true)]
async fn decision_12_a_refused_token_takes_no_outcome_along() {
    let acts = Acts::new(|call: Call| async move {
        match (call.step.as_str(), call.attempt) {
            ("a", 1) => return Err(Failure::http(503, "busy")),
            ("b", _) => pass(2_000).await,
            ("c", _) => pass(900).await,
            _ => {}
        }
        Ok(json!(call.attempt))
    });
    let begun = Instant::now();
    let refused = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&refused);
    let way = move |request: &Request| {
        let Request::Commit(Commit { fences, .. }) = request else { return Way::default() };
        let passed = begun.elapsed();
        // While the answer to the end of `c` is under way, `a` is claimed again and `b` ends.
        let is_c = passed > Duration::from_millis(850) && passed < Duration::from_millis(950);
        let back = if is_c { Duration::from_secs(5) } else { Duration::ZERO };
        let [first, _, ..] = &fences[..] else { return Way { back, ..Way::default() } };
        let is_second = passed > Duration::from_secs(3) && !refuses.swap(true, Ordering::SeqCst);
        let at = retrial::time::Timestamp::default();
        let task = first.task();
        let instead = is_second.then_some(Answer::Commit(Committed::Fenced { task, at }));
        Way { back, instead, ..Way::default() }
    };
    let store = Watched::new();
    let engine = over(&store, way, &acts, Config::default()).await;
    let steps = ["a", "b", "c"].map(|id| step(id, patient(3), &[], json!({})));
    let run = submit(&engine, workflow(steps.to_vec())).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert!(refused.load(Ordering::SeqCst), "nothing was refused");
    let of = |id: &str| acts.calls().iter().filter(|call| call.step == id).count();
    assert_eq!((of("a"), of("b"), of("c")), (2, 1, 1));
    assert_eq!(lost(&store, run).await, 0);
}

// Decision 12: an attempt that lost its lease, and ends while the next one works, takes nothing of
// that one along: its lease is renewed.
#[tokio::test(start_paused = true)]
async fn decision_12_an_attempt_that_lost_its_lease_leaves_the_next_one_alone() {
    let acts = Acts::new(|call: Call| async move {
        pass(20_000).await;
        Ok(json!(call.attempt))
    });
    let (store, lease) = (Watched::new(), Nanos::from_secs(3));
    let begun = Instant::now();
    // The first renewals arrive when the lease has ended and the second attempt works.
    let late = move |request: &Request| {
        let until = Duration::from_secs(5).saturating_sub(begun.elapsed());
        let there = if matches!(request, Request::Renew(_)) { until } else { Duration::ZERO };
        Way { there, ..Way::default() }
    };
    let engine = over(&store, late, &acts, Config { lease, ..Config::default() }).await;
    let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert_eq!((lost(&store, run).await, acts.calls().len()), (1, 2));
}

// R6, R7: a lease that was renewed between another node's look and its commit is not ended.
#[tokio::test(start_paused = true)]
async fn r6_a_lease_that_is_renewed_late_holds() {
    let acts = Acts::new(|call: Call| async move {
        pass(20_000).await;
        Ok(json!(call.attempt))
    });
    let (store, lease) = (Watched::new(), Nanos::from_secs(3));
    let config = Config { lease, sole_owner: false, ..Config::default() };
    let begun = Instant::now();
    // Who looks for leases that have ended acts on what it saw two seconds later.
    let looks = |request: &Request| {
        let is_look = matches!(request, Request::Expired { .. });
        if is_look { Duration::from_secs(2) } else { Duration::ZERO }
    };
    // Its first renewals arrive a second after the end of the lease, in between.
    let late = move |request: &Request| {
        let until = Duration::from_secs(4).saturating_sub(begun.elapsed());
        let there = if matches!(request, Request::Renew(_)) { until } else { Duration::ZERO };
        Way { there, back: looks(request), ..Way::default() }
    };
    let engine = over(&store, late, &acts, config.clone()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(500).await;
    let slow = move |request: &Request| Way { back: looks(request), ..Way::default() };
    let sweeper = acts.beside(|call: Call| async move { Ok(json!(call.attempt)) });
    let _other = over(&store, slow, &sweeper, config).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert_eq!((lost(&store, run).await, acts.calls().len()), (0, 1));
}

/// A node whose commits from 1 s on arrive 9 s late, and its renewals from 7 s on a little, beside one
/// that looks for leases of 3 s that have ended.
async fn outcome_that_waits(acts: &Acts, of: Step) -> (Arc<Watched>, RunId) {
    let store = Watched::new();
    let config = Config { lease: Nanos::from_secs(3), sole_owner: false, ..Config::default() };
    let begun = Instant::now();
    let late = move |request: &Request| {
        let there = match request {
            Request::Commit(_) if begun.elapsed() > Duration::from_secs(1) => 9_000,
            Request::Renew(_) if begun.elapsed() > Duration::from_secs(7) => 700,
            _ => 0,
        };
        let there = Duration::from_millis(there);
        Way { there, ..Way::default() }
    };
    let engine = over(&store, late, acts, config.clone()).await;
    let run = submit(&engine, workflow(vec![of])).await;
    pass(500).await;
    let sweeper = acts.beside(|call: Call| async move { Ok(json!(call.attempt)) });
    let _other = over(&store, |_: &Request| Way::default(), &sweeper, config).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    (store, run)
}

// Decision 12: an attempt that has ended is not lost while its outcome waits for its commit, however
// long that takes.
#[tokio::test(start_paused = true)]
async fn decision_12_an_outcome_that_waits_for_its_commit_is_not_lost() {
    let acts = Acts::new(|call: Call| async move {
        pass(2_000).await;
        Ok(json!(call.attempt))
    });
    let (store, run) = outcome_that_waits(&acts, step("a", patient(3), &[], json!({}))).await;
    assert_eq!((lost(&store, run).await, acts.calls().len()), (0, 1));
}

// X1: what has ended need give no heartbeats.
#[tokio::test(start_paused = true)]
async fn x1_an_outcome_that_waits_for_its_commit_misses_no_heartbeat() {
    let acts = Acts::new(|call: Call| async move {
        for _ in 0..4 {
            pass(500).await;
            call.reports.beat(None);
        }
        Ok(json!(call.attempt))
    });
    let a = step("a", patient(3), &[], json!({}));
    let (store, run) =
        outcome_that_waits(&acts, Step { heartbeat_timeout: Some(Nanos::from_secs(3)), ..a }).await;
    let history = history(&store, run).await;
    assert!(!names(&history).contains(&"attempt_failed"), "{history:#?}");
    assert_eq!(acts.calls().len(), 1);
}

// Decision 12, 16: a node sees that the leases of its own attempts have ended, renews them, and has their
// outcomes, while another commit of the run is under way. The outcomes are recorded.
#[tokio::test(start_paused = true)]
async fn decision_12_a_lease_that_was_seen_to_end_takes_no_outcome_along() {
    let acts = Acts::new(|call: Call| async move {
        pass(if call.step == "a" { 1_000 } else { 7_000 }).await;
        Ok(json!(call.attempt))
    });
    let begun = Instant::now();
    let seen = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&seen);
    let way = move |request: &Request| {
        let from = |start: u64, end: u64| {
            let (start, end) = (Duration::from_millis(start), Duration::from_millis(end));
            let passed = begun.elapsed();
            if passed >= start { end.saturating_sub(passed) } else { Duration::ZERO }
        };
        let there = match request {
            Request::Commit(commit) => {
                let is_lapsed = |fence: &Fence| matches!(fence, Fence::Lapsed { .. });
                sees.fetch_or(commit.fences.iter().any(is_lapsed), Ordering::SeqCst);
                // The outcome of `a`.
                from(900, 9_000)
            }
            Request::Renew(_) => from(900, 6_500),
            _ => Duration::ZERO,
        };
        Way { there, ..Way::default() }
    };
    let store = Watched::new();
    let config = Config { lease: Nanos::from_secs(3), sole_owner: false, ..Config::default() };
    let engine = over(&store, way, &acts, config).await;
    let steps = ["a", "b"].map(|id| step(id, patient(3), &[], json!({})));
    let run = submit(&engine, workflow(steps.to_vec())).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert!(seen.load(Ordering::SeqCst), "no lease was seen to end");
    assert_eq!((lost(&store, run).await, acts.calls().len()), (0, 2));
}
