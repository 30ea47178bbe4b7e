//! The page of a world: its data, and what a browser makes of it. A15, C14, H9.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use retrial_testkit::browser;
mod data;
mod drawn;
mod fixture;
