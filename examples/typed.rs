//! Typed actions, a typed input and result, and the run's events as they happen.
//!
//! ```text
//! cargo run --example typed
//! ```

use std::error::Error;

use retrial::action::{Args, Context};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Engine, Submission};
use retrial::failure::{Failure, NetworkFault};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
    count: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Price {
    cents: u32,
}

const WORKFLOW: &str = r#"
workflow = "quote"

[[steps]]
id = "price"
action = "price"
args = { item = "${input.item}", count = "${input.count}" }
retry = "[retry: 3, backoff: 100ms]"
"#;

async fn price(call: Context, Args(order): Args<Order>) -> Result<Price, Failure> {
    if call.attempt() == 1 {
        return Err(Failure::network(NetworkFault::Reset, "the price list hung up"));
    }
    println!("pricing {} of {}", order.count, order.item);
    Ok(Price { cents: order.count * 250 })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let environment = Environment::default();
    let workflow = parse_workflow("quote.toml", WORKFLOW, Format::Toml, &environment)?.workflow;

    let engine = Engine::builder().action("price", price).start().await;
    let order = Order { item: "lamp".into(), count: 3 };
    let handle = engine.submit(Submission::typed(workflow, &order)?).await?;
    let mut events = handle.events();
    while let Some(event) = events.next().await {
        let event = event?;
        println!("{} {}", event.number.0, event.recorded.event.name());
    }
    let price: Price = handle.result("price").await?;
    println!("{price:?}");
    engine.shutdown().await;
    Ok(())
}
