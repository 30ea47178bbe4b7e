//! Worlds with nodes of both releases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::history::History;
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::report::SeedReport;
use retrial_sim::unstable::runtime::mix;
use retrial_sim::unstable::scenario::Scenario;
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::world::{Release, Releases, ThisRelease, run_with_releases};

use crate::Older;

/// Under these names a report counts the incarnations of nodes that ran each release.
pub const OLDER: &str = "older release";
/// The other one.
pub const THIS: &str = "this release";

/// The scenario of a seed: the drawn one, with further nodes that are shut down and come back, as
/// where nodes are upgraded.
#[must_use]
pub fn scenario(seed: u64) -> Scenario {
    Source::More(FaultKind::Shutdown).scenario(seed)
}

/// Runs a scenario. Each incarnation of each node has one of the two releases, as its seed says, so
/// that nodes go up and back down while others work.
#[must_use]
pub fn run(scenario: Scenario, keep: bool) -> (SeedReport, History) {
    let seed = scenario.seed;
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let seen = Arc::clone(&counts);
    let releases = Releases::new(move |incarnation| -> Arc<dyn Release> {
        let is_older = is_older(seed, incarnation);
        seen[usize::from(is_older)].fetch_add(1, Ordering::Relaxed);
        if is_older { Arc::new(Older) } else { Arc::new(ThisRelease) }
    });
    let ran = run_with_releases(scenario, releases, keep);
    let mut report = ran.report;
    for (name, count) in [THIS, OLDER].into_iter().zip(counts.iter()) {
        report.features.insert(name.to_owned(), count.load(Ordering::Relaxed));
    }
    (report, ran.history)
}

fn is_older(seed: u64, incarnation: &Incarnation) -> bool {
    let node = incarnation.node().bytes().fold(0, |sum, byte| mix(sum, byte.into()));
    mix(mix(seed, node), incarnation.number().into()).is_multiple_of(2)
}
