//! How attempts are invoked: functions, HTTP and TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod action_support;
mod answers;
mod connections;
mod context;
mod functions;
mod hosts;
mod http;
mod outcome;
mod proxy;
mod registry;
mod spans;
mod tls;
