//! What the platform does to a run: a store that is out of reach, a node that lost its lease, what
//! is written together and what is kept.

use retrial::action::Call;
use retrial::engine::{Config, Engine, World};
use retrial::failure::Failure;
use retrial::run::{Event, Outcome, decode};
use retrial::store::{QueueChange, Store};
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

/// Attempts take 3 s; the first fails.
fn slow() -> Acts {
    Acts::new(|call: Call| async move {
        pass(3_000).await;
        if call.attempt == 1 { Err(Failure::http(503, "busy")) } else { Ok(json!(call.attempt)) }
    })
}

// C8: whatever the store says instead of answering, no attempt is used up and no event mentions it.
#[tokio::test(start_paused = true)]
async fn c8_a_store_out_of_reach_uses_up_no_attempt() {
    for trouble in [Trouble::NotDone, Trouble::RequestLost, Trouble::AnswerLost] {
        // Before the first claim, in an attempt, in the delay, in the retry.
        for (from, to) in [(0, 5_000), (1_000, 15_000), (3_500, 12_000), (5_000, 20_000)] {
            let (store, acts) = (Watched::new(), slow());
            let engine = start(&store, &acts, Config::default()).await;
            let run = submit(&engine, workflow(vec![step("a", patient(2), &[], json!({}))])).await;
            pass(from).await;
            store.fail(Some(trouble));
            pass(to - from).await;
            store.fail(None);
            let ended = soon(engine.outcome(run)).await.unwrap();
            let of = format!("{trouble:?} from {from} to {to} ms");
            assert_eq!(ended.outcome, Outcome::Completed, "{of}");
            let attempts: Vec<u32> = acts.calls().iter().map(|c| c.attempt).collect();
            assert_eq!(attempts, [1, 2], "{of}");
            let history = history(&store, run).await;
            let codes = history.iter().filter_map(|r| match &r.event {
                Event::AttemptFailed { failure, .. } => Some(failure.code().to_string()),
                _ => None,
            });
            assert_eq!(codes.collect::<Vec<_>>(), ["503"], "{of}");
            let told = serde_json::to_string(&history).unwrap();
            assert!(!told.contains("out of reach"), "{of}: {told}");
        }
    }
}

// Decision 16, R7: an attempt that lost its lease learns it and stops, and its late answer changes
// nothing.
#[tokio::test(start_paused = true)]
async fn r7_decision_16_who_lost_its_lease_stops() {
    let config = || Config { sole_owner: false, lease: Nanos::from_secs(3), ..Config::default() };
    for says in [None, Some(20_000)] {
        let store = Watched::new();
        let first = Acts::new(move |call: Call| async move {
            match says {
                Some(after) => pass(after).await,
                None => call.cancelled.cancelled().await,
            }
            Ok(json!("from the first"))
        });
        let second = first.beside(|_: Call| async { Ok(json!("from the second")) });
        let cut_off = store.beside();
        let one = start(&cut_off, &first, config()).await;
        let run = submit(&one, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
        pass(500).await;
        cut_off.fail(Some(Trouble::NotDone));
        let other = start(&store, &second, config()).await;
        let ended = soon(other.outcome(run)).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Completed);
        let calls = first.calls();
        assert!(!calls[0].cancelled.is_cancelled(), "it can't know yet");
        let before = history(&store, run).await;
        cut_off.fail(None);
        pass(30_000).await;
        assert!(calls[0].cancelled.is_cancelled(), "told, it stops");
        assert_eq!(history(&store, run).await, before);
        let of_one = one.state(run).await.unwrap();
        let (task, _) = of_one.tasks().next().unwrap();
        assert_eq!(**of_one.result(task).unwrap(), json!("from the second"));
    }
}

// Decision 13: the failure, the count and the row that waits are one commit.
#[tokio::test(start_paused = true)]
async fn decision_13_a_failure_and_its_retry_are_one_commit() {
    let (store, acts) = (Watched::new(), slow());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(2), &[], json!({}))])).await;
    soon(engine.outcome(run)).await.unwrap();
    let told = |name: &'static str| {
        move |bytes: &bytes::Bytes| decode(bytes).unwrap().event.name() == name
    };
    let sent = store.sent();
    let failing: Vec<_> =
        sent.iter().filter(|c| c.events.iter().any(told("attempt_failed"))).collect();
    let [commit] = failing[..] else { panic!("{failing:?}") };
    assert!(commit.events.iter().any(told("retry_scheduled")));
    let due = |c: &QueueChange| matches!(c, QueueChange::Due { attempt: 2, after: SECOND, .. });
    assert!(commit.queue.iter().any(due), "{:?}", commit.queue);
}

async fn check_results<W: World<Actions = Acts>>(engine: &Engine<W>) {
    let each = fan_out(3, patient(2));
    let run = submit(engine, each).await;
    soon(engine.outcome(run)).await.unwrap();
    let rows = engine.store().load(run, None).await.unwrap().unwrap().tail.results;
    let mut rows: Vec<_> =
        rows.iter().map(|r| (r.task.item, r.attempt, r.result.clone())).collect();
    rows.sort();
    let row = |item, attempt, result: &'static [u8]| (item, attempt, bytes::Bytes::from(result));
    assert_eq!(rows, [row(0, 2, b"2"), row(1, 2, b"2"), row(2, 2, b"2")]);
    let state = engine.state(run).await.unwrap();
    assert!(state.tasks().all(|(_, task)| task.attempt == 2), "the state keeps each attempt");
}

// W11: each task has one row, of the attempt that succeeded; the failed ones have none.
#[tokio::test(start_paused = true)]
async fn w11_results_are_kept_of_successes_alone() {
    check_results(&alone(&slow(), Config::default()).await).await;
}

#[cfg(feature = "redb")]
#[tokio::test(start_paused = true)]
async fn w11_results_on_redb_are_kept_of_successes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::restart::open(&folder.path().join("runs.redb")).await;
    let engine = crate::restart::engine(&store, &slow()).await;
    check_results(&engine).await;
    soon(crate::restart::stop(engine, store)).await;
}
