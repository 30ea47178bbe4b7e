//! The policy laboratory: what a retry policy does to a system, before an outage does.
//!
//! It runs the policy's own code (the core's verdict, backoff, budgets and guards) in simulated time
//! between modelled clients and services. `docs/laboratory.md` walks through it and gives its
//! equations. It knows no store, no clock and no network.

pub mod change;
pub mod histogram;
pub mod judge;
pub mod map;
pub mod measure;
pub mod model;
pub mod numeric;
pub mod page;
pub mod read;
pub mod search;
pub mod summary;
pub mod terminal;
pub mod world;
