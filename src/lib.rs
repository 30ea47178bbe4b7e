//! Retrial: a retry engine. Policies in five dialects, durable runs, failure routing, replay.
//!
//! See `docs/architecture.md` for the rooms and their order.

pub mod action;
pub mod dialect;
pub mod door;
pub mod engine;
pub mod explain;
pub mod failure;
pub mod net;
pub mod observe;
pub mod policy;
pub mod run;
pub mod runtime;
pub mod schedule;
pub mod store;
pub mod time;
pub mod workflow;
