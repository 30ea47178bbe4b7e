//! The rules of this repository, as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod book;
mod ci;
mod house_rules;
mod packaging;
mod repository;
mod semantics;
mod source;
