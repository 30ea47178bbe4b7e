//! Retries one future under a policy, with no workflow and no store.
//!
//! ```text
//! cargo run --example retry
//! ```

use std::fmt;

use retrial::failure::Failure;
use retrial::policy::{Backoff, Jitter, Policy};
use retrial::retry::PolicyExt as _;
use retrial::time::Nanos;

/// An error of a program's own. What the policy needs to know of it is in `From`.
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

impl From<&QuoteError> for Failure {
    fn from(error: &QuoteError) -> Self {
        match error {
            QuoteError::Busy => Self::new("BUSY", &error.to_string()).retryable(),
            QuoteError::NoSuchStock => Self::new("NO_SUCH_STOCK", &error.to_string()),
        }
    }
}

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
        .exception_types(["BUSY"])
        .backoff(Backoff::exponential(Nanos::from_millis(20)).with_jitter(Jitter::Full))
        .attempt_timeout(Nanos::from_secs(2))
        .build()?;

    let price = policy.retry(|attempt| quote("ACME", attempt.number)).await?;
    println!("ACME: {price}");

    if let Err(gave_up) = policy.retry(|attempt| quote("NONE", attempt.number)).await {
        println!("NONE: {gave_up}");
    }
    Ok(())
}
