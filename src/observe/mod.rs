//! The seam to whoever watches, and its implementations.
//!
//! Decides how what happened is shown. Must never change what happens, and never shows a secret.
//! Observers are told after the events are durable. To add one, implement [`Observer`].

use crate::run::{Event, RunId, Version};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// One event of one run, told after it is durable.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a> {
    /// The run.
    pub run: RunId,
    /// The run's definition.
    pub workflow: &'a Workflow,
    /// The event's number within the run, from 0.
    pub number: Version,
    /// When it was decided, store time.
    pub at: Timestamp,
    /// What happened.
    pub event: &'a Event,
}

/// Watches. Must be quick: the node waits for it.
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn tell(&self, notice: &Notice<'_>);
}
