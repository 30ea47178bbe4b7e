//! Every store: the conformance suite, models, damage, and PostgreSQL on servers of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; outside every simulated path"
)]

mod conformance;
mod damage;
mod file;
mod lost_commits;
mod model;
mod open_rot;
mod overwritten;
mod postgres;
mod postgres_address;
mod postgres_faults;
mod postgres_gate;
mod postgres_kit;
mod postgres_proxy;
mod postgres_upgrade;
mod redb;
mod rot;
mod store_model {
    pub(crate) mod naive;
    mod naive_guards;
    pub(crate) mod script;
}
mod store_world;
