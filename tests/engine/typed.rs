//! Typed inputs and results, and a run's events as a stream (X11).

use std::sync::Arc;

use retrial::action::{Args, Context, Registry};
use retrial::engine::{Config, Engine, EventsError, Handle, ResultError, Submission, SubmitError};
use retrial::failure::Failure;
use retrial::run::{Outcome, Recorded, Version};
use retrial::runtime::TokioRuntime;
use retrial::workflow::{Step, Workflow};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kit::*;

type Typed = (TokioRuntime, Arc<Watched>, Registry);

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
    count: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Charge {
    cents: u64,
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register("price", |call: Context, Args(order): Args<Order>| async move {
        if call.attempt() == 1 {
            return Err(Failure::http(503, "busy"));
        }
        Ok(Charge { cents: u64::from(order.count) * 250 })
    });
    registry.register("slow", |_: Context, Args(order): Args<Order>| async move {
        pass(u64::from(order.count) * 1_000).await;
        Ok::<_, Failure>(order.item)
    });
    registry
}

async fn engine(store: &Arc<Watched>, registry: Registry, config: Config) -> Engine<Typed> {
    Engine::start(TokioRuntime::current(), Arc::clone(store), registry, config, Vec::new()).await
}

/// An engine whose action `act` succeeds.
async fn acting(store: &Arc<Watched>, config: Config) -> Engine<Typed> {
    let mut registry = Registry::new();
    registry.register("act", |_: Context| async { Ok::<_, Failure>(1) });
    engine(store, registry, config).await
}

fn calling(actions: &[&str]) -> Arc<Workflow> {
    let args = json!({ "item": "${input.item}", "count": "${input.count}" });
    let step = |(n, action): (usize, &&str)| {
        let after: Vec<u16> =
            n.checked_sub(1).and_then(|n| n.try_into().ok()).into_iter().collect();
        Step { action: (*action).into(), ..step(action, patient(3), &after, args.clone()) }
    };
    workflow(actions.iter().enumerate().map(step).collect())
}

fn order(count: u32) -> Order {
    Order { item: "lamp".into(), count }
}

async fn all(handle: &Handle<Typed>, first: Version) -> Vec<(u64, Recorded)> {
    let mut events = handle.events_from(first);
    let mut seen = Vec::new();
    while let Some(event) = soon(events.next()).await {
        let event = event.unwrap();
        seen.push((event.number.0, event.recorded));
    }
    seen
}

// X11: what goes in and what comes out have types; a retry needs nothing of the caller.
#[tokio::test(start_paused = true)]
async fn x11_inputs_and_results_have_types() {
    let engine = engine(&Watched::new(), registry(), Config::default()).await;
    let submission = Submission::typed(calling(&["price", "slow"]), &order(3)).unwrap();
    let handle = engine.submit(submission).await.unwrap();
    assert_eq!(soon(handle.result::<Charge>("price")).await.unwrap(), Charge { cents: 750 });
    assert_eq!(soon(handle.result::<String>("slow")).await.unwrap(), "lamp");
    let other = engine.handle(handle.id());
    assert_eq!(other.outcome().await.unwrap().state, handle.state().await.unwrap());

    let unlike = handle.result::<Vec<u32>>("price").await.unwrap_err();
    assert_eq!(unlike, ResultError::Unlike { step: "price".into() });
    let unknown = handle.result::<u32>("prize").await.unwrap_err();
    assert_eq!(unknown, ResultError::UnknownStep("prize".into()));
    let no_object = Submission::typed(calling(&["price"]), &[1, 2]).unwrap_err();
    assert_eq!(no_object, SubmitError::BadInput("it is not an object".into()));
}

// X11: a step that did not succeed has no result, and arguments that do not fit say so.
#[tokio::test(start_paused = true)]
async fn x11_a_failed_step_has_no_result() {
    let store = Watched::new();
    let engine = engine(&store, registry(), Config::default()).await;
    let wrong = json!({ "item": "lamp", "count": "many" });
    let submission = Submission::typed(calling(&["price", "slow"]), &wrong).unwrap();
    let handle = engine.submit(submission).await.unwrap();
    // Also of a step that never began: what ended the run.
    for (step, phase) in [("price", "failed"), ("slow", "waiting")] {
        let none = soon(handle.result::<Charge>(step)).await.unwrap_err();
        assert_eq!(
            none.to_string(),
            format!(
                "step `{step}` did not succeed: it is {phase}; step `price`: BAD_ARGUMENTS: \
                 arguments of `price`: expected u32 (attempt 3)"
            )
        );
        assert!(matches!(none, ResultError::NoResult { cause: Some(c), .. } if c.attempt == 3));
    }
    let Outcome::Failed { error } = handle.outcome().await.unwrap().outcome else { panic!() };
    assert_eq!(error.code.as_str(), "BAD_ARGUMENTS");
    assert!(!error.message.contains("many"), "{}", error.message);
}

// X11: the stream has every durable event once, in order, from any number, and then ends; whoever
// comes late sees the same.
#[tokio::test(start_paused = true)]
async fn x11_events_come_without_gap_or_repeat() {
    let store = Watched::new();
    let engine = engine(&store, registry(), Config::default()).await;
    let submission = Submission::typed(calling(&["price", "slow"]), &order(2)).unwrap();
    let handle = engine.submit(submission).await.unwrap();
    let live = all(&handle, Version::START).await;
    let stored: Vec<_> = (0..).zip(history(&store, handle.id()).await).collect();
    assert_eq!(live, stored);
    assert_eq!(live.last().unwrap().1.event.name(), "run_ended");
    assert_eq!(all(&handle, Version::START).await, stored);
    assert_eq!(all(&handle, Version(4)).await, stored[4..]);
}

// X11: also of a run that lives on another node, while it goes on.
#[tokio::test(start_paused = true)]
async fn x11_events_of_another_nodes_run() {
    let store = Watched::new();
    let config = Config { sole_owner: false, ..Config::default() };
    let watching = engine(&store, Registry::new(), config.clone()).await;
    let working = engine(&store, registry(), config).await;
    let submission = Submission::typed(calling(&["price", "slow"]), &order(5)).unwrap();
    let run = working.submit(submission).await.unwrap().id();
    let mut events = watching.handle(run).events();
    let mut seen = Vec::new();
    while let Some(event) = soon(events.next()).await {
        let at = store_now(&store).await;
        let event = event.unwrap();
        // Told within a poll of the event.
        assert!(at.since(event.recorded.at).as_millis() <= 1_500, "{event:?}");
        seen.push(event.recorded);
    }
    assert_eq!(seen, history(&store, run).await);
}

async fn store_now(store: &Arc<Watched>) -> retrial::time::Timestamp {
    retrial::store::Store::clock(store).await.unwrap()
}

// X11: a reader who stops reading slows nobody and loses nothing.
#[tokio::test(start_paused = true)]
async fn x11_a_slow_reader_slows_nobody() {
    let store = Watched::new();
    let engine = acting(&store, Config::default()).await;
    let handle = engine.submit(Submission::new(fan_out(500, patient(1)))).await.unwrap();
    let mut events = handle.events();
    let begun = tokio::time::Instant::now();
    soon(handle.outcome()).await.unwrap();
    assert!(begun.elapsed().as_secs() < 60);
    pass(3_600_000).await;
    let mut seen = Vec::new();
    while let Some(event) = soon(events.next()).await {
        seen.push(event.unwrap().recorded);
    }
    assert_eq!(seen, history(&store, handle.id()).await);
    assert!(seen.len() > 1_000);
}

// X11: events that are compacted away are named; a run that is not there is said so.
#[tokio::test(start_paused = true)]
async fn x11_what_is_missing_is_named() {
    let store = Watched::new();
    let config = Config { snapshot_tail: 1_024, keep_events: 8, ..Config::default() };
    let engine = acting(&store, config).await;
    let handle = engine.submit(Submission::new(fan_out(300, patient(1)))).await.unwrap();
    soon(handle.outcome()).await.unwrap();
    let mut events = handle.events();
    let first = soon(events.next()).await.unwrap().unwrap_err();
    let EventsError::Compacted { from, to } = first else { panic!("{first}") };
    assert_eq!(from, Version::START);
    let next = soon(events.next()).await.unwrap().unwrap();
    assert_eq!(next.number, to);
    let nobody = engine.handle(retrial::run::RunId::from_random(9, 9));
    let error = soon(nobody.events().next()).await.unwrap().unwrap_err();
    assert!(matches!(error, EventsError::Run(_)), "{error}");
}

// X11: an event that is larger than what is read at once is told as well.
#[tokio::test(start_paused = true)]
async fn x11_a_large_event_does_not_hold_the_stream_up() {
    let store = Watched::new();
    let engine = acting(&store, Config::default()).await;
    let large = json!({ "text": "x".repeat(100_000) }).as_object().cloned().unwrap();
    let one = workflow(vec![step("a", patient(1), &[], json!({}))]);
    let submission = Submission { input: large, ..Submission::new(one) };
    let handle = engine.submit(submission).await.unwrap();
    let live = all(&handle, Version::START).await;
    let stored: Vec<_> = (0..).zip(history(&store, handle.id()).await).collect();
    assert_eq!(live, stored);
}

// X11: a reader that has the last event already, and asks for the next one, is told that there is none.
#[tokio::test(start_paused = true)]
async fn x11_a_stream_from_the_end_of_a_run_ends() {
    let store = Watched::new();
    let engine = acting(&store, Config::default()).await;
    let one = workflow(vec![step("a", patient(1), &[], json!({}))]);
    let handle = engine.submit(Submission::new(one)).await.unwrap();
    // It waits for what is still to come.
    let early = all(&handle, Version(1)).await;
    let last = history(&store, handle.id()).await.len() as u64;
    assert_eq!(early.len() as u64, last - 1);
    for first in [last, last + 1, last + 100] {
        assert_eq!(all(&handle, Version(first)).await, [], "from {first} of {last}");
    }
}
