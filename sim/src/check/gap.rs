//! What a check left untested.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{Event, Outcome};

use crate::evidence::{Evidence, RunEvidence};

/// Something that a check did not test, so that it fails, unless [`Check::allow`](super::Check::allow)
/// says that it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// No run succeeded in any world.
    NoRunSucceeded,
    /// A service was asked in no world.
    ServiceNotAsked,
    /// An HTTP action is at none of the services and in no `[simulate]` table, so that its answers
    /// were drawn.
    EndpointDrawn,
}

impl Gap {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NoRunSucceeded, Self::ServiceNotAsked, Self::EndpointDrawn];
}

/// What the worlds of a check met.
#[derive(Clone, Debug, Default)]
pub(super) struct Met {
    /// Whether a run succeeded.
    succeeded: bool,
    /// How a run failed, if one did.
    failed: Option<String>,
    /// The services that were asked.
    asked: BTreeSet<String>,
    /// How often each own fault struck.
    pub(super) struck: BTreeMap<String, u64>,
}

impl Met {
    /// In one world.
    pub(super) fn of(evidence: &Evidence) -> Self {
        let mut met = Self { struck: evidence.own.struck.clone(), ..Self::default() };
        for run in &evidence.runs {
            match outcome(run) {
                Some(Outcome::Completed) => met.succeeded = true,
                Some(Outcome::Failed { error }) => met.failed = Some(error.to_string()),
                Some(Outcome::Cancelled { .. }) | None => {}
            }
        }
        met.asked.extend(evidence.requests.iter().map(|asked| asked.service.clone()));
        met
    }

    /// Adds another world.
    pub(super) fn add(&mut self, other: Self) {
        self.succeeded |= other.succeeded;
        self.failed = self.failed.take().or(other.failed);
        self.asked.extend(other.asked);
        for (name, count) in other.struck {
            *self.struck.entry(name).or_insert(0) += count;
        }
    }

    /// What was not tested: of a test with these services, where the answers of the actions `drawn`
    /// are drawn.
    pub(super) fn gaps<'a>(
        &self,
        services: impl Iterator<Item = &'a String>,
        drawn: impl Iterator<Item = &'a str>,
    ) -> Vec<(Gap, String)> {
        let mut gaps = Vec::new();
        for action in drawn {
            let text = format!(
                "the answers of action `{action}` were drawn: its host is no service of this test; \
                 add the service, or script the action in [simulate.endpoints]"
            );
            gaps.push((Gap::EndpointDrawn, text));
        }
        for host in services.filter(|host| !self.asked.contains(*host)) {
            let text = format!("the service `{host}` was never asked; is its name right?");
            gaps.push((Gap::ServiceNotAsked, text));
        }
        if !self.succeeded {
            let failed = self.failed.as_ref().map(|how| format!("; one failed at {how}"));
            let text = format!("no run succeeded in any world{}", failed.unwrap_or_default());
            gaps.push((Gap::NoRunSucceeded, text));
        }
        gaps
    }
}

fn outcome(run: &RunEvidence) -> Option<&Outcome> {
    run.events.iter().rev().find_map(|recorded| match &recorded.event {
        Event::RunEnded { outcome } => Some(outcome),
        _ => None,
    })
}
