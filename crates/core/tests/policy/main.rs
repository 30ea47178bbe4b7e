//! Policies, failures, guards and the due queue: one module a subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod backoff;
mod budget;
mod builder;
mod due_queue;
mod error_budget;
mod explain;
mod explain_edges;
mod failure;
mod growth;
mod guard;
mod guard_standing;
mod peer_vectors;
mod precedence;
mod presets;
mod sanitise;
mod sanitise_edges;
mod verdict;
