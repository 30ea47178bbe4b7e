//! What nodes tell each other.

use std::future::poll_fn;
use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::policy::{Dialect, Policy};
use retrial::run;
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::store::{DynStore, PostgresOptions, Store};
use retrial::time::Nanos;
use retrial::workflow::{Step, Template, Workflow, WorkflowParts};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::kit::{World, connect, new_schema, options, schema_of, server, with_http};
use super::own::{commit, create};

/// A connection that listens, and what it hears.
async fn listener() -> (Client, mpsc::UnboundedReceiver<String>) {
    let connected = tokio_postgres::connect(&server().url("postgres"), NoTls).await.unwrap();
    let (client, mut connection) = connected;
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::runtime::Handle::current().spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(said) = message {
                // The test has heard enough.
                let _ = tell.send(said.payload().to_owned());
            }
        }
    });
    client.batch_execute("LISTEN retrial").await.unwrap();
    (client, heard)
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_transaction_that_leaves_something_due_says_so_once() {
    let options = new_schema();
    let (store, schema) = (connect(&options).await, schema_of(&options));
    let (client, mut heard) = listener().await;
    // Ten tasks due now; then nothing new.
    store.create(create(1, 10)).await.unwrap();
    store.commit(commit(1, 1)).await.unwrap();
    store.create(create(2, 0)).await.unwrap();
    store.create(create(3, 1)).await.unwrap();
    client.batch_execute("SELECT pg_notify('retrial', 'end')").await.unwrap();
    let mut said = Vec::new();
    loop {
        match heard.recv().await.unwrap() {
            end if end == "end" => break,
            // Other tests have schemas of their own in this database.
            other => said.extend(Some(other).filter(|o| o.starts_with(&format!("{schema} ")))),
        }
    }
    assert_eq!(said.len(), 2, "{said:?}");
}

/// A node that has the function, or no function.
async fn node(options: &PostgresOptions, able: bool) -> Engine<World> {
    let mut functions = Registry::new();
    if able {
        functions.register("act", async |_: Context| Ok::<_, Failure>(Value::Null));
    }
    // Nobody would find anything by asking now and then.
    let poll = Nanos::from_secs(3_600);
    let config = Config { sole_owner: false, poll, ..Config::default() };
    let (store, actions) = (DynStore::new(connect(options).await), with_http(functions));
    Engine::start(TokioRuntime::current(), store, actions, config, Vec::new()).await
}

/// Without news it would take an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn one_node_begins_at_once_what_another_was_given() {
    let options = new_schema();
    let (giver, worker) = (node(&options, false).await, node(&options, true).await);
    let args = Template::try_from(json!({})).unwrap();
    let step = Step { args, ..Step::new("a", "act", Policy::no_retries(Dialect::Builder)) };
    let parts = WorkflowParts { name: "w".into(), steps: vec![step], ..WorkflowParts::default() };
    let workflow = Arc::new(Workflow::try_from(parts).unwrap());
    for _ in 0..3 {
        let submission = Submission::new(Arc::clone(&workflow));
        let run = giver.submit(submission).await.unwrap().run;
        let ended = soon(worker.outcome(run)).await.unwrap();
        assert_eq!(ended.outcome, run::Outcome::Completed);
    }
    for engine in [giver, worker] {
        engine.shutdown().await;
    }
}

/// Ends in time, or the test fails.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let runtime = TokioRuntime::current();
    tokio::select! {
        done = future => done,
        () = runtime.sleep_until(runtime.now().after(Nanos::from_secs(120))) => {
            panic!("it waits in vain")
        }
    }
}

// C8: what it was not told while it could not listen, a node looks for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_who_listens_again_looks_at_once() {
    const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = $1 AND query ILIKE 'LISTEN%'";
    let database = server().database().await;
    let options = options(&database);
    let (listens, other) = (connect(&options).await, connect(&options).await);
    soon(listens.news()).await;
    let client = server().client("postgres").await;
    let ended = client.execute(END, &[&database]).await.unwrap();
    assert!(ended > 0, "nobody listened");
    other.create(create(1, 1)).await.unwrap();
    soon(listens.news()).await;
}
