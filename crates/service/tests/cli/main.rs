//! The `retrial` binary as a user runs it: real processes, a real store, a real HTTP server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod cli_bench;
mod cli_run;
mod cli_serve;
mod endpoint;
mod secrets_everywhere;
mod workspace;
