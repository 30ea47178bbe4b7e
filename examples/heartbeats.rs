//! A long action that says how far it has come, and takes up there after a failure.
//!
//! ```text
//! cargo run --example heartbeats
//! ```

#![expect(clippy::disallowed_methods, reason = "a program beside every simulated path")]

use std::error::Error;
use std::io::stdout;
use std::time::Duration;

use retrial::action::Context;
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Engine, Submission};
use retrial::failure::{Failure, NetworkFault};
use retrial::observe::{Output, Printer};

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
    let environment = Environment::default();
    let workflow = parse_workflow("import.toml", WORKFLOW, Format::Toml, &environment)?.workflow;

    let engine = Engine::builder()
        .action("import_rows", import)
        .observer(Printer::new(stdout(), Output::Detailed))
        .start()
        .await;
    let handle = engine.submit(Submission::new(workflow)).await?;
    let rows: u32 = handle.result("import").await?;
    println!("{rows} rows, cost {}", handle.state().await?.cost());
    engine.shutdown().await;
    Ok(())
}
