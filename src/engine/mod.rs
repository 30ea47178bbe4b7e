//! The driver: claims due tasks, starts attempts under a lease, commits what comes of them.
//!
//! Decides when to ask the store, how much to do at once, and what to do when the store does not
//! answer. Must never decide what happens to a run: that is `run`'s. To add a duty, write a loop
//! beside `claim`, `sweep` and `renew` and start it in [`Engine::start`].
//!
//! Write, then act, then tell: nothing is dispatched or shown before the events that say so are
//! durable. Each run has one lane per node: at most one commit in flight, and what arrives meanwhile
//! is folded, in order, into the next.

mod alerts;
mod attempt;
mod claim;
mod clock;
mod columns;
mod config;
mod draft;
mod ends;
mod follow;
mod guarding;
mod handle;
mod keeping;
mod lane;
mod lanes;
mod letters;
mod node;
mod pause;
mod recover;
mod renew;
mod restore;
mod span;
mod submit;
mod sweep;

pub use columns::{QueueColumns, QueueStatus, queue_columns};
pub use config::Config;
pub use follow::{Events, EventsError, Handle, Happened, ResultError};
pub use handle::{CommandError, Ended, Engine};
pub use keeping::Retention;
pub use letters::DeadLetter;
pub use submit::{Submission, SubmitError};

use crate::action::Actions;
use crate::runtime::Runtime;
use crate::store::Store;

/// The world that an engine lives in: one type that names the three seams.
pub trait World: 'static {
    /// Clocks, timers, tasks and chance.
    type Runtime: Runtime;
    /// Durable state.
    type Store: Store;
    /// What steps invoke.
    type Actions: Actions;
}
