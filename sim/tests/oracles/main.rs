//! The oracles, each shown a healthy world, which it must pass after judging something, and planted
//! defects, each of which it must find for the right reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod arrival;
mod bit_rot;
mod branches;
mod by_hand;
mod durability;
mod error_budget;
mod exhaustion;
mod following;
mod free_places;
mod functions;
mod guard_order;
mod guards;
mod interventions;
mod isolation;
mod kit;
mod limits;
mod lists;
mod ownership;
mod policy_reader;
mod promptness;
mod quarantine;
mod replay;
mod retry_budgets;
mod rollback;
mod routing;
mod sequence;
mod silence;
mod submissions;
mod task_time;
mod termination;
