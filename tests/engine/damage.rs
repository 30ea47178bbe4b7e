//! A run whose stored state its own events can't lead to.

use retrial::action::Call;
use retrial::engine::{CommandError, Config, EventsError};
use retrial::run::{self, Outcome, RunId, RunState};
use retrial::store::{Commit, CommitId, Committed, RunPhase, Store};
use serde_json::json;

use crate::kit::*;

/// Replaces the stored state of `run` by one in which its step has not begun, though its attempt is
/// in progress.
async fn damage(store: &Watched, run: RunId) {
    let state = RunState::replay(run, &history(store, run).await).unwrap();
    let stored = String::from_utf8(run::encode_snapshot(&state).to_vec()).unwrap();
    let damaged = stored.replacen(r#""phase":"active""#, r#""phase":"waiting""#, 1);
    assert_ne!(stored, damaged);
    let commit = Commit {
        id: CommitId { writer: 1, counter: 1 },
        run,
        expect: state.version(),
        fences: Vec::new(),
        events: Vec::new(),
        queue: Vec::new(),
        results: Vec::new(),
        letters: Vec::new(),
        phase: RunPhase::Running,
        snapshot: Some(damaged.into()),
        guards: Vec::new(),
        raised: Vec::new(),
        creates: Vec::new(),
    };
    let answer = store.commit(commit).await.unwrap();
    assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_impossible_event_ends_the_lane_and_who_waits_hears_of_it() {
    let store = Watched::new();
    let acts = Acts::new(|_| std::future::pending());
    let first = start(&store, &acts, Config::default()).await;
    let run = submit(&first, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(100).await;
    drop(first);
    damage(&store, run).await;
    let kept = store.kept(run).await;

    // Recovery takes the attempt of the process before for lost, which the state does not allow.
    let engine = start(&store, &acts, Config::default()).await;
    let what =
        format!("run {run} is damaged: event 3 (attempt_failed) can't follow the events before it");
    let damaged = CommandError::Broken(what);
    assert_eq!(soon(engine.outcome(run)).await, Err(damaged.clone()));
    let mut events = engine.handle(run).events_from(run::Version(kept));
    assert_eq!(soon(events.next()).await, Some(Err(EventsError::Run(damaged))));
    assert_eq!(store.kept(run).await, kept, "nothing of it is stored");
}

// By the hundred: a pass of the sweep looks at 256 leases.
#[tokio::test(start_paused = true)]
async fn leases_of_runs_that_cannot_be_read_hide_no_later_ones() {
    let acts = Acts::new(|call: Call| async move {
        match call.attempt {
            1 => std::future::pending().await,
            _ => Ok(json!(1)),
        }
    });
    let store = Watched::new();
    let config = Config { concurrency: 1_000, sole_owner: false, ..Config::default() };
    let first = start(&store, &acts, config.clone()).await;
    let flow = workflow(vec![step("a", patient(3), &[], json!({}))]);
    let mut rotten = Vec::new();
    for _ in 0..600 {
        rotten.push(submit(&first, flow.clone()).await);
    }
    pass(5_000).await;
    let last = submit(&first, flow).await;
    pass(1_000).await;
    assert_eq!(acts.calls().len(), 601);
    drop(first);
    store.make_unreadable(rotten.into_iter().flat_map(|run| [(run, false), (run, true)]));
    let engine = start(&store, &acts, config).await;
    assert_eq!(soon(engine.outcome(last)).await.unwrap().outcome, Outcome::Completed);
}

/// A snapshot only saves the replay: a run whose snapshot rotted goes on from its events.
#[tokio::test(start_paused = true)]
async fn decision_19_a_run_goes_on_without_its_snapshot() {
    let acts = Acts::new(|call: Call| async move {
        match call.attempt {
            1 => std::future::pending().await,
            _ => Ok(json!(1)),
        }
    });
    let store = Watched::new();
    let first = start(&store, &acts, Config::default()).await;
    let run = submit(&first, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(100).await;
    drop(first);
    store.make_unreadable([(run, false)]);
    let engine = start(&store, &acts, Config::default()).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}
