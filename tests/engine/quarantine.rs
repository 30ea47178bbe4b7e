//! X14: a task that keeps ending its nodes waits for a person.

use std::num::NonZeroU32;

use retrial::action::Call;
use retrial::engine::{CommandError, Config};
use retrial::run::{Event, Outcome};
use serde_json::json;

use crate::kit::*;

/// Attempts up to `last` never end by themselves.
fn hanging(last: u32) -> Acts {
    Acts::new(move |call: Call| async move {
        if call.attempt <= last {
            std::future::pending::<()>().await;
        }
        Ok(json!(1))
    })
}

#[tokio::test(start_paused = true)]
async fn x14_a_task_that_ended_its_node_three_times_waits_for_its_release() {
    let (store, acts) = (Watched::new(), hanging(3));
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
    pass(20_000).await;
    let none = engine.release(run, None, None, "no").await.unwrap_err();
    assert_eq!(none, CommandError::NothingHeld(run));
    drop(engine);
    for lives in 2..=3 {
        let engine = start(&store, &acts, Config::default()).await;
        pass(20_000).await;
        assert_eq!(acts.calls().len(), lives);
        drop(engine);
    }
    let engine = start(&store, &acts, Config::default()).await;
    pass(3_600_000).await;
    assert_eq!(acts.calls().len(), 3, "nothing starts");
    let state = engine.state(run).await.unwrap();
    let held: Vec<_> = state.quarantined().map(|(task, found)| (task.item, found.lost)).collect();
    assert_eq!(held, [(0, 3)]);
    let rows = engine.queue(&state).await.unwrap();
    assert_eq!(rows[0].scheduled_at, None);
    let unknown = engine.release(run, Some("b"), None, "no").await.unwrap_err();
    assert_eq!(unknown, CommandError::UnknownStep { run, step: "b".into() });
    let other = engine.release(run, Some("a"), Some(1), "no").await.unwrap_err();
    assert_eq!(other, CommandError::NothingHeld(run));

    engine.release(run, Some("a"), Some(0), "password=hunter2 Ann looked").await.unwrap();
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert_eq!(acts.calls().len(), 4);
    let history = history(&store, run).await;
    let said = history.iter().find_map(|r| match &r.event {
        Event::TaskReleased { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert!(said.as_ref().is_some_and(|s| s.ends_with("Ann looked") && !s.contains("hunter2")));
    let late = engine.release(run, None, None, "late").await.unwrap_err();
    assert_eq!(late, CommandError::NothingHeld(run));
}

#[tokio::test(start_paused = true)]
async fn x14_how_many_nodes_may_be_lost_is_a_setting() {
    for (limit, calls) in [(NonZeroU32::new(1), 1), (None, 3)] {
        let (store, acts) = (Watched::new(), hanging(2));
        let config = || Config { quarantine_after: limit, ..Config::default() };
        let mut engine = start(&store, &acts, config()).await;
        let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
        for _ in 0..2 {
            pass(20_000).await;
            drop(engine);
            engine = start(&store, &acts, config()).await;
        }
        pass(20_000).await;
        assert_eq!(acts.calls().len(), calls, "{limit:?}");
        assert_eq!(engine.state(run).await.unwrap().outcome().is_some(), limit.is_none());
    }
}
