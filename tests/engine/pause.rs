//! H17: a run's retries are paused while somebody decides, resumed, or failed by hand.

use std::time::Duration;

use retrial::action::Call;
use retrial::engine::{CommandError, Config};
use retrial::failure::Failure;
use retrial::policy::GiveUp;
use retrial::run::{Event, LetterId, Outcome, TaskId, Waits, queue_of};
use retrial::store::{QueueRow, QueueState, RunPhase, Store as _};
use retrial::time::Nanos;
use retrial::workflow::StepIx;
use serde_json::json;

use crate::kit::*;

/// Fails so many attempts of each task.
fn failing(times: u32) -> Acts {
    Acts::new(move |call: Call| async move {
        match call.attempt {
            n if n <= times => Err(Failure::http(503, "busy")),
            n => Ok(json!(n)),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn h17_no_retry_starts_while_a_run_is_paused_also_after_a_restart() {
    let (store, acts) = (Watched::new(), failing(1));
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    pass(500).await;
    engine.pause(run, "password=hunter2 wait for Ann").await.unwrap();
    engine.pause(run, "again").await.unwrap();
    pass(60_000).await;
    assert_eq!(acts.calls().len(), 1, "the delay is over, yet nothing starts");
    assert_eq!(store.heads(None, 9).await.unwrap().runs[0].phase, RunPhase::Paused);
    drop(engine);
    let engine = start(&store, &acts, Config::default()).await;
    pass(60_000).await;
    assert_eq!(acts.calls().len(), 1, "nor after a restart");
    let state = engine.state(run).await.unwrap();
    assert!(state.paused().unwrap().ends_with("wait for Ann"));
    assert!(!state.paused().unwrap().contains("hunter2"));
    let rows = store.queue(run).await.unwrap();
    assert_eq!(queue_of(&state), [(TaskId { step: StepIx(0), item: 0 }, 2, Waits::Due)]);
    assert!(matches!(rows[..], [QueueRow { attempt: 2, state: QueueState::Due { .. }, .. }]));
    engine.resume(run).await.unwrap();
    engine.resume(run).await.unwrap();
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let history = history(&store, run).await;
    let resumed = history.iter().find(|r| r.event == Event::RunResumed).unwrap().at;
    assert!(started(&history, 2).since(resumed).as_millis() < 50, "what was due starts now");
    let told = |name: &str| names(&history).iter().filter(|n| **n == name).count();
    assert_eq!((told("run_paused"), told("run_resumed")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn h17_what_was_not_due_waits_its_rest() {
    let (store, acts) = (Watched::new(), failing(3));
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(4), &[], json!({}))])).await;
    // The third wait is 4 s, from about 3 s on.
    pass(3_500).await;
    engine.pause(run, "wait").await.unwrap();
    pass(1_000).await;
    engine.resume(run).await.unwrap();
    pass(1_000).await;
    assert_eq!(acts.calls().len(), 3, "it is not due yet");
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let history = history(&store, run).await;
    let waited = started(&history, 4).since(failed(&history, 3)).as_millis();
    assert!((4_000..4_100).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn h17_what_is_in_progress_ends_and_first_attempts_go_on() {
    let acts = Acts::new(|call: Call| async move {
        pass(1_000).await;
        match (call.step.as_str(), call.attempt) {
            ("b", 1) => Err(Failure::http(503, "busy")),
            (_, n) => Ok(json!(n)),
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let steps = vec![step("a", patient(2), &[], json!({})), step("b", patient(2), &[0], json!({}))];
    let run = submit(&engine, workflow(steps)).await;
    pass(500).await;
    engine.pause(run, "wait").await.unwrap();
    pass(60_000).await;
    let seen: Vec<_> = acts.calls().iter().map(|c| (c.step.clone(), c.attempt)).collect();
    assert_eq!(seen, [("a".into(), 1), ("b".into(), 1)], "its failure waits");
    engine.resume(run).await.unwrap();
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

#[tokio::test(start_paused = true)]
async fn h17_a_total_timeout_goes_on_counting_while_paused() {
    let acts = failing(9);
    let engine = alone(&acts, Config::default()).await;
    let policy = retrial::policy::Policy::builder()
        .attempts(9)
        .backoff(retrial::policy::Backoff::exponential(SECOND).with_cap(SECOND))
        .total_timeout(retrial::time::Nanos::from_secs(20))
        .build()
        .unwrap();
    let run = submit(&engine, workflow(vec![step("a", policy, &[], json!({}))])).await;
    pass(500).await;
    engine.pause(run, "wait").await.unwrap();
    pass(30_000).await;
    engine.resume(run).await.unwrap();
    let Outcome::Failed { error } = soon(engine.outcome(run)).await.unwrap().outcome else {
        panic!("it went on")
    };
    assert_eq!((error.code.as_str(), acts.calls().len()), ("503", 1));
}

#[tokio::test(start_paused = true)]
async fn h17_cancelling_works_while_paused() {
    let acts = failing(9);
    let engine = alone(&acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
    pass(500).await;
    engine.pause(run, "wait").await.unwrap();
    engine.cancel(run, "enough").await.unwrap();
    let ended = soon(engine.outcome(run)).await.unwrap().outcome;
    assert_eq!(ended, Outcome::Cancelled { reason: "enough".into() });
}

#[tokio::test(start_paused = true)]
async fn h17_a_waiting_task_failed_by_hand_is_routed_and_leaves_a_letter() {
    let (store, acts) = (Watched::new(), failing(1));
    let engine = start(&store, &acts, Config::default()).await;
    let handler = step("mend", patient(2), &[], json!({ "why": "${_last_error.code}" }));
    let work = step("a", patient(9), &[], json!({}));
    let run = submit(&engine, handled(work, handler)).await;
    pass(500).await;
    engine.pause(run, "wait").await.unwrap();
    let unknown = engine.fail(run, "b", None, "no").await.unwrap_err();
    assert_eq!(unknown, CommandError::UnknownStep { run, step: "b".into() });
    let idle = CommandError::NothingWaits { run, step: "mend".into() };
    assert_eq!(engine.fail(run, "mend", None, "no").await.unwrap_err(), idle);
    engine.fail(run, "a", Some(0), "Ann says no").await.unwrap();
    engine.resume(run).await.unwrap();
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed, "its handler took it");
    assert_eq!(acts.calls().last().unwrap().args, json!({ "why": "503" }));
    let letter = LetterId { run, task: TaskId { step: StepIx(0), item: 0 } };
    let letter = engine.letter(letter).await.unwrap().letter;
    assert_eq!((letter.reason, letter.attempts), (GiveUp::ByHand, 1));
    let history = history(&store, run).await;
    let asked = history.iter().find_map(|r| match &r.event {
        Event::FailRequested { item, reason, .. } => Some((*item, reason.clone())),
        _ => None,
    });
    assert_eq!(asked, Some((Some(0), "Ann says no".into())));
}

/// An attempt in progress is not failed by hand, and a task that never began says who failed it.
#[tokio::test(start_paused = true)]
async fn h17_only_what_waits_is_failed_by_hand() {
    let acts = Acts::new(|_: Call| async {
        pass(1_000).await;
        Ok(json!(1))
    });
    let engine = alone(&acts, Config { concurrency: 1, ..Config::default() }).await;
    let run = submit(&engine, fan_out(2, patient(2))).await;
    pass(500).await;
    engine.fail(run, "each", None, "enough").await.unwrap();
    let idle = engine.fail(run, "each", None, "enough").await.unwrap_err();
    assert_eq!(idle, CommandError::NothingWaits { run, step: "each".into() });
    let Outcome::Failed { error } = soon(engine.outcome(run)).await.unwrap().outcome else {
        panic!("it went on")
    };
    assert_eq!((error.code.as_str(), error.message.as_str()), ("FAILED_BY_HAND", "enough"));
    assert_eq!((error.attempt, acts.calls().len()), (0, 1));
    let late = engine.fail(run, "each", None, "late").await.unwrap_err();
    assert_eq!(late, CommandError::NothingWaits { run, step: "each".into() });
}

/// The run is to leave memory while a commit of it is under way, and then another command comes.
#[tokio::test(start_paused = true)]
async fn h12_a_command_that_comes_as_a_run_leaves_memory_is_carried_out() {
    let (store, acts) = (Watched::new(), failing(9));
    let config = Config { lane_idle: Nanos::from_secs(10), ..Config::default() };
    let engine = start(&store, &acts, config).await;
    let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
    pass(500).await;
    store.answer_commits_late(run, Duration::from_secs(60));
    let pause = engine.pause(run, "wait");
    let cancel = async {
        pass(45_000).await;
        engine.cancel(run, "enough").await
    };
    let (paused, cancelled) = tokio::join!(pause, cancel);
    assert!(paused.is_ok() && cancelled.is_ok());
    assert!(matches!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Cancelled { .. }));
}
