//! The documents' own scenarios, end to end: the workflow's text, the whole engine, endpoints that
//! answer as the document says, and the exact sequence of events. No fault is drawn: whatever goes
//! wrong is the scenario's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

mod capability5;
mod rh_agents;
mod stage;
