//! Every moment at which a node of one world may crash, each in a separate run: before each poll of
//! its tasks, and in the middle of each call of its disk, so also inside every commit.
//!
//! Decides which moments there are. Must never know what a world does between them. To add a kind
//! of crash, add it to [`Points::scenarios`].

use std::collections::BTreeMap;

use retrial::time::Nanos;

use crate::evidence::Steps;
use crate::fault::FaultKind;
use crate::report::SeedReport;
use crate::scenario::{Fault, Place, Scenario, When};
use crate::world;

/// How long a node stays down.
const DOWN: Nanos = Nanos::from_millis(300);

/// The moments of one world until it heals.
#[derive(Clone, Debug)]
pub struct Points {
    scenario: Scenario,
    steps: BTreeMap<Place, Steps>,
}

/// The world went wrong although nothing was to go wrong in it but endpoints and clocks.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the world of seed {} fails without any crash: replay it first", .0.seed)]
pub struct FailsWithoutCrash(pub Box<SeedReport>);

impl Points {
    /// Runs `scenario` without its scheduled faults and counts polls and disk calls.
    ///
    /// # Errors
    /// When that world fails.
    pub fn of(scenario: Scenario) -> Result<Self, FailsWithoutCrash> {
        let scenario = Scenario { faults: Vec::new(), ..scenario };
        let lived = world::run_with_evidence(scenario.clone(), false);
        let (report, evidence) = (lived.report, lived.evidence);
        let Some(evidence) = evidence.filter(|_| !report.verdict.is_failure()) else {
            return Err(FailsWithoutCrash(Box::new(report)));
        };
        let places = (0..scenario.topology.nodes()).map(Place::Node).chain([Place::Store]);
        let steps = places.filter_map(|place| {
            let found = evidence.steps.get(&place.node())?;
            Some((place, *found))
        });
        Ok(Self { steps: steps.collect(), scenario })
    }

    /// How many moments each node has.
    #[must_use]
    pub fn steps(&self) -> &BTreeMap<Place, Steps> {
        &self.steps
    }

    /// A world for each moment: a crash before a poll, with a drawn fate of the unsynced writes;
    /// and in a disk call, once with a drawn fate and once with all unsynced writes lost.
    pub fn scenarios(&self) -> impl Iterator<Item = Scenario> + '_ {
        let moments = self.steps.iter().flat_map(|(place, steps)| {
            let polls = (1..=steps.polls).map(|n| (FaultKind::Crash, When::Poll(n)));
            let calls = (1..=steps.calls).flat_map(|n| {
                [FaultKind::TornWrite, FaultKind::LostWrite].map(|kind| (kind, When::Call(n)))
            });
            polls.chain(calls).map(|(kind, when)| (*place, kind, when))
        });
        moments.map(|(target, kind, when)| {
            let crash = Fault { kind, target, peer: None, when, lasts: DOWN };
            Scenario { faults: vec![crash], ..self.scenario.clone() }
        })
    }
}
