//! Retrial as a service: an HTTP interface over a running engine, and the inspector, its page for
//! people. The binary `retrial` is the command line over the same engine and stores.

pub mod server;
