//! The seam to observers of events, and its implementations.
//!
//! Decides how events are shown. Must never change what happens, never know stores or actions, and
//! never show a secret: texts pass the sanitiser, inputs and results are masked, delivery tokens are
//! left out. Observers receive events after they are durable. To add an observer, implement
//! [`Observer`]; to show a new event, add its arm to `task_lines` (about
//! a task) or `run_lines` (about a run), to `json`, and its section to `docs/events.md`.

mod format;
mod history;
mod inspect;
pub mod json;
mod json_lines;
mod line;
mod line_writer;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod printer;
mod run_lines;
mod statistics;
mod stream;
mod task_lines;

use std::sync::Arc;

pub use history::History;
pub use json_lines::JsonLines;
pub use printer::{Output, Printer};
pub use statistics::Statistics;
pub use stream::{Feed, Lagged, Notices, OwnedNotice, feed};

unstable! {
    use inspect::{Inspection, letter_json};
}

use crate::run::{Event, RunId, Version};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// One durable event of one run.
#[derive(Clone, Copy, Debug)]
pub struct Notice<'a> {
    /// The run.
    pub run: RunId,
    /// The run's definition.
    pub workflow: &'a Arc<Workflow>,
    /// The event's number within the run, from 0.
    pub number: Version,
    /// When it was decided, in store time.
    pub at: Timestamp,
    /// The event.
    pub event: &'a Event,
}

/// Receives events. Must be quick: the node waits for it.
pub trait Observer: Send + Sync + 'static {
    /// Receives one event.
    fn tell(&self, notice: &Notice<'_>);
}

/// Ignores all events.
impl Observer for () {
    fn tell(&self, _: &Notice<'_>) {}
}

/// Passes events to the first, then to the second.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn tell(&self, notice: &Notice<'_>) {
        self.0.tell(notice);
        self.1.tell(notice);
    }
}

/// Passes events to the shared observer.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn tell(&self, notice: &Notice<'_>) {
        (**self).tell(notice);
    }
}
