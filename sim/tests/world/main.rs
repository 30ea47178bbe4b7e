//! The simulated world's parts: clocks, tasks, network, disk and stores.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; outside every simulated path"
)]

mod conformance;
mod crash_points;
mod disk_crash_outcomes;
mod disk_redb;
mod disk_states;
mod endpoint_replies;
mod net_crash;
mod net_every_byte;
mod net_faults;
mod net_properties;
mod net_world;
mod registered;
mod releases;
mod remote_store;
mod retry;
mod runtime_clock;
mod runtime_conformance;
mod runtime_node;
mod runtime_priorities;
mod runtime_world;
mod store_crash;
mod store_open;
