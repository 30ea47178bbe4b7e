//! The inspector in headless Chromium, against a real service on a memory store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

mod kit;
mod letters;
mod looks;
mod many;
mod run;
mod runs;
mod safety;
mod service;
