//! What a node can't run it does not claim, and a run that waits for it says so (X12).

use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission};
use retrial::run::Outcome;
use retrial::runtime::TokioRuntime;
use retrial::workflow::{Action, Endpoint, Step, Target, Via, Workflow, WorkflowParts};
use serde_json::json;

use crate::kit::*;

/// The world of registered functions.
type Plain = (TokioRuntime, Arc<Watched>, Registry);

/// An engine that has these functions, each of which gives its node's name.
async fn node(store: &Arc<Watched>, name: &'static str, functions: &[&str]) -> Engine<Plain> {
    let mut registry = Registry::new();
    for function in functions {
        registry.register(function, move |_: Context| async move { Ok::<_, String>(name) });
    }
    let config = Config { sole_owner: false, ..Config::default() };
    let runtime = TokioRuntime::current();
    Engine::start(runtime, Arc::clone(store), registry, config, Vec::new()).await
}

fn calling(actions: &[&str]) -> Arc<Workflow> {
    let step = |action: &&str| Step {
        action: (*action).into(),
        ..step(action, patient(2), &[], json!({}))
    };
    workflow(actions.iter().map(step).collect())
}

// X12: each task goes to a node that has its action, whoever took the run in.
#[tokio::test(start_paused = true)]
async fn x12_a_task_is_claimed_only_where_its_action_is() {
    let store = Watched::new();
    let one = node(&store, "one", &["a", "b"]).await;
    let two = node(&store, "two", &["b", "c"]).await;
    let run = submit(&two, calling(&["a", "c"])).await;
    let ended = soon(one.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    let by: Vec<_> =
        ended.state.tasks().map(|(t, _)| ended.state.result(t).unwrap().clone()).collect();
    assert_eq!(by, [Arc::new(json!("one")), Arc::new(json!("two"))]);
    assert!(ended.state.tasks().all(|(_, t)| t.attempt == 1));
}

// X12: who requires the actions is told at once, and nothing is stored.
#[tokio::test(start_paused = true)]
async fn x12_a_submission_may_require_its_actions() {
    let store = Watched::new();
    let one = node(&store, "one", &["a"]).await;
    let of = |actions| Submission::new(calling(actions)).require_actions();
    let refused = one.submit(of(&["a", "lost"]).with_key("k")).await.unwrap_err();
    let says = "step `lost` needs the action `lost`, which this node can't run; register it";
    assert_eq!(refused.to_string(), says);
    // The key is free.
    let handle = one.submit(of(&["a"]).with_key("k")).await.unwrap();
    assert!(!handle.existing);
    assert_eq!(soon(handle.outcome()).await.unwrap().outcome, Outcome::Completed);
}

// X12: a run that no node can go on with uses up no attempt, spins nowhere, and names the action.
// It goes on when a node comes that has it.
#[tokio::test(start_paused = true)]
async fn x12_a_run_says_which_action_it_waits_for() {
    let store = Watched::new();
    let one = node(&store, "one", &["a"]).await;
    let run = submit(&one, calling(&["a", "lost", "gone"])).await;
    pass(100_000).await;
    let names = |needs: Vec<retrial::workflow::Need>| -> Vec<String> {
        needs.iter().map(ToString::to_string).collect()
    };
    let waits = names(one.waiting_for(&one.state(run).await.unwrap()));
    assert_eq!(waits, ["action `lost`", "action `gone`"]);
    let history = history(&store, run).await;
    let starts = history.iter().filter(|r| r.event.name() == "attempt_started").count();
    assert_eq!(starts, 1, "{history:#?}");
    let two = node(&store, "two", &["lost", "gone"]).await;
    let ended = soon(two.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert!(ended.state.tasks().all(|(_, t)| t.attempt == 1));
    assert_eq!(names(one.waiting_for(&one.state(run).await.unwrap())), [""; 0]);
}

// X12: an HTTP action needs a node with an HTTP client, whatever functions it has.
#[tokio::test(start_paused = true)]
async fn x12_an_http_action_needs_a_client() {
    let store = Watched::new();
    let one = node(&store, "one", &["act"]).await;
    let endpoint = Endpoint::new("POST", "http://localhost/");
    let action = Action {
        kind: Default::default(),
        target: Target::Http(endpoint),
        idempotent: None,
        inner_attempts: None,
        webhook: None,
        heartbeat_timeout: None,
        guard: Default::default(),
    };
    let parts = WorkflowParts {
        name: "w".into(),
        actions: [("act".to_owned(), action)].into(),
        steps: vec![step("a", patient(2), &[], json!({}))],
        ..WorkflowParts::default()
    };
    let run = submit(&one, Arc::new(Workflow::try_from(parts).unwrap())).await;
    pass(10_000).await;
    let waits = one.waiting_for(&one.state(run).await.unwrap());
    assert_eq!(waits.len(), 1);
    assert_eq!((&*waits[0].action, waits[0].via), ("act", Via::Http));
    assert_eq!(history(&store, run).await.len(), 2);
}
