//! Simplifications that keep the number of things in a scenario.

use retrial::time::{Mono, Nanos};

use super::WELL;
use crate::scenario::{Interventions, NodeClock, Place, Reply, Scenario, Topology, UserStrike};

/// Fewer nodes, right clocks, no order of tasks, nothing kept or pruned, faults that last no time.
pub(super) fn world(scenario: &Scenario) -> Vec<Scenario> {
    let mut ways: Vec<Scenario> = topologies(scenario).collect();
    for (at, clock) in scenario.clocks.iter().enumerate() {
        for right in [
            NodeClock::default(),
            NodeClock { jumps: Vec::new(), ..clock.clone() },
            NodeClock { skew_ns: 0, ..clock.clone() },
            NodeClock { drift_ppm: 0, ..clock.clone() },
        ] {
            ways.push(with(scenario, |s| s.clocks[at] = right));
        }
    }
    ways.push(with(scenario, |s| {
        s.interventions = Interventions { cleanup: None, ..s.interventions.clone() }
    }));
    ways.push(with(scenario, |s| s.sync_takes = None));
    ways.push(with(scenario, |s| s.priorities = None));
    for at in 0..scenario.priorities.as_ref().map_or(0, |p| p.changes.len()) {
        ways.push(with(scenario, |s| {
            s.priorities.iter_mut().for_each(|p| _ = p.changes.remove(at));
        }));
    }
    for at in 0..scenario.faults.len() {
        ways.push(with(scenario, |s| s.faults[at].peer = None));
        ways.push(with(scenario, |s| s.faults[at].lasts = Nanos::ZERO));
    }
    for (at, strike) in scenario.own.iter().flat_map(|own| &own.faults).enumerate() {
        // From the beginning on: then nothing else need go wrong for it to be met.
        let (from, lasts) =
            (Mono::from_nanos(0), Nanos::new(strike.from.after(strike.lasts).as_nanos()));
        for simpler in [
            UserStrike { from, lasts, ..strike.clone() },
            UserStrike { chance: 0, ..strike.clone() },
        ] {
            ways.push(with(scenario, |s| {
                s.own.iter_mut().for_each(|own| own.faults[at] = simpler.clone());
            }));
        }
    }
    for at in 0..scenario.submissions.len() {
        ways.push(with(scenario, |s| s.submissions[at].key = None));
        ways.push(with(scenario, |s| s.submissions[at].node = 0));
    }
    different(scenario, ways)
}

fn with(scenario: &Scenario, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut changed = scenario.clone();
    change(&mut changed);
    changed
}

fn different(scenario: &Scenario, mut ways: Vec<Scenario>) -> Vec<Scenario> {
    ways.retain(|way| way != scenario);
    ways
}

/// One node on its own store, else one fewer on the shared one. Commands to a removed node go to
/// another; its faults are left out.
fn topologies(scenario: &Scenario) -> impl Iterator<Item = Scenario> + '_ {
    let fewer = match scenario.topology {
        Topology::Embedded => vec![],
        Topology::Shared { nodes } if nodes.get() > 2 => {
            vec![Topology::Embedded, Topology::of(nodes.get() - 1)]
        }
        Topology::Shared { .. } => vec![Topology::Embedded],
    };
    fewer.into_iter().map(move |topology| {
        with(scenario, |s| {
            let there = |place: Place| match place {
                Place::Node(n) => n < topology.nodes(),
                Place::Store => topology != Topology::Embedded,
                Place::Endpoints => true,
            };
            s.topology = topology;
            s.faults.retain(|f| there(f.target) && f.peer.is_none_or(there));
            s.missing_functions.retain(|l| topology.nodes() > 1 && l.node < topology.nodes());
            s.clocks.truncate(topology.clocks() as usize);
            let nodes = topology.nodes();
            s.submissions.iter_mut().for_each(|asked| asked.node %= nodes);
            s.cancels.iter_mut().for_each(|cancel| cancel.node %= nodes);
            s.deactivations.iter_mut().for_each(|rest| rest.node %= nodes);
            s.interventions.pauses.iter_mut().for_each(|pause| pause.node %= nodes);
            s.interventions.by_hand.iter_mut().for_each(|by_hand| by_hand.node %= nodes);
            s.interventions
                .letter_rounds
                .iter_mut()
                .for_each(|letter_round| letter_round.node %= nodes);
            s.interventions.followers.iter_mut().for_each(|follower| follower.node %= nodes);
            s.interventions.releases.iter_mut().for_each(|round| round.node %= nodes);
        })
    })
}

/// Endpoints that answer well, sooner, or follow fewer and shorter scripts.
pub(super) fn replies(scenario: &Scenario) -> Vec<Scenario> {
    let mut ways = Vec::new();
    for (at, endpoint) in scenario.endpoints.iter().enumerate() {
        ways.push(with(scenario, |s| s.endpoints[at].scripts.truncate(1)));
        ways.push(with(scenario, |s| s.endpoints[at].then = WELL));
        for (n, script) in endpoint.scripts.iter().enumerate() {
            ways.push(with(scenario, |s| s.endpoints[at].scripts[n].clear()));
            ways.push(with(scenario, |s| drop(s.endpoints[at].scripts[n].pop())));
            for (k, reply) in script.iter().enumerate() {
                ways.push(with(scenario, |s| drop(s.endpoints[at].scripts[n].remove(k))));
                ways.push(with(scenario, |s| s.endpoints[at].scripts[n][k] = WELL));
                if let Reply::Delay { then, .. } = reply {
                    ways.push(with(scenario, |s| {
                        s.endpoints[at].scripts[n][k] = (**then).clone();
                    }));
                }
            }
        }
    }
    different(scenario, ways)
}
