//! Invariants that a user states about every world.

use std::fmt;

use retrial::run::{Event, Outcome, RunId};

use crate::evidence::{Evidence, RunEvidence, ServiceRequest};
use crate::user::Fact;

/// Something that must hold of every world at its end.
pub trait Invariant: Send + Sync + 'static {
    /// Its name: a failure is shrunk to one that breaks the same invariant.
    fn name(&self) -> &str;

    /// Looks at one world. A panic counts as an error, so assertions may be used.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    fn check(&self, seen: &Seen<'_>) -> Result<(), String>;
}

impl fmt::Debug for dyn Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An invariant from a closure.
pub(super) struct Closure<F> {
    pub(super) name: String,
    pub(super) check: F,
}

impl<F: Fn(&Seen<'_>) -> Result<(), String> + Send + Sync + 'static> Invariant for Closure<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, seen: &Seen<'_>) -> Result<(), String> {
        (self.check)(seen)
    }
}

/// The evidence of one world, at its end: all faults have stopped and all runs have ended, or
/// should have.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'w>(&'w Evidence);

impl<'w> Seen<'w> {
    pub(super) fn of(evidence: &'w Evidence) -> Self {
        Self(evidence)
    }

    /// The runs that were asked for.
    #[must_use]
    pub fn runs(&self) -> &'w [RunEvidence] {
        &self.0.runs
    }

    /// How a run ended; `None` where it has not, or is not known.
    #[must_use]
    pub fn outcome(&self, run: RunId) -> Option<&'w Outcome> {
        let run = self.0.runs.iter().find(|found| found.id == run)?;
        run.events.iter().rev().find_map(|recorded| match &recorded.event {
            Event::RunEnded { outcome } => Some(outcome),
            _ => None,
        })
    }

    /// The facts of this name, in the order in which they were written down.
    pub fn facts(&self, name: &str) -> impl Iterator<Item = &'w Fact> {
        let name = name.to_owned();
        self.0.own.facts.iter().filter(move |fact| fact.name == name)
    }

    /// The requests that reached the service at `host`, in the order in which they were whole.
    pub fn requests(&self, host: &str) -> impl Iterator<Item = &'w ServiceRequest> {
        let host = host.to_ascii_lowercase();
        self.0.requests.iter().filter(move |asked| asked.service == host)
    }

    /// Everything else that is known of the world.
    #[must_use]
    pub fn evidence(&self) -> &'w Evidence {
        self.0
    }
}
