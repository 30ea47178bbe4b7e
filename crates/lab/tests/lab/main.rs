//! Tests of the laboratory in one program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod cli;
mod determinism;
mod examples;
mod kit;
mod layers;
mod models;
mod page;
mod programs;
mod published;
mod queueing;
mod walk;
