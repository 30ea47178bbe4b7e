//! Scenarios of two others: mostly as the first, with something of the second, or something changed.

use retrial::time::{Mono, Nanos};

use super::SEEDS;
use crate::fault::FaultKind;
use crate::scenario::{Fault, Place, Scenario, Topology, When};
use crate::workload::Draw;

/// The most faults of a scenario.
const FAULTS: usize = 60;

/// Faults of disks.
const DISK: [FaultKind; 5] = [
    FaultKind::TornWrite,
    FaultKind::LostWrite,
    FaultKind::Eio,
    FaultKind::DiskFull,
    FaultKind::SlowSync,
];

/// One change of the first scenario, which may take something of the second.
type Change = fn(&mut Draw, &mut Scenario, &Scenario);

/// Every change, the more often the likelier it is.
const CHANGES: [Change; 14] = [
    redraw_chance,
    take_fault,
    take_fault,
    repeat_fault,
    move_fault,
    move_fault,
    drop_fault,
    take_replies,
    move_command,
    move_command,
    take_command,
    take_letters,
    take_limits,
    take_clocks,
];

/// A scenario that is `mother` with some changes.
#[must_use]
pub fn child(draw: &mut Draw, mother: &Scenario, father: &Scenario) -> Scenario {
    let mut child = mother.clone();
    for _ in 0..draw.pick([1, 1, 2, 2, 3, 5, 8]) {
        draw.pick(CHANGES)(draw, &mut child, father);
    }
    child
}

fn redraw_chance(draw: &mut Draw, child: &mut Scenario, _: &Scenario) {
    child.seed = draw.below(SEEDS);
}

fn take_fault(draw: &mut Draw, child: &mut Scenario, father: &Scenario) {
    let Some(fault) = father.faults.get(draw.index(father.faults.len())) else { return };
    // What rots can't be judged in full.
    let is_wanted = child.faults.len() < FAULTS && fault.kind != FaultKind::BitRot;
    if is_wanted && fits(fault, child.topology) {
        child.faults.push(Fault { when: until_healed(fault.when, child), ..*fault });
    }
}

/// Whether there is such a place. Which faults are possible depends on where the store is.
fn fits(fault: &Fault, topology: Topology) -> bool {
    let is_there = |place: &Place| match (place, topology) {
        (Place::Node(number), _) => *number < topology.nodes(),
        (Place::Store, Topology::Shared { .. }) | (Place::Endpoints, _) => true,
        (Place::Store, Topology::Embedded) => false,
    };
    // Only the store has a disk, where it is apart.
    let has_disk = topology == Topology::Embedded || fault.target == Place::Store;
    is_there(&fault.target)
        && fault.peer.as_ref().is_none_or(is_there)
        && (has_disk || !DISK.contains(&fault.kind))
}

fn repeat_fault(draw: &mut Draw, child: &mut Scenario, _: &Scenario) {
    let Some(fault) = child.faults.get(draw.index(child.faults.len())).copied() else { return };
    if child.faults.len() < FAULTS {
        let when = moved(draw, fault.when, child);
        child.faults.push(Fault { when, ..fault });
    }
}

fn move_fault(draw: &mut Draw, child: &mut Scenario, _: &Scenario) {
    let place = draw.index(child.faults.len());
    let Some(fault) = child.faults.get(place) else { return };
    child.faults[place].when = moved(draw, fault.when, child);
}

fn drop_fault(draw: &mut Draw, child: &mut Scenario, _: &Scenario) {
    if !child.faults.is_empty() {
        child.faults.remove(draw.index(child.faults.len()));
    }
}

/// An endpoint answers as one of the other scenario.
fn take_replies(draw: &mut Draw, child: &mut Scenario, father: &Scenario) {
    let from = father.endpoints.get(draw.index(father.endpoints.len()));
    let to = draw.index(child.endpoints.len());
    if let (Some(from), Some(to)) = (from, child.endpoints.get_mut(to)) {
        to.scripts.clone_from(&from.scripts);
    }
}

/// A command of a user comes at another time.
fn move_command(draw: &mut Draw, child: &mut Scenario, _: &Scenario) {
    let to = instant(draw, child);
    let Scenario { submissions, cancels, interventions, deactivations, heal_at, .. } = child;
    let spans = deactivations.iter_mut().map(|d| (&mut d.from, &mut d.until));
    let spans = spans.chain(interventions.pauses.iter_mut().map(|p| (&mut p.from, &mut p.until)));
    let mut spans: Vec<_> = spans.collect();
    let times = submissions.iter_mut().map(|s| &mut s.at);
    let times = times.chain(cancels.iter_mut().map(|c| &mut c.at));
    let times = times.chain(interventions.by_hand.iter_mut().map(|f| &mut f.at));
    let times = times.chain(interventions.letter_rounds.iter_mut().map(|round| &mut round.at));
    let times = times.chain(interventions.followers.iter_mut().map(|follower| &mut follower.at));
    let times = times.chain(interventions.releases.iter_mut().map(|round| &mut round.at));
    let mut times: Vec<_> = times.collect();
    let place = draw.index(times.len() + spans.len());
    if let Some(time) = times.get_mut(place) {
        **time = to;
    } else if let Some((from, until)) = spans.get_mut(place - times.len()) {
        let lasts = until.since(**from);
        **from = to;
        **until = to.after(lasts).min(*heal_at);
    }
}

/// A command for a run, of which the drawn scenarios have one at most.
fn take_command(draw: &mut Draw, child: &mut Scenario, father: &Scenario) {
    let submission = draw.index(child.submissions.len());
    let (node, to) = (draw.small(0, child.topology.nodes() - 1), instant(draw, child));
    let end = child.heal_at;
    let until = |from: Mono, until: Mono| to.after(until.since(from)).min(end);
    match draw.below(4) {
        0 => {
            let cancels = father.cancels.iter().take(1);
            child.cancels.extend(cancels.copied().map(|mut cancel| {
                (cancel.at, cancel.node, cancel.submission) = (to, node, submission);
                cancel
            }));
            child.cancels.truncate(3);
        }
        1 if child.deactivations.is_empty() => {
            child.deactivations.extend(father.deactivations.iter().take(1).copied().map(
                |mut d| {
                    (d.from, d.until, d.node, d.submission) =
                        (to, until(d.from, d.until), node, submission);
                    d
                },
            ));
        }
        2 if child.interventions.pauses.is_empty() => {
            let pauses = father.interventions.pauses.iter().take(1);
            child.interventions.pauses.extend(pauses.copied().map(|mut p| {
                (p.from, p.until, p.node, p.submission) =
                    (to, until(p.from, p.until), node, submission);
                p
            }));
        }
        3 if child.interventions.by_hand.is_empty() => {
            let by_hand = father.interventions.by_hand.iter().take(1);
            child.interventions.by_hand.extend(by_hand.copied().map(|mut failure| {
                (failure.at, failure.node, failure.submission) = (to, node, submission);
                failure
            }));
        }
        _ => {}
    }
}

/// What is done with dead letters, and with what is held in quarantine.
fn take_letters(draw: &mut Draw, child: &mut Scenario, father: &Scenario) {
    let nodes = child.topology.nodes();
    let theirs = &father.interventions;
    if draw.chance(50) {
        let mut rounds = theirs.letter_rounds.clone();
        rounds.iter_mut().for_each(|round| round.node %= nodes);
        child.interventions.letter_rounds = rounds;
        child.interventions.cleanup.clone_from(&theirs.cleanup);
    } else {
        let mut releases = theirs.releases.clone();
        releases.iter_mut().for_each(|round| round.node %= nodes);
        child.interventions.releases = releases;
    }
}

/// A setting of the nodes.
fn take_limits(draw: &mut Draw, child: &mut Scenario, father: &Scenario) {
    match draw.below(7) {
        0 => child.places.clone_from(&father.places),
        1 => child.attempt_timeout = father.attempt_timeout,
        2 => child.quarantine_after = father.quarantine_after,
        3 => child.lease = father.lease,
        4 => child.lane_idle = father.lane_idle,
        5 => child.sync_takes = father.sync_takes,
        _ => child.priorities.clone_from(&father.priorities),
    }
}

fn take_clocks(_: &mut Draw, child: &mut Scenario, father: &Scenario) {
    if child.topology == father.topology {
        child.clocks.clone_from(&father.clocks);
    }
}

/// The same kind of time, at another.
fn moved(draw: &mut Draw, when: When, scenario: &Scenario) -> When {
    match when {
        When::At(_) => When::At(instant(draw, scenario)),
        When::During { from, until } => {
            let to = instant(draw, scenario);
            until_healed(When::During { from: to, until: to.after(until.since(from)) }, scenario)
        }
        When::Poll(n) => When::Poll(near(draw, n)),
        When::Call(n) => When::Call(near(draw, n)),
        When::Byte { connection, byte } if draw.chance(50) => {
            When::Byte { connection: near(draw, connection), byte }
        }
        When::Byte { connection, byte } => When::Byte { connection, byte: near(draw, byte) },
    }
}

/// A number from 1 on, next to `n` or at most twice as large.
fn near(draw: &mut Draw, n: u64) -> u64 {
    match draw.below(3) {
        0 => n.saturating_add(1),
        1 => n.saturating_sub(1).max(1),
        _ => draw.between(1, n.max(1).saturating_mul(2)),
    }
}

/// A time before everything heals: any, or one that is near something else, or a lease away from it.
fn instant(draw: &mut Draw, scenario: &Scenario) -> Mono {
    let any = draw.instant(scenario.heal_at);
    let of_faults = scenario.faults.iter().filter_map(|fault| match fault.when {
        When::At(at) => Some(at),
        When::During { from, until } => Some(if fault.lasts.is_zero() { until } else { from }),
        _ => None,
    });
    let times: Vec<Mono> = of_faults
        .chain(scenario.submissions.iter().map(|s| s.at))
        .chain(scenario.cancels.iter().map(|c| c.at))
        .chain(scenario.interventions.pauses.iter().map(|p| p.until))
        .collect();
    let Some(other) = times.get(draw.index(times.len())).filter(|_| draw.chance(50)) else {
        return any;
    };
    let away = [0, 1, 1_000_000, 20_000_000, 500_000_000, scenario.lease.get()];
    let away = Nanos::new(draw.pick(away));
    let at = if draw.chance(70) { other.after(away) } else { other.before(away) };
    at.min(scenario.heal_at)
}

/// All faults stop when everything heals.
fn until_healed(when: When, scenario: &Scenario) -> When {
    let end = scenario.heal_at;
    match when {
        When::At(at) => When::At(at.min(end)),
        When::During { from, until } => When::During { from: from.min(end), until: until.min(end) },
        counted => counted,
    }
}
