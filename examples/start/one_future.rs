//! One request with `reqwest`, tried again where that can help.
//!
//! ```text
//! cargo run --features reqwest --example one_future -- http://localhost:8080/
//! ```

use std::error::Error;
use std::time::Duration;

use retrial::policy::{Backoff, Jitter, Policy};
use retrial::retry::PolicyExt as _;

pub(crate) async fn fetch(url: &str) -> Result<String, Box<dyn Error>> {
    let backoff = Backoff::exponential(Duration::from_millis(100)).with_jitter(Jitter::Full);
    let policy = Policy::builder().attempts(4).backoff(backoff).build()?;
    let page = policy
        .retry(|_| async { reqwest::get(url).await?.error_for_status()?.text().await })
        .notify(|retry| eprintln!("{}; again in {}", retry.failure, retry.delay));
    Ok(page.await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("which URL?")?;
    println!("{}", fetch(&url).await?);
    Ok(())
}
