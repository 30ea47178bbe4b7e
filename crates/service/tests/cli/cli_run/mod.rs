//! The `retrial` binary as a user runs it: real processes, a real store, a real HTTP server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod alerts;
mod endings;
use crate::endpoint;
mod events;
mod examples;
mod explain;
mod fsck;
mod input;
use crate::workspace;
mod lint;
mod manual;
mod network;
mod output;
mod quarantine;
mod resume;
mod rollback;
mod secrets;
mod service;
mod stdin;
mod store;
#[cfg(target_os = "linux")]
mod terminal;
