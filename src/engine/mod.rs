//! The driver: claims due tasks, starts attempts under a lease, commits their outcomes.
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
mod builder;
mod claim;
mod clock;
mod config;
mod draft;
#[expect(clippy::module_inception, reason = "the engine's own type; the other files are its parts")]
mod engine;
mod guarding;
mod held;
mod lane;
mod lanes;
mod letters;
mod node;
mod pause;
mod places;
mod queue_view;
mod recover;
mod renew;
mod restore;
mod retention;
mod run_handle;
mod run_signals;
mod span;
mod submit;
mod sweep;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod usual_worlds;

pub use builder::Builder;
pub use config::Config;
pub use engine::{CommandError, Ended, Engine};
pub use letters::DeadLetter;
pub use retention::Retention;
pub use run_handle::{Events, EventsError, Handle, Happened, ResultError};
pub use submit::{Submission, SubmitError};

unstable! {
    use queue_view::{QueueStatus, QueueView, queue_view};
}

use crate::action::Actions;
use crate::runtime::Runtime;
use crate::store::Store;

/// The types behind an engine: its runtime, its store and its actions.
pub trait World: 'static {
    /// Clocks, timers, tasks and chance.
    type Runtime: Runtime;
    /// Durable state.
    type Store: Store;
    /// What steps invoke.
    type Actions: Actions;
}

/// The three of them side by side.
impl<R: Runtime, S: Store, A: Actions> World for (R, S, A) {
    type Runtime = R;
    type Store = S;
    type Actions = A;
}
