//! What a user's check finds, and how it says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod bounds;
mod corners;
mod drawn;
mod findings;
mod hosts;
mod kit;
mod laboratory;
mod misuse;
mod own_examples;
mod parts;
mod replay;
mod workflows;
