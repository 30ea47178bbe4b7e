//! The engine inside a program of your own: registered async functions, a policy from the builder,
//! a durable store, and the outcome awaited.
//!
//! ```text
//! cargo run --example embedded
//! ```
//!
//! Kill it during a delay and start it again: the same order is taken up where it stopped, for its
//! submission key is the same.

use std::error::Error;
use std::io::stdout;
use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission, World};
use retrial::failure::{Failure, NetworkFault};
use retrial::observe::{Observer, Output, Printer};
use retrial::policy::{Backoff, Policy};
use retrial::runtime::TokioRuntime;
use retrial::store::RedbStore;
use retrial::time::Nanos;
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What the engine runs on.
struct Shop;

impl World for Shop {
    type Runtime = TokioRuntime;
    type Store = RedbStore;
    type Actions = Registry;
}

#[derive(Deserialize)]
struct Order {
    item: String,
    cents: u32,
}

#[derive(Serialize)]
struct Charge {
    receipt: String,
    cents: u32,
}

/// Fails twice, as networks do. The receipt token is the same on every attempt: a payment service
/// that is given it charges once.
async fn charge(call: Context) -> Result<Charge, Failure> {
    let order: Order = call.args()?;
    if call.attempt() < 3 {
        return Err(Failure::network(NetworkFault::Reset, "the payment service hung up"));
    }
    Ok(Charge { receipt: call.receipt_token().to_string(), cents: order.cents })
}

async fn ship(call: Context) -> Result<String, Failure> {
    let order: Order = call.args()?;
    Ok(format!("{} is on its way", order.item))
}

fn workflow() -> Result<Workflow, Box<dyn Error>> {
    let patient = Policy::builder()
        .attempts(5)
        .exception_types(["NetworkError", "TIMEOUT"])
        .backoff(Backoff::exponential(Nanos::from_secs(1)))
        .attempt_timeout(Nanos::from_secs(10))
        .build()?;
    let once = Policy::builder().build()?;
    let order = json!({ "item": "${input.item}", "cents": "${input.cents}" });
    let step = |action: &str, after: Vec<StepIx>, policy: Policy| -> Result<Step, Box<dyn Error>> {
        Ok(Step {
            args: Template::try_from(order.clone())?,
            after,
            ..Step::new(action, action, policy)
        })
    };
    let steps = vec![step("charge", vec![], patient)?, step("ship", vec![StepIx(0)], once)?];
    Ok(Workflow::try_from(WorkflowParts {
        name: "order".into(),
        steps,
        ..WorkflowParts::default()
    })?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut actions = Registry::new();
    actions.register("charge", charge).register("ship", ship);

    let runtime = TokioRuntime::current();
    let path = std::env::temp_dir().join("retrial-embedded.redb");
    let store = RedbStore::open(runtime.clone(), &path).await?;
    let printer: Arc<dyn Observer> = Arc::new(Printer::new(stdout(), Output::Detailed));
    let engine =
        Engine::<Shop>::start(runtime, store, actions, Config::default(), vec![printer]).await;

    let input = json!({ "item": "lamp", "cents": 4200 }).as_object().cloned().unwrap_or_default();
    let order = Submission::new(Arc::new(workflow()?)).with_input(input).with_key("order 7");
    let order = engine.submit(order).await?;
    if order.existing {
        println!("order 7 was submitted before: run {}", order.id());
    }
    let ended = order.outcome().await?;
    println!("{:?}", ended.outcome);
    println!("{}", ended.state.left_by(StepIx(1)).unwrap_or_default());
    engine.shutdown().await;
    Ok(())
}
