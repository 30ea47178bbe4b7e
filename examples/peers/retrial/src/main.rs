//! A durable greeting: it survives a crash, and its one function is retried.

use std::error::Error;
use std::path::Path;

use retrial::action::Args;
use retrial::engine::{Engine, Submission};
use retrial::runtime::TokioRuntime;
use retrial::store::RedbStore;
use retrial::workflow::Workflow;
use serde_json::json;

async fn greet(Args(name): Args<String>) -> std::io::Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let hello = Workflow::builder("hello").step("greet", "greet").args(json!("${input.name}"));
    let hello = hello.retry("[retry: 3, backoff: 100ms]".parse()?).build()?;
    let store = RedbStore::open(TokioRuntime::current(), Path::new("hello.redb")).await?;
    let engine = Engine::builder().store(store).action("greet", greet).start().await;
    let run = engine.submit(Submission::typed(hello, &json!({ "name": "world" }))?).await?;
    println!("{}", run.result::<String>("greet").await?);
    Ok(())
}
