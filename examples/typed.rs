//! Typed actions, a typed input and result, and the run's events as they happen.
//!
//! ```text
//! cargo run --example typed
//! ```

use std::error::Error;
use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Config, Engine, Submission, World};
use retrial::failure::{Failure, NetworkFault};
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use serde::{Deserialize, Serialize};

struct Shop;

impl World for Shop {
    type Runtime = TokioRuntime;
    type Store = MemoryStore<TokioRuntime>;
    type Actions = Registry;
}

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut actions = Registry::new();
    actions.register_typed("price", |call: Context, order: Order| async move {
        if call.attempt() == 1 {
            return Err(Failure::network(NetworkFault::Reset, "the price list hung up"));
        }
        println!("pricing {} of {}", order.count, order.item);
        Ok(Price { cents: order.count * 250 })
    });

    let environment = Environment::default();
    let workflow = parse_workflow("quote.toml", WORKFLOW, Format::Toml, &environment)?.workflow;

    let runtime = TokioRuntime::current();
    let store = MemoryStore::new(runtime.clone());
    let engine =
        Engine::<Shop>::start(runtime, store, actions, Config::default(), Vec::new()).await;
    let order = Order { item: "lamp".into(), count: 3 };
    let handle = engine.submit(Submission::typed(Arc::new(workflow), &order)?).await?;
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
