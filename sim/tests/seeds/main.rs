//! Seeds, scenarios, sweeps, reports and the `retrial-sim` binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failing test panics; outside every simulated path"
)]

mod blame;
mod capsules;
mod cli_errors;
mod cli_run;
mod determinism;
mod documents;
mod explore;
mod guide;
mod history;
mod million;
mod report_page;
mod shrink;
mod sweep;
mod sweep_page;
mod verify;
mod workload;
