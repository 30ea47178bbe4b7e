//! The engine on tokio with paused time: the rows that need a driver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; time here is tokio's own, paused"
)]

mod able;
mod alerts;
mod attempts;
mod backoffs;
mod behind;
mod between;
mod conditions;
mod costs;
mod damage;
mod deactivation;
mod fences;
mod first_programs;
mod guards;
mod heartbeats;
mod instructions;
mod keeping;
mod kit;
mod letters;
mod pause;
mod places;
mod platform;
mod quarantine;
mod queue;
#[cfg(feature = "redb")]
mod restart;
mod retry;
mod retry_layers;
mod retry_middleware;
mod rollback;
mod runtime_conformance;
mod sharing;
mod shutdown;
mod submission;
mod typed;
mod waiting;
mod webhooks;
mod width;
