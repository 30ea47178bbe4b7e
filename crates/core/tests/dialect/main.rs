//! The five dialects and the workflow file: what each text means, and what is said of bad ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod all_mistakes;
mod any_text;
mod bad_graphs;
mod bad_input;
mod builder;
mod documents;
mod endpoint;
mod execution;
mod grammar;
mod graph;
mod ir;
mod limits;
mod masked;
mod reports;
mod retry_config;
mod work_config;
mod workflow;
mod write;
