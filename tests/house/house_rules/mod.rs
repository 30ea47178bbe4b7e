//! The rules of this house, as tests. Each rule is a function from text to what breaks it, so each
//! is also shown a text that does break it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may fail the test")]

mod arrows;
mod dependencies;
mod files;
mod habits;
use crate::source;
