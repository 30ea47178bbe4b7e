//! A run of one step.

use std::sync::Arc;
use std::time::Instant;

use kit::Asked;
use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Dialect, Policy};
use retrial::runtime::TokioRuntime;
use retrial::store::{PostgresOptions, PostgresStore};
use retrial::time::Nanos;
use retrial::workflow::{Step, Workflow, WorkflowParts};
use serde_json::Value;
use tokio::task::JoinSet;

type World = (TokioRuntime, PostgresStore, Registry);

fn actions(fail: bool) -> Registry {
    let mut actions = Registry::new();
    actions.register("nothing", move |context: Context| async move {
        if fail && context.attempt() == 1 {
            return Err(Failure::http(503, "busy"));
        }
        kit::done();
        Ok(Value::Null)
    });
    actions
}

fn workflow(fail: bool) -> Arc<Workflow> {
    let millisecond = Backoff::exponential(Nanos::from_millis(1));
    let policy = match fail {
        true => Policy::builder().attempts(3).backoff(millisecond).build().unwrap(),
        false => Policy::no_retries(Dialect::Builder),
    };
    let steps = vec![Step::new("a", "nothing", policy)];
    let parts = WorkflowParts { name: "one".into(), steps, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// `at_once` users, each of whom waits for one answer before it submits again.
async fn submit(engine: &Engine<World>, asked: &Asked) {
    let workflow = workflow(asked.fail);
    let mut users = JoinSet::new();
    for user in 0..asked.at_once as u64 {
        let (engine, workflow) = (engine.clone(), Arc::clone(&workflow));
        let mine = (user..asked.jobs).step_by(asked.at_once);
        users.spawn(async move {
            for _ in mine {
                engine.submit(Submission::new(Arc::clone(&workflow))).await.unwrap();
            }
        });
    }
    while let Some(user) = users.join_next().await {
        user.unwrap();
    }
}

#[tokio::main]
async fn main() {
    let asked = Asked::read();
    let runtime = TokioRuntime::current();
    let options = PostgresOptions::from_url(&asked.url).unwrap();
    let store = PostgresStore::connect(runtime.clone(), options).await.unwrap();
    let config = Config { sole_owner: false, concurrency: asked.at_once, ..Config::default() };
    match asked.phase.as_str() {
        "setup" => {}
        "submit" => {
            let engine = Engine::<World>::idle(runtime, store, actions(false), config).await;
            let begun = Instant::now();
            submit(&engine, &asked).await;
            kit::took(begun);
        }
        "work" => {
            let (client, connection) =
                tokio_postgres::connect(&asked.url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let begun = Instant::now();
            let actions = actions(asked.fail);
            let engine = Engine::<World>::start(runtime, store, actions, config, Vec::new()).await;
            let ended = "SELECT count(*) FROM retrial.runs WHERE phase = 'completed'";
            let left = async || {
                let ended: i64 = client.query_one(ended, &[]).await.unwrap().get(0);
                asked.jobs as i64 - ended
            };
            kit::worked_off(&asked, left).await;
            kit::took(begun);
            engine.shutdown().await;
        }
        phase => panic!("no phase is called {phase}"),
    }
}
