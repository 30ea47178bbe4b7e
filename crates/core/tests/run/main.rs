//! A run's state, inputs and events on the pure core, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod golden_records;
mod properties;
mod run_flow;
mod run_support;
