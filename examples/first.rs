//! The first program of README.md: one future, retried under a policy.

use std::time::Duration;

use retrial::failure::Failure;
use retrial::policy::{Backoff, Jitter, Policy};
use retrial::retry::PolicyExt as _;

/// Stands for a call over the network: the first two attempts get a 503.
async fn quote(stock: &str, attempt: u32) -> Result<String, Failure> {
    if attempt < 3 { Err(Failure::http(503, "busy")) } else { Ok(format!("{stock}: 12.50")) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backoff = Backoff::exponential(Duration::from_millis(20)).with_jitter(Jitter::Full);
    let policy = Policy::builder().attempts(5).backoff(backoff).build()?;

    let price = policy.retry(|attempt| quote("ACME", attempt.number)).await?;
    println!("{price}");
    Ok(())
}
