//! The fault schedule and the clocks.

use retrial::time::{Mono, Nanos};

use super::{Draw, Swarm};
use crate::fault::FaultKind;
use crate::scenario::{Fault, Jump, NodeClock, Place, Topology, When};

/// One to three faults of every kind that is switched on and has no other place.
pub(super) fn schedule(seed: u64, swarm: &Swarm) -> Vec<Fault> {
    let mut faults = Vec::new();
    for kind in &swarm.kinds {
        // A separate stream: a kind that is switched off does not change the others.
        let mut draw = Draw::new(seed, &format!("fault {kind}"));
        for _ in 0..draw.small(1, 3) {
            faults.extend(fault(&mut draw, swarm, *kind));
        }
    }
    faults
}

/// Two to four further faults of one kind. None of a kind that has another place.
pub(super) fn more(seed: u64, swarm: &Swarm, kind: FaultKind) -> Vec<Fault> {
    let mut draw = Draw::new(seed, &format!("more {kind}"));
    let count = draw.small(2, 4);
    (0..count).filter_map(|_| fault(&mut draw, swarm, kind)).collect()
}

fn fault(draw: &mut Draw, swarm: &Swarm, kind: FaultKind) -> Option<Fault> {
    let node = Place::Node(draw.small(0, swarm.topology.nodes() - 1));
    let shared = swarm.topology != Topology::Embedded;
    // The place of the runs: a separate store, or the one node.
    let keeper = if shared { Place::Store } else { node };
    let either = if shared && draw.chance(30) { Place::Store } else { node };
    let peer = if shared && draw.chance(40) { Place::Store } else { Place::Endpoints };
    let down = draw.millis(50, 3_000);
    let fault = |target, peer, when, lasts| Some(Fault { kind, target, peer, when, lasts });
    match kind {
        FaultKind::Crash if draw.chance(60) => {
            let at = draw.pick([50, 500, 5_000]);
            fault(either, None, When::Poll(draw.between(1, at)), down)
        }
        FaultKind::Crash => fault(either, None, When::At(draw.instant(swarm.heal_at)), down),
        FaultKind::Pause => {
            let stands = draw.millis(100, 6_000);
            fault(either, None, When::At(draw.instant(swarm.heal_at)), stands)
        }
        FaultKind::SlowNode => {
            let stands = draw.millis(5, 300);
            fault(either, None, window(draw, swarm.heal_at), stands)
        }
        FaultKind::Shutdown => fault(node, None, When::At(draw.instant(swarm.heal_at)), down),
        FaultKind::DiskFull => fault(keeper, None, window(draw, swarm.heal_at), Nanos::ZERO),
        FaultKind::BitRot => {
            let most = draw.pick([60, 200, 600]);
            let dies = if draw.chance(70) { down } else { Nanos::ZERO };
            fault(keeper, None, When::Call(draw.between(20, most)), dies)
        }
        FaultKind::SlowSync => {
            let call = When::Call(draw.between(1, 60));
            fault(keeper, None, call, draw.millis(50, 6_000))
        }
        FaultKind::TornWrite | FaultKind::LostWrite => {
            let most = draw.pick([20, 200, 1_000]);
            fault(keeper, None, When::Call(draw.between(1, most)), down)
        }
        FaultKind::Eio => fault(keeper, None, When::Call(draw.between(1, 400)), Nanos::ZERO),
        FaultKind::StoreRequestLost | FaultKind::StoreAnswerLost => {
            let call = When::Call(draw.between(1, 60));
            fault(node, Some(Place::Store), call, Nanos::ZERO)
        }
        FaultKind::StoreDuplicate => {
            let call = When::Call(draw.between(1, 60));
            let late = draw.pick([0, 100, 5_000]);
            fault(node, Some(Place::Store), call, draw.millis(0, late))
        }
        FaultKind::Refuse | FaultKind::ConnectHang | FaultKind::Stall | FaultKind::Partition => {
            fault(node, Some(peer), window(draw, swarm.heal_at), Nanos::ZERO)
        }
        FaultKind::Loss => fault(node, Some(peer), window(draw, swarm.heal_at), Nanos::ZERO),
        FaultKind::OneWay => {
            let (from, to) = if draw.chance(50) { (node, peer) } else { (peer, node) };
            fault(from, Some(to), window(draw, swarm.heal_at), Nanos::ZERO)
        }
        FaultKind::Delay => {
            let late = draw.millis(1, 400);
            fault(node, Some(peer), window(draw, swarm.heal_at), late)
        }
        FaultKind::Reset | FaultKind::Cut => {
            let connection = draw.between(1, 8);
            let byte = draw.pick([1, 20, 120, 600]);
            let when = When::Byte { connection, byte: draw.between(0, byte) };
            fault(node, Some(peer), when, Nanos::ZERO)
        }
        _ => None,
    }
}

fn window(draw: &mut Draw, heal_at: Mono) -> When {
    let from = draw.instant(heal_at);
    let until = from.after(draw.millis(20, 4_000)).min(heal_at);
    When::During { from, until }
}

/// A wrong wall clock, one that jumps, and one that runs fast or slow, where those are switched on.
pub(super) fn clocks(seed: u64, swarm: &Swarm) -> Vec<NodeClock> {
    let count = swarm.topology.clocks();
    let mut clocks = vec![NodeClock::default(); count as usize];
    if swarm.on(FaultKind::Skew) {
        let mut draw = Draw::new(seed, "skew");
        let at = draw.index(clocks.len());
        for (n, clock) in clocks.iter_mut().enumerate() {
            if n == at || draw.chance(40) {
                clock.skew_ns = signed(&mut draw, 3_600_000);
            }
        }
    }
    if swarm.on(FaultKind::Jump) {
        let mut draw = Draw::new(seed, "jump");
        let at = draw.index(clocks.len());
        for (n, clock) in clocks.iter_mut().enumerate() {
            if n == at || draw.chance(40) {
                clock.jumps = jumps(&mut draw, swarm);
            }
        }
    }
    if swarm.on(FaultKind::Drift) {
        let mut draw = Draw::new(seed, "drift");
        for clock in &mut clocks {
            let ppm = i32::try_from(draw.between(1, 1_000)).unwrap_or(1);
            clock.drift_ppm = if draw.chance(50) { ppm } else { -ppm };
        }
    }
    clocks
}

fn jumps(draw: &mut Draw, swarm: &Swarm) -> Vec<Jump> {
    let count = draw.small(1, 3);
    let mut jumps: Vec<Jump> = (0..count)
        .map(|_| Jump { at: draw.instant(swarm.heal_at), by_ns: signed(draw, 600_000) })
        .collect();
    jumps.sort_by_key(|j| j.at);
    jumps
}

/// Up to `millis` milliseconds, forward or back, never nothing.
fn signed(draw: &mut Draw, millis: u64) -> i64 {
    let size = i64::try_from(draw.millis(1, millis).get()).unwrap_or(1);
    if draw.chance(50) { size } else { -size }
}
