//! The pure core of Retrial: policies in five dialects, workflows, and every decision about a run.
//!
//! Nothing here reads a clock, draws chance, does I/O or waits: time is an argument, jitter is a
//! function of the run's seed, and everything that happens to a run is a list of events. The crate
//! is usable alone; `retrial` re-exports it and drives it.

pub mod dialect;
pub mod explain;
pub mod failure;
pub mod guard;
pub mod policy;
pub mod run;
pub mod schedule;
pub mod time;
pub mod workflow;
