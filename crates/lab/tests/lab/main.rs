//! Tests of the laboratory in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod kit;
mod layers;
mod queueing;
