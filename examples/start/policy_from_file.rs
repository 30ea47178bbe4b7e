//! A program whose settings say how it retries, in any dialect that Retrial reads.
//!
//! ```text
//! cargo run --example policy_from_file -- examples/start/settings.toml
//! ```

use std::error::Error;

use retrial::failure::Failure;
use retrial::policy::Policy;
use retrial::retry::PolicyExt as _;

#[derive(serde::Deserialize)]
struct Settings {
    stock: String,
    retry: String,
}

/// Stands for a call over the network.
async fn quote(stock: &str, attempt: u32) -> Result<String, Failure> {
    if attempt < 3 { Err(Failure::http(503, "busy")) } else { Ok(format!("{stock}: 12.50")) }
}

pub(crate) async fn price(file: &str) -> Result<String, Box<dyn Error>> {
    let settings: Settings = toml::from_str(&std::fs::read_to_string(file)?)?;
    let policy: Policy = settings.retry.parse()?;
    Ok(policy.retry(|attempt| quote(&settings.stock, attempt.number)).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which file?")?;
    println!("{}", price(&file).await?);
    Ok(())
}
