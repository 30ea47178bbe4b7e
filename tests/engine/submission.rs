//! What is accepted, and what is refused with nothing added.

use std::future::Future as _;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use retrial::action::Call;
use retrial::engine::{Config, Engine, Submission, SubmitError};
use retrial::failure::Failure;
use retrial::observe::{History, Observer};
use retrial::policy::{Backoff, Jitter, Policy, Shape};
use retrial::run::{Outcome, RunId};
use retrial::runtime::TokioRuntime;
use retrial::store::Store as _;
use retrial::time::Nanos;
use serde_json::{Map, Value, json};

use crate::kit::*;

fn input(n: u32) -> Map<String, Value> {
    Map::from_iter([("n".to_owned(), json!(n))])
}

// X8: the second submission returns the first run, also after it has ended and on another node.
#[tokio::test(start_paused = true)]
async fn x8_a_key_leads_to_the_first_run() {
    let (store, acts) = (Watched::new(), Acts::new(|_: Call| async { Ok(json!(1)) }));
    let engine = start(&store, &acts, Config::default()).await;
    let w = workflow(vec![step("a", patient(1), &[], json!({}))]);
    let asked = Submission::new(w.clone()).with_key("order 7").with_input(input(1));
    let first = engine.submit(asked.clone()).await.unwrap();
    assert!(!first.existing);
    let again = engine.submit(asked.clone()).await.unwrap();
    assert_eq!((again.id(), again.existing), (first.run, true));
    soon(engine.outcome(first.run)).await.unwrap();
    let again = engine.submit(asked.clone()).await.unwrap();
    assert_eq!((again.id(), again.existing), (first.run, true));
    let other = start(&store, &acts, Config { sole_owner: false, ..Config::default() }).await;
    let again = other.submit(asked.clone()).await.unwrap();
    assert_eq!((again.id(), again.existing), (first.run, true));
    let another_input = asked.clone().with_input(input(2));
    let renamed = workflow(vec![step("b", patient(1), &[], json!({}))]);
    let another_workflow = Submission { workflow: renamed, ..asked.clone() };
    for conflicting in [another_input, another_workflow] {
        let refused = engine.submit(conflicting).await.unwrap_err();
        let (key, run) = ("order 7".to_owned(), first.run);
        assert_eq!(refused, SubmitError::KeyConflict { key, run });
    }
    pass(60_000).await;
    assert_eq!(store.heads(None, 9).await.unwrap().runs.len(), 1);
    assert_eq!(acts.calls().len(), 1);
    // Without a key, or under another, it is another run.
    assert!(!engine.submit(asked.with_key("order 8")).await.unwrap().existing);
    assert!(!engine.submit(Submission::new(w)).await.unwrap().existing);
}

fn custom(name: &str) -> Policy {
    let shape = Shape::Custom { name: name.to_owned() };
    let backoff = Backoff { shape, jitter: Jitter::None, cap: None };
    Policy::builder().attempts(4).backoff(backoff).build().unwrap()
}

// H17: a custom backoff function is used by its name, and refused where nobody brought it.
#[tokio::test(start_paused = true)]
async fn h17_an_unknown_backoff_function_is_refused() {
    let acts = Acts::new(|call: Call| async move {
        if call.attempt < 4 { Err(Failure::http(503, "busy")) } else { Ok(json!(1)) }
    });
    let mut config = Config::default();
    config.functions.register("squares", |n| Nanos::from_secs(u64::from(n * n)));
    let store = Watched::new();
    let engine = start(&store, &acts, config).await;
    let steps = vec![
        step("fine", patient(1), &[], json!({})),
        step("odd", custom("cubes"), &[], json!({})),
    ];
    let refused = engine.submit(Submission::new(workflow(steps))).await.unwrap_err();
    let (step_id, name) = ("odd".to_owned(), "cubes".to_owned());
    assert_eq!(refused, SubmitError::UnknownFunction { step: step_id, name });
    assert_eq!(store.heads(None, 9).await.unwrap().runs, []);
    let run = submit(&engine, workflow(vec![step("a", custom("squares"), &[], json!({}))])).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let history = history(&store, run).await;
    let delays: Vec<_> =
        (1..4).map(|n| started(&history, n + 1).since(failed(&history, n)).as_millis()).collect();
    assert_eq!(delays, [1_000, 4_000, 9_000]);
}

#[tokio::test(start_paused = true)]
async fn an_input_that_is_too_large_is_refused() {
    let (store, acts) = (Watched::new(), Acts::new(|_: Call| async { Ok(json!(1)) }));
    let engine = start(&store, &acts, Config::default()).await;
    let w = workflow(vec![step("a", patient(1), &[], json!({}))]);
    let large = Map::from_iter([("text".to_owned(), json!("x".repeat(300_000)))]);
    let refused = engine.submit(Submission::new(w).with_input(large)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::InputTooLarge { size: 300_011, .. }), "{refused:?}");
    assert_eq!(store.heads(None, 9).await.unwrap().runs, []);
}

fn run() -> RunId {
    RunId::from_random(1, 2)
}

/// An engine on a store to which creations and their answers take so many seconds, what its observers
/// hear, and a submission.
async fn observed<const N: usize>(
    creations: [(u64, u64); N],
) -> (Engine<Test>, Arc<History>, Submission) {
    let (store, acts) = (Watched::new(), Acts::new(|_: Call| async { Ok(json!(1)) }));
    let seconds = Duration::from_secs;
    store.delay_creations(creations.map(|(arrives, answer)| (seconds(arrives), seconds(answer))));
    let history = Arc::new(History::new(100));
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&history) as _];
    let (runtime, config) = (TokioRuntime::current(), Config::default());
    let engine = Engine::start(runtime, store, acts, config, observers).await;
    let w = workflow(vec![step("a", patient(1), &[], json!({}))]);
    (engine, history, Submission { id: Some((run(), 3)), ..Submission::new(w) })
}

/// Each event of the run is told, once and in order.
async fn check_told(engine: &Engine<Test>, history: &History, run: RunId) {
    soon(engine.outcome(run)).await.unwrap();
    let told: Vec<u64> = history.of(run).iter().map(|(number, _)| number.0).collect();
    assert_eq!(told, (0..6).collect::<Vec<_>>());
}

// A15: the store may answer long after it made the run, and this node may have claimed its tasks by
// then. Observers hear of the creation first all the same.
#[tokio::test(start_paused = true)]
async fn a15_a_runs_creation_is_told_before_all_else() {
    let (engine, history, asked) = observed([(0, 5)]).await;
    let submitted = engine.submit(Submission { id: None, ..asked }).await.unwrap();
    check_told(&engine, &history, submitted.run).await;
}

// A15: whoever hears no answer asks again, and both may be asked at the same instant. Observers hear
// of the creation once.
#[tokio::test(start_paused = true)]
async fn a15_a_run_that_is_submitted_twice_at_once_is_reported_once() {
    let (engine, history, asked) = observed([(0, 5), (0, 5)]).await;
    let (one, two) = tokio::join!(engine.submit(asked.clone()), engine.submit(asked));
    assert_eq!(
        [one.unwrap(), two.unwrap()].map(|handle| (handle.run, handle.existing)),
        [(run(), false), (run(), true)]
    );
    check_told(&engine, &history, run()).await;
}

// A15: of two submissions at once the one that made the run may hear of it last. Observers hear of the
// creation first all the same, and once.
#[tokio::test(start_paused = true)]
async fn a15_a_run_whose_maker_hears_of_it_last_is_reported_in_order() {
    let (engine, history, asked) = observed([(1, 0), (0, 5)]).await;
    let (one, two) = tokio::join!(engine.submit(asked.clone()), engine.submit(asked));
    assert_eq!([one.unwrap(), two.unwrap()].map(|handle| handle.existing), [true, false]);
    check_told(&engine, &history, run()).await;
}

// A15: as before, but the submission that was first is called off before the other begins.
#[tokio::test(start_paused = true)]
async fn a15_a_run_that_is_submitted_again_after_a_hang_up_is_reported_in_order() {
    let (engine, history, asked) = observed([(9, 0), (0, 5)]).await;
    let mut first = Box::pin(engine.submit(asked.clone()));
    assert!(std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
    drop(first);
    assert!(!engine.submit(asked).await.unwrap().existing);
    check_told(&engine, &history, run()).await;
}

/// What a store keeps of new runs lies side by side.
#[tokio::test(start_paused = true)]
async fn ids_of_runs_follow_one_another() {
    let engine = alone(&Acts::new(|_: Call| async { Ok(json!(1)) }), Config::default()).await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(submit(&engine, workflow(vec![step("a", patient(1), &[], json!({}))])).await);
        pass(2).await;
    }
    assert!(runs.is_sorted());
    runs.dedup();
    assert_eq!(runs.len(), 20);
}
