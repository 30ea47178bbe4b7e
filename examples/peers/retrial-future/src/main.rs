//! One future that is retried.

use std::error::Error;
use std::time::Duration;

use retrial::policy::{Backoff, Policy};
use retrial::retry::PolicyExt as _;

async fn greet(name: &str) -> std::io::Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let backoff = Backoff::exponential(Duration::from_millis(100));
    let policy = Policy::builder().attempts(4).backoff(backoff).build()?;
    println!("{}", policy.retry(|_| greet("world")).await?);
    Ok(())
}
