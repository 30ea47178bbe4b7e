//! The service over real sockets, on the memory store and on redb.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; the clients here are outside every simulated path"
)]

mod actions;
mod auth;
mod busy;
mod client;
mod commands;
mod contract;
mod events;
mod kit;
mod letters;
mod limits;
mod openapi;
mod roles;
mod runs;
mod secrets;
mod shutdown;
mod trouble;
mod values;
mod watch;
mod workflows;
