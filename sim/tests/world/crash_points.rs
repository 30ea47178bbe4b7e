//! A node that dies at every moment of a world, each in a world of its own: before every poll, and
//! in the middle of every disk call, so also inside every commit. D2, D7, promise 5.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeSet;

use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::crash_points::Points;
use retrial_sim::unstable::scenario::{Place, Scenario, Topology, When};
use retrial_sim::unstable::workload::draw;
use retrial_sim::unstable::world::run_with_evidence;

/// Runs every `each`-th crash point of the world of `seed`; returns how often a node crashed.
fn die(seed: u64, each: usize) -> usize {
    let points = Points::of(draw(seed)).unwrap();
    let mut died = 0;
    for scenario in points.scenarios().step_by(each) {
        let (fault, lived) = (scenario.faults.clone(), run_with_evidence(scenario, false));
        assert!(!lived.report.verdict.is_failure(), "{fault:?}: {:#?}", lived.report.breaches);
        let lifespans = &lived.evidence.unwrap().lifespans;
        died += usize::from(lifespans.iter().any(|incarnation| incarnation.died.is_some()));
    }
    died
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn nothing_is_lost_whenever_the_one_node_dies() {
    // Only the very last poll may come too late.
    let worlds = Points::of(draw(8)).unwrap().scenarios().count();
    assert!(worlds > 500);
    let died = die(8, 1);
    assert!(died + 2 >= worlds, "{died} of {worlds}");
}

#[test]
fn nothing_is_lost_whenever_one_of_several_or_their_store_dies() {
    assert!(matches!(draw(11).topology, Topology::Shared { .. }));
    assert!(die(11, 4) > 100);
}

#[test]
fn each_moment_has_a_world_of_its_own() {
    let points = Points::of(draw(11)).unwrap();
    let worlds: Vec<Scenario> = points.scenarios().collect();
    let moments: BTreeSet<(Place, String, FaultKind)> = worlds
        .iter()
        .map(|world| {
            let [fault] = world.faults[..] else { panic!("{:?}", world.faults) };
            (fault.target, format!("{:?}", fault.when), fault.kind)
        })
        .collect();
    assert_eq!(moments.len(), worlds.len());
    for (place, steps) in points.steps() {
        let polls = |s: &&Scenario| matches!(s.faults[0].when, When::Poll(_));
        let here = || worlds.iter().filter(|s| s.faults[0].target == *place);
        assert_eq!(here().filter(polls).count() as u64, steps.polls);
        // With what is not synced torn, and lost.
        assert_eq!(here().count() as u64, steps.polls + 2 * steps.calls);
    }
    let disks = points.steps().iter().filter(|(_, steps)| steps.calls > 0);
    assert_eq!(disks.map(|(place, _)| *place).collect::<Vec<_>>(), [Place::Store]);
}
