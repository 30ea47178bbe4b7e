//! A long action that says how far it has come, and takes up there after a failure.
//!
//! ```text
//! cargo run --example heartbeats
//! ```

#![expect(clippy::disallowed_methods, reason = "a program beside every simulated path")]

use std::error::Error;
use std::io::stdout;
use std::sync::Arc;
use std::time::Duration;

use retrial::action::{Context, Registry};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Config, Engine, Submission, World};
use retrial::failure::{Failure, NetworkFault};
use retrial::observe::{Observer, Output, Printer};
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;

struct Importer;

impl World for Importer {
    type Runtime = TokioRuntime;
    type Store = MemoryStore<TokioRuntime>;
    type Actions = Registry;
}

const WORKFLOW: &str = r#"
workflow = "import"

[[steps]]
id = "import"
action = "import_rows"
heartbeat_timeout = "500ms"
retry = "[retry: 5, backoff: 200ms]"
"#;

const ROWS: u32 = 10;

/// Imports one row at a time. The connection breaks at row 4, and at row 7 it hangs: no heartbeat
/// comes, so the attempt is ended long before anything else would.
async fn import(context: Context) -> Result<u32, Failure> {
    let begin = context.progress::<u32>()?.unwrap_or(0);
    println!("attempt {} begins after row {begin}", context.attempt());
    for row in begin + 1..=ROWS {
        match (row, context.attempt()) {
            (4, 1) => return Err(Failure::network(NetworkFault::Reset, "the peer hung up")),
            (7, 2) => std::future::pending::<()>().await,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        context.report_cost(1_000);
        context.heartbeat(row)?;
    }
    Ok(ROWS)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut actions = Registry::new();
    actions.register("import_rows", import);

    let environment = Environment::default();
    let workflow = parse_workflow("import.toml", WORKFLOW, Format::Toml, &environment)?.workflow;

    let runtime = TokioRuntime::current();
    let store = MemoryStore::new(runtime.clone());
    let printer: Arc<dyn Observer> = Arc::new(Printer::new(stdout(), Output::Detailed));
    let engine =
        Engine::<Importer>::start(runtime, store, actions, Config::default(), vec![printer]).await;
    let handle = engine.submit(Submission::new(Arc::new(workflow))).await?;
    let rows: u32 = handle.result("import").await?;
    println!("{rows} rows, cost {}", handle.state().await?.cost());
    engine.shutdown().await;
    Ok(())
}
