//! Conditions of registered functions (H10): preconditions once, the rest retried as one.

use std::sync::{Arc, Mutex};

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::policy::Policy;
use retrial::run::Outcome;
use retrial::runtime::TokioRuntime;
use serde_json::json;

use crate::kit::*;

type Contract = (TokioRuntime, Arc<Watched>, Registry);

/// What was called, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: &str, context: &Context) {
        self.0.lock().unwrap().push(format!("{what} {}", context.attempt()));
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// When each stage fails: up to and including these attempts.
#[derive(Clone, Copy, Default)]
struct Fails {
    before: u32,
    act: u32,
    after: u32,
    artifacts: u32,
}

fn staged(log: &Log, fails: Fails) -> Registry {
    let stage = |log: &Log, what: &'static str, until: u32| {
        let log = log.clone();
        move |context: &Context| {
            log.note(what, context);
            let failed = context.attempt() <= until;
            if failed { Err(Failure::http(503, what)) } else { Ok(()) }
        }
    };
    let mut registry = Registry::new();
    let (before, act) = (stage(log, "before", fails.before), stage(log, "act", fails.act));
    let (after, store) = (stage(log, "after", fails.after), stage(log, "store", fails.artifacts));
    registry
        .action("act")
        .precondition(move |context: Context| std::future::ready(before(&context)))
        .run(move |context: Context| {
            let done = act(&context).map(|()| context.attempt());
            std::future::ready(done)
        })
        .postcondition(move |context: Context, result: Arc<u32>| {
            assert_eq!(*result, context.attempt());
            std::future::ready(after(&context))
        })
        .artifacts(move |context: Context, _: Arc<u32>| std::future::ready(store(&context)))
        .register();
    registry
}

async fn node(store: &Arc<Watched>, registry: Registry, config: Config) -> Engine<Contract> {
    Engine::start(TokioRuntime::current(), Arc::clone(store), registry, config, Vec::new()).await
}

async fn check(fails: Fails, expected: &[&str], code: Option<&str>) {
    let (store, log) = (Watched::new(), Log::default());
    let engine = node(&store, staged(&log, fails), Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(log.taken(), expected);
    let failed = match &ended.outcome {
        Outcome::Failed { error } => Some(error.code.as_str()),
        _ => None,
    };
    assert_eq!(failed, code);
}

// H10: the precondition once, then function, postcondition and artifacts together on each attempt.
#[tokio::test(start_paused = true)]
async fn h10_function_postconditions_and_artifacts_are_retried_as_one() {
    let once = ["before 1", "act 1", "after 1", "store 1"];
    check(Fails::default(), &once, None).await;
    let after_act = ["before 1", "act 1", "act 2", "after 2", "store 2"];
    check(Fails { act: 1, ..Fails::default() }, &after_act, None).await;
    let after_after = ["before 1", "act 1", "after 1", "act 2", "after 2", "store 2"];
    check(Fails { after: 1, ..Fails::default() }, &after_after, None).await;
    let all = [
        "before 1", "act 1", "after 1", "store 1", "act 2", "after 2", "store 2", "act 3",
        "after 3", "store 3",
    ];
    check(Fails { artifacts: 2, ..Fails::default() }, &all, None).await;
    check(Fails { artifacts: 3, ..Fails::default() }, &all, Some("ARTIFACTS_FAILED")).await;
    let broken = ["before 1", "act 1", "after 1", "act 2", "after 2", "act 3", "after 3"];
    check(Fails { after: 9, ..Fails::default() }, &broken, Some("POSTCONDITION_FAILED")).await;
}

// H10: a precondition that does not hold is permanent, whatever its error says of itself.
#[tokio::test(start_paused = true)]
async fn h10_a_precondition_is_not_retried() {
    check(Fails { before: 1, ..Fails::default() }, &["before 1"], Some("PRECONDITION_FAILED"))
        .await;
}

// H10: once across nodes: what held on a node that died after its lease was renewed is not looked
// at again on another.
#[tokio::test(start_paused = true)]
async fn h10_preconditions_run_once_across_nodes() {
    for (lives, again) in [(10_000, false), (100, true)] {
        let (store, log) = (Watched::new(), Log::default());
        let config = Config { sole_owner: false, lease: SECOND, ..Config::default() };
        let mut hangs = Registry::new();
        let noted = log.clone();
        hangs
            .action("act")
            .precondition(move |context: Context| {
                noted.note("before", &context);
                std::future::ready(Ok::<_, Failure>(()))
            })
            .run(|_: Context| std::future::pending::<Result<u32, Failure>>())
            .register();
        let lost = node(&store, hangs, config.clone()).await;
        let run = submit(&lost, workflow(vec![step("a", patient(3), &[], json!({}))])).await;
        pass(lives).await;
        drop(lost);
        assert_eq!(log.taken(), ["before 1"]);
        let other = node(&store, staged(&log, Fails::default()), config).await;
        soon(other.outcome(run)).await.unwrap();
        // A node that dies before it has said so takes the knowledge along.
        let first = log.taken().remove(0);
        assert_eq!(first, if again { "before 2" } else { "act 2" });
    }
}

// H10: a precondition that was cut off has not held.
#[tokio::test(start_paused = true)]
async fn h10_a_precondition_that_was_cut_off_is_looked_at_again() {
    let (store, log) = (Watched::new(), Log::default());
    let mut registry = Registry::new();
    let (before, act) = (log.clone(), log.clone());
    registry
        .action("act")
        .precondition(move |context: Context| {
            before.note("before", &context);
            async move {
                if context.attempt() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Failure>(())
            }
        })
        .run(move |context: Context| {
            act.note("act", &context);
            std::future::ready(Ok::<_, Failure>(context.attempt()))
        })
        .register();
    let engine = node(&store, registry, Config::default()).await;
    let policy = Policy::builder().attempts(3).attempt_timeout(SECOND).build().unwrap();
    let run = submit(&engine, workflow(vec![step("a", policy, &[], json!({}))])).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    assert_eq!(log.taken(), ["before 1", "before 2", "act 2"]);
}
