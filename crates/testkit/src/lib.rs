//! Code that the tests and benches of several packages share.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a helper of a test may fail the test; outside every simulated path"
)]

pub mod bench_support;
pub mod browser;
pub mod collector;
pub mod postgres_server;

use std::path::Path;

/// The repository's root.
pub fn root() -> &'static Path {
    // This crate is two folders below it.
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
