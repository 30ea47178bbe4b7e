//! The rules of this house, as tests. Each rule is a function from text to what breaks it, so each
//! is also shown a text that does break it.

mod arrows;
mod dependencies;
mod files;
mod habits;
use crate::source;
