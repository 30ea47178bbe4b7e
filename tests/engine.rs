//! The engine on tokio with paused time and the memory store: the rows that need a driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use retrial::action::{Actions, Call, Outcome};
use retrial::engine::{Config, Engine, Submission, World};
use retrial::failure::Failure;
use retrial::policy::{ActionKind, Backoff, Origin, Policy};
use retrial::run::Outcome as RunOutcome;
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use retrial::time::Nanos;
use retrial::workflow::{Parts, Step, StepIx, Template, Workflow};
use serde_json::{Value, json};

struct Flaky {
    fail: u32,
    calls: Arc<AtomicU32>,
    hang: bool,
}

impl Actions for Flaky {
    async fn invoke(&self, call: Call) -> Outcome {
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.hang {
            std::future::pending::<()>().await;
        }
        if n < self.fail {
            Err(Failure::http(503, "busy"))
        } else {
            Ok(json!({ "n": n, "args": call.args }))
        }
    }
}

struct Test;

impl World for Test {
    type Runtime = TokioRuntime;
    type Store = MemoryStore<TokioRuntime>;
    type Actions = Flaky;
}

fn step(id: &str, policy: Policy, after: &[u16], args: Value) -> Step {
    Step {
        id: id.into(),
        action: "act".into(),
        args: Template::try_from(args).unwrap(),
        after: after.iter().map(|n| StepIx(*n)).collect(),
        for_each: None,
        goal: false,
        fail_fast: false,
        policy,
        origin: Origin::Task,
    }
}

fn workflow(steps: Vec<Step>) -> Arc<Workflow> {
    Arc::new(Workflow::try_from(Parts { name: "w".into(), steps, ..Parts::default() }).unwrap())
}

async fn engine(actions: Flaky) -> Engine<Test> {
    let runtime = TokioRuntime::current();
    let store = MemoryStore::new(runtime.clone());
    Engine::start(runtime, store, actions, Config::default(), Vec::new()).await
}

fn patient(attempts: u32) -> Policy {
    Policy::builder()
        .attempts(attempts)
        .backoff(Backoff::exponential(Nanos::from_secs(1)))
        .build()
        .unwrap()
}

// W8, W9, W13: retried after the delays, with the same task, until it succeeds.
#[tokio::test(start_paused = true)]
async fn retries_until_it_succeeds() {
    let calls = Arc::new(AtomicU32::new(0));
    let engine = engine(Flaky { fail: 2, calls: Arc::clone(&calls), hang: false }).await;
    let w = workflow(vec![
        step("a", patient(3), &[], json!({})),
        step("b", ActionKind::ToolCall.built_in(), &[0], json!({ "n": "${steps.a.result.n}" })),
    ]);
    let begun = tokio::time::Instant::now();
    let run = engine.submit(Submission::new(w)).await.unwrap().run;
    let ended = engine.outcome(run).await.unwrap();
    assert_eq!(ended.outcome, RunOutcome::Completed);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(4), "{took:?}");
    let b = ended.state.left_by(StepIx(1)).unwrap();
    assert_eq!(b["result"]["args"], json!({ "n": 2 }));
    engine.shutdown().await;
}

// C4, W14: the attempt is cut at its timeout and the failure is TIMEOUT.
#[tokio::test(start_paused = true)]
async fn cuts_an_attempt_at_its_timeout() {
    let calls = Arc::new(AtomicU32::new(0));
    let engine = engine(Flaky { fail: 0, calls: Arc::clone(&calls), hang: true }).await;
    let policy =
        Policy::builder().attempts(2).attempt_timeout(Nanos::from_secs(5)).build().unwrap();
    let run = engine
        .submit(Submission::new(workflow(vec![step("a", policy, &[], json!({}))])))
        .await
        .unwrap()
        .run;
    let RunOutcome::Failed { error } = engine.outcome(run).await.unwrap().outcome else { panic!() };
    assert_eq!((error.code.as_str(), error.attempt), ("TIMEOUT", 2));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

// H12: cancelling during an attempt and during a delay ends the run at once.
#[tokio::test(start_paused = true)]
async fn cancels_at_once() {
    for hang in [true, false] {
        let calls = Arc::new(AtomicU32::new(0));
        let engine = engine(Flaky { fail: 9, calls, hang }).await;
        let w = workflow(vec![step("a", patient(9), &[], json!({}))]);
        let run = engine.submit(Submission::new(w)).await.unwrap().run;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let begun = tokio::time::Instant::now();
        engine.cancel(run, "enough").await.unwrap();
        let ended = engine.outcome(run).await.unwrap();
        assert_eq!(ended.outcome, RunOutcome::Cancelled { reason: "enough".into() });
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
