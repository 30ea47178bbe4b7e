//! Retries one future under a policy, with no workflow and no store.
//!
//! ```text
//! cargo run --example retry
//! ```

use std::fmt;
use std::time::Duration;

use retrial::policy::{Backoff, Jitter, Policy};
use retrial::retry::PolicyExt as _;

/// An error of a program's own.
#[derive(Debug)]
enum QuoteError {
    Busy,
    NoSuchStock,
}

impl fmt::Display for QuoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the exchange is busy",
            Self::NoSuchStock => "there is no such stock",
        })
    }
}

impl std::error::Error for QuoteError {}

async fn quote(stock: &str, attempt: u32) -> Result<f64, QuoteError> {
    match (stock, attempt) {
        ("ACME", 3) => Ok(12.5),
        ("ACME", _) => Err(QuoteError::Busy),
        _ => Err(QuoteError::NoSuchStock),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::builder()
        .attempts(5)
        .backoff(Backoff::exponential(Duration::from_millis(20)).with_jitter(Jitter::Full))
        .attempt_timeout(Duration::from_secs(2))
        .build()?;

    let price = policy
        .retry(|attempt| quote("ACME", attempt.number))
        .notify(|retry| println!("ACME: {}, again in {}", retry.failure.message(), retry.delay));
    println!("ACME: {}", price.await?);

    let price = policy
        .retry(|attempt| quote("NONE", attempt.number))
        .when(|error| matches!(error, QuoteError::Busy));
    if let Err(gave_up) = price.await {
        println!("NONE: {gave_up}");
    }
    Ok(())
}
