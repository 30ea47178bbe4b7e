//! A scenario's clocks and faults, handed to the parts that carry them out.

use retrial::time::{Mono, Nanos};

use crate::disk::{CrashOutcome, DiskPlan, OpAt, OpKind, Rot, Slow};
use crate::fault::FaultKind;
use crate::net::{Direction, Effect, NetFault, NetPlan, Which, Window};
use crate::node::{Crash, CrashAt, Pause, SimNode};
use crate::remote::{StoreEffect, StoreFault, StorePlan};
use crate::runtime::{ClockPlan, Drift, Jump, Priorities, RuntimePlan, mix};
use crate::scenario::{Fault, Place, Scenario, When};

/// The wall clocks' common origin: 2025-01-01T00:00:00Z, in nanoseconds.
const ORIGIN: u64 = 1_735_689_600_000_000_000;

/// How long a good disk takes to sync, and what part of that its reads and writes take.
const SYNC: Nanos = Nanos::from_millis(2);
const READ: u64 = 100;
const WRITE: u64 = 40;

/// How many packets of a hundred are lost where some are.
const LOSS: u8 = 30;

/// The clocks and random numbers of the node with this clock.
pub(super) fn runtime(scenario: &Scenario, clock: usize) -> RuntimePlan {
    let drawn = scenario.clocks.get(clock).cloned().unwrap_or_default();
    let jumps = drawn.jumps.iter().map(|j| Jump { at: j.at, by: j.by_ns }).collect();
    RuntimePlan {
        clock: ClockPlan {
            base: retrial::time::Timestamp::from_nanos(ORIGIN),
            origin: Mono::from_nanos(1_000_000_000 * (1 + clock as u64)),
            drift: Drift::ppm(drawn.drift_ppm).unwrap_or_default(),
            skew: drawn.skew_ns,
            jumps,
        },
        chance: mix(scenario.seed, 1_000 + clock as u64),
        priorities: scenario
            .priorities
            .as_ref()
            .map(|all| Priorities { chance: mix(all.chance, clock as u64), ..all.clone() }),
    }
}

/// The faults of the disk at `place`, and how slow it is.
pub(super) fn disk(scenario: &Scenario, place: Place) -> DiskPlan {
    let of = |kind| scenario.faults.iter().filter(move |f| f.target == place && f.kind == kind);
    let sync = scenario.sync_takes.unwrap_or(SYNC);
    let slow = |f: &Fault| Some(Slow { at: OpAt::Nth(OpKind::Sync, call(f.when)?), by: f.lasts });
    DiskPlan {
        eio: of(FaultKind::Eio).filter_map(|f| call(f.when)).map(OpAt::Number).collect(),
        slow: of(FaultKind::SlowSync).filter_map(slow).collect(),
        rot: of(FaultKind::BitRot).filter_map(|f| rot(scenario.seed, f)).collect(),
        full: of(FaultKind::DiskFull).map(|f| window(f.when)).collect(),
        read_latency: Nanos::new(sync.get() / READ),
        write_latency: Nanos::new(sync.get() / WRITE),
        sync_latency: sync,
        ..DiskPlan::default()
    }
}

fn rot(seed: u64, fault: &Fault) -> Option<Rot> {
    let number = call(fault.when)?;
    Some(Rot { at: OpAt::Number(number), chance: mix(seed, 4_000 + number) })
}

fn call(when: When) -> Option<u64> {
    match when {
        When::Call(n) => Some(n.saturating_sub(1)),
        _ => None,
    }
}

fn window(when: When) -> Window {
    match when {
        When::During { from, until } => Window { from, until },
        When::At(from) => Window { from, until: Mono::from_nanos(u64::MAX) },
        _ => Window::ALWAYS,
    }
}

/// The faults of the network.
pub(super) fn network(scenario: &Scenario) -> NetPlan {
    let faults = scenario.faults.iter().filter_map(net_fault).collect();
    NetPlan { faults, short: true }
}

fn net_fault(fault: &Fault) -> Option<NetFault> {
    let direction = Direction::Response;
    let byte = match fault.when {
        When::Byte { byte, .. } => byte,
        _ => 0,
    };
    let effect = match fault.kind {
        FaultKind::Refuse => Effect::Refuse,
        FaultKind::ConnectHang => Effect::Hang,
        FaultKind::Reset => Effect::ResetAt { byte, direction },
        FaultKind::Cut => Effect::CutAt { byte, direction },
        FaultKind::Stall => Effect::Stall { byte, direction, lasts: stall(fault) },
        FaultKind::Delay => Effect::Delay { by: fault.lasts },
        FaultKind::Partition => Effect::Partition,
        FaultKind::OneWay => Effect::OneWay,
        FaultKind::Loss => Effect::Loss { percent: LOSS },
        _ => return None,
    };
    let which = match fault.when {
        When::Byte { connection, .. } => Which::Nth(connection.saturating_sub(1)),
        _ => Which::Every,
    };
    Some(NetFault {
        window: window(fault.when),
        from: Some(fault.target.node()),
        to: fault.peer.map(Place::node),
        which,
        effect,
    })
}

/// A stall lasts to the end of its window.
fn stall(fault: &Fault) -> Nanos {
    match fault.when {
        When::During { from, until } => until.since(from),
        _ => fault.lasts,
    }
}

/// The faults between the nodes and the store.
pub(super) fn store(scenario: &Scenario) -> StorePlan {
    let faults = scenario.faults.iter().filter_map(|fault| {
        let effect = match fault.kind {
            FaultKind::StoreRequestLost => StoreEffect::LoseRequest,
            FaultKind::StoreAnswerLost => StoreEffect::LoseAnswer,
            FaultKind::StoreDuplicate => StoreEffect::Duplicate { after: fault.lasts },
            _ => return None,
        };
        Some(StoreFault {
            window: window(fault.when),
            node: Some(fault.target.node()),
            op: None,
            which: call(fault.when).map_or(Which::Every, Which::Nth),
            effect,
        })
    });
    StorePlan { faults: faults.collect() }
}

/// Plans the crashes and pauses of the node at `place`.
pub(super) fn lives(scenario: &Scenario, place: Place, node: &SimNode) {
    let mine = scenario.faults.iter().enumerate().filter(|(_, f)| f.target == place);
    for (number, fault) in mine {
        let drawn = CrashOutcome::Drawn(mix(scenario.seed, 2_000 + number as u64));
        let outcome = match fault.kind {
            FaultKind::Crash | FaultKind::TornWrite => drawn,
            FaultKind::LostWrite => CrashOutcome::LoseAll,
            FaultKind::BitRot if !fault.lasts.is_zero() => CrashOutcome::KeepAll,
            FaultKind::Pause => {
                if let When::At(at) = fault.when {
                    node.plan_pause(Pause { at, lasts: fault.lasts });
                }
                continue;
            }
            FaultKind::SlowNode => {
                node.plan_slowness(window(fault.when), fault.lasts);
                continue;
            }
            _ => continue,
        };
        let at = match fault.when {
            When::At(at) | When::During { from: at, .. } => CrashAt::Time(at),
            When::Poll(n) => CrashAt::Poll(n),
            When::Call(n) => CrashAt::DiskOp(n.saturating_sub(1)),
            When::Byte { .. } => continue,
        };
        node.plan_crash(Crash { at, outcome, down: fault.lasts });
    }
}
