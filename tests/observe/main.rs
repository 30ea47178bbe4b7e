//! What observers show of hand-made events.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may fail the test")]

mod fixtures;
mod history;
mod json;
mod lines;
#[cfg(feature = "metrics")]
mod metrics;
mod otlp;
mod printer;
mod schema;
mod statistics;
mod stream;
mod terminal;
