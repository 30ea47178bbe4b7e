//! A job of two functions. Kill it at any time and start it again: it goes on where it was.

use std::{error::Error, path::Path};

use retrial::action::{Args, Context};
use retrial::engine::{Engine, Submission};
use retrial::failure::Failure;
use retrial::runtime::TokioRuntime;
use retrial::store::RedbStore;
use retrial::workflow::Workflow;
use serde_json::json;

async fn charge(Args(cents): Args<u32>, call: Context) -> Result<String, Failure> {
    match call.attempt() {
        1 | 2 => Err(Failure::http(503, "the bank is busy")),
        _ => Ok(format!("{cents} cents, receipt {}", call.receipt_token())),
    }
}

async fn ship(Args(charge): Args<String>) -> Result<String, Failure> {
    Ok(format!("sent after a charge of {charge}"))
}

pub(crate) async fn job(file: &Path) -> Result<String, Box<dyn Error>> {
    let job = Workflow::builder("order").step("charge", "charge").args(json!("${input.cents}"));
    let job = job.retry("[retry: 5, backoff: 100ms]".parse()?);
    let job = job.step("ship", "ship").after(["charge"]).args(json!("${steps.charge.result}"));
    let store = RedbStore::open(TokioRuntime::current(), file).await?;
    let engine = Engine::builder().store(store).action("charge", charge).action("ship", ship);
    let engine = engine.start().await;
    let order = Submission::typed(job.build()?, &json!({ "cents": 4200 }))?.with_key("order 7");
    let sent = engine.submit(order).await?.result("ship").await?;
    engine.shutdown().await;
    Ok(sent)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    job(Path::new("orders.redb")).await.map(|sent| println!("{sent}"))
}
