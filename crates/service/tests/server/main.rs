//! The service over real sockets, and its inspector in a browser.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; outside every simulated path"
)]

mod inspector;
mod service;
