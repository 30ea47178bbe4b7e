//! Several engines on one database: they share the work, each run ends once, and what a lost node
//! held is taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::run::{self, Event, RunId, Version};
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::store::{DynStore, PostgresOptions, Store};
use retrial::time::Nanos;
use retrial::workflow::{Step, Template, Workflow, WorkflowParts};
use serde_json::json;

use super::kit::{World, connect, new_schema, with_http};

/// A node whose every third first attempt fails. Clones share what was called.
#[derive(Clone, Default)]
struct Flaky {
    calls: Arc<Mutex<BTreeMap<(RunId, run::TaskId), u32>>>,
    hangs: bool,
}

impl Flaky {
    async fn act(self, context: Context) -> Result<u32, Failure> {
        let task = context.task();
        *self.calls.lock().unwrap().entry((context.run(), task)).or_default() += 1;
        if self.hangs {
            std::future::pending::<()>().await;
        }
        match context.attempt() == 1 && task.item.is_multiple_of(3) {
            true => Err(Failure::new("503", "not this time")),
            false => Ok(context.attempt()),
        }
    }
}

async fn node(options: &PostgresOptions, flaky: &Flaky) -> Engine<World> {
    let (flaky, mut functions) = (flaky.clone(), Registry::new());
    functions.register("act", move |context: Context| flaky.clone().act(context));
    let lease = Nanos::from_secs(2);
    let config =
        Config { sole_owner: false, lease, poll: Nanos::from_millis(50), ..Config::default() };
    let (store, actions) = (DynStore::new(connect(options).await), with_http(functions));
    Engine::start(TokioRuntime::current(), store, actions, config, Vec::new()).await
}

/// Four tasks side by side, each tried three times at most.
fn work() -> Arc<Workflow> {
    let backoff = Backoff::exponential(Nanos::from_millis(30));
    let policy = Policy::builder().attempts(3).backoff(backoff).build().unwrap();
    let args = Template::try_from(json!({ "item": "${item}" })).unwrap();
    let for_each = Some(Template::try_from(json!("${input.items}")).unwrap());
    let step = Step { args, for_each, ..Step::new("each", "act", policy) };
    let input = json!({ "items": [0, 1, 2, 3] }).as_object().cloned().unwrap();
    let parts =
        WorkflowParts { name: "w".into(), input, steps: vec![step], ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// Reported ends of a run, and starts by task.
async fn told(store: &impl Store, run: RunId) -> (usize, BTreeMap<run::TaskId, u32>) {
    let loaded = store.load(run, Some(Version::START)).await.unwrap().unwrap();
    let events = loaded.tail.events.iter().map(|bytes| run::decode(bytes).unwrap().event);
    let (mut ends, mut starts) = (0, BTreeMap::new());
    for event in events {
        match event {
            Event::RunEnded { .. } => ends += 1,
            Event::AttemptStarted { task, .. } => *starts.entry(task).or_default() += 1,
            _ => {}
        }
    }
    (ends, starts)
}

async fn share(nodes: usize, runs: usize) {
    let (options, actions) = (new_schema(), Flaky::default());
    let mut engines = Vec::new();
    for _ in 0..nodes {
        engines.push(node(&options, &actions).await);
    }
    let mut submitted = Vec::new();
    for n in 0..runs {
        let engine = &engines[n % nodes];
        submitted.push(engine.submit(Submission::new(work())).await.unwrap().run);
    }
    for (n, run) in submitted.iter().enumerate() {
        // Any node knows of any run.
        let ended = engines[(n + 1) % nodes].outcome(*run).await.unwrap();
        assert_eq!(ended.outcome, run::Outcome::Completed);
    }
    let calls = actions.calls.lock().unwrap().clone();
    let ids: BTreeSet<_> = submitted.iter().copied().collect();
    assert_eq!((ids.len(), calls.len()), (runs, runs * 4));
    for run in submitted {
        let (ends, starts) = told(engines[0].store(), run).await;
        assert_eq!(ends, 1);
        for (task, started) in starts {
            let wanted = if task.item.is_multiple_of(3) { 2 } else { 1 };
            assert_eq!((started, calls[&(run, task)]), (wanted, wanted), "{run} {task:?}");
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn two_engines_share_the_work_of_one_database() {
    share(2, 120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn three_engines_share_the_work_of_one_database() {
    share(3, 90).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn decision_12_a_lost_nodes_work_is_taken_over_after_its_lease() {
    let (options, works) = (new_schema(), Flaky::default());
    let hangs = Flaky { hangs: true, ..works.clone() };
    let lost = node(&options, &hangs).await;
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(lost.submit(Submission::new(work())).await.unwrap().run);
    }
    // Until each of its tasks has begun.
    while hangs.calls.lock().unwrap().len() < 40 {
        let runtime = TokioRuntime::current();
        runtime.sleep_until(runtime.now().after(Nanos::from_millis(20))).await;
    }
    drop(lost);
    let other = node(&options, &works).await;
    for run in runs {
        assert_eq!(other.outcome(run).await.unwrap().outcome, run::Outcome::Completed);
        let (ends, starts) = told(other.store(), run).await;
        // The lost attempt counts, and the next is the second, which does not fail.
        assert_eq!((ends, starts.values().copied().collect::<Vec<_>>()), (1, vec![2; 4]));
    }
    other.shutdown().await;
}
