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
use std::time::Duration;

use retrial::action::{Args, Context};
use retrial::engine::{Engine, Submission};
use retrial::failure::{Failure, NetworkFault};
use retrial::observe::{Output, Printer};
use retrial::policy::{Backoff, Policy};
use retrial::runtime::TokioRuntime;
use retrial::store::RedbStore;
use retrial::workflow::Workflow;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize, Deserialize)]
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
async fn charge(Args(order): Args<Order>, call: Context) -> Result<Charge, Failure> {
    if call.attempt() < 3 {
        return Err(Failure::network(NetworkFault::Reset, "the payment service hung up"));
    }
    Ok(Charge { receipt: call.receipt_token().to_string(), cents: order.cents })
}

async fn ship(Args(order): Args<Order>) -> Result<String, Failure> {
    Ok(format!("{} is on its way", order.item))
}

fn workflow() -> Result<Workflow, Box<dyn Error>> {
    let patient = Policy::builder()
        .attempts(5)
        .exception_types(["NetworkError", "TIMEOUT"])
        .backoff(Backoff::exponential(Duration::from_secs(1)))
        .attempt_timeout(Duration::from_secs(10))
        .build()?;
    let order = json!({ "item": "${input.item}", "cents": "${input.cents}" });
    Ok(Workflow::builder("order")
        .step("charge", "charge")
        .args(order.clone())
        .retry(patient)
        .step("ship", "ship")
        .after(["charge"])
        .args(order)
        .build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join("retrial-embedded.redb");
    let engine = Engine::builder()
        .store(RedbStore::open(TokioRuntime::current(), &path).await?)
        .action("charge", charge)
        .action("ship", ship)
        .observer(Printer::new(stdout(), Output::Detailed))
        .start()
        .await;

    let order = Order { item: "lamp".into(), cents: 4200 };
    let order = Submission::typed(workflow()?, &order)?.with_key("order 7");
    let order = engine.submit(order.require_actions()).await?;
    if order.existing {
        println!("order 7 was submitted before: run {}", order.id());
    }
    println!("{}", order.result::<String>("ship").await?);
    engine.shutdown().await;
    Ok(())
}
