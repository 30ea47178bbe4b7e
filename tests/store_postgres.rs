//! The PostgreSQL store on a server of its own: the suite that every store passes, and what is its
//! own affair.
#![cfg(feature = "postgres")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod postgres_server;
#[path = "store_model"]
mod store_model {
    pub(crate) mod ask;
    pub(crate) mod script;
}
mod store_postgres {
    mod conformance;
    mod engines;
    pub(crate) mod kit;
    mod model;
    mod news;
    mod own;
    mod tls;
}
mod store_world;
