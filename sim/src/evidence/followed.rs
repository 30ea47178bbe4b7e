//! What users were told who wait for a run's outcome or read its events.

use retrial::run::{Outcome, Recorded, RunId, Version};
use retrial::time::{Mono, Nanos};

/// What one node said, in one of its lives, to a user who asked once.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The run.
    pub run: RunId,
    /// The node.
    pub node: String,
    /// True time of the question.
    pub asked: Mono,
    /// The first event that was asked for; `None` where it was the outcome.
    pub from: Option<Version>,
    /// How long the user rests after each event.
    pub rest: Nanos,
    /// What was said, and when. It ends where the node died.
    pub told: Vec<(Mono, Told)>,
}

/// Something that a user is told of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// How it ended.
    Outcome(Outcome),
    /// An event, and its number.
    Event(Version, Recorded),
    /// The events from the first number to before the second are gone.
    Compacted(Version, Version),
    /// There are no more events.
    Over,
    /// The question can't be answered here.
    Refused(String),
}
