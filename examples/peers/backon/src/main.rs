//! One future that is retried.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};

async fn greet(name: &str) -> std::io::Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let backoff = ExponentialBuilder::default().with_min_delay(Duration::from_millis(100));
    println!("{}", (|| greet("world")).retry(backoff.with_max_times(3)).await?);
    Ok(())
}
