//! The heart, pure: a run's state, the inputs that reach it, the events that happen to it.
//!
//! Decides everything that happens to a run. Must never know clocks, chance, I/O, async, stores or
//! how an action is invoked: time is an argument, chance a function of (run seed, task, attempt).
//! To add an input, add a variant to [`Input`] and its arm in `decide`; to add an event, add a
//! variant to [`Event`], its arm in `apply`, its line in the printer and a golden record.

mod event;
mod ids;

pub use event::{Event, Outcome, Recorded, RetryOf, RouteCause};
pub use ids::{Digest, RunId, TaskId, Token, Version};
