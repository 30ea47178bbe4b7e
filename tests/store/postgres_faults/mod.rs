//! The PostgreSQL store on a real server, and nodes on it as real processes, under everything that
//! breaks: connections cut in every message, backends and servers killed, locks, a full disk, nodes
//! stopped and killed.
#![cfg(all(feature = "postgres", feature = "http"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; these tests run in real time"
)]

mod claims;
mod cuts;
mod fleet;
mod full_disk;
mod judge;
mod kills;
mod ledger;
mod locks;
mod node;
mod opened;
mod outages;
mod patience;
mod proxied;
pub(crate) mod script;
pub(crate) mod seed;
mod server;
mod soak;
mod stopped;
mod twin;
mod work;
