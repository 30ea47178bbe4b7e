//! The spans in which faults were on. The history says when a fault struck; this says when it
//! could.

use retrial::time::{Mono, Nanos};

use super::exact;
use super::lanes::Lanes;
use super::model::{Detail, Mark, MarkKind, Span, SpanKind};
use crate::evidence::Evidence;
use crate::fault::FaultKind;
use crate::scenario::{Place, Scenario, Topology, When};

/// The faults that a schedule gives a time. Healing ends them all.
pub(super) fn windows(scenario: &Scenario, lanes: &mut Lanes) -> Vec<Span> {
    let mut spans = Vec::new();
    for fault in &scenario.faults {
        let (kind, from, until) = match (fault.kind, fault.when) {
            (FaultKind::Pause, When::At(at)) => (SpanKind::Still, at, at.after(fault.lasts)),
            (FaultKind::SlowNode, When::During { from, until }) => (SpanKind::Still, from, until),
            // A death is drawn as it was.
            (FaultKind::Crash | FaultKind::Shutdown, _) => continue,
            (FaultKind::TornWrite | FaultKind::LostWrite, _) => continue,
            (_, When::At(at)) => (SpanKind::Window, at, scenario.heal_at),
            (_, When::During { from, until }) => (SpanKind::Window, from, until),
            (_, When::Poll(_) | When::Call(_) | When::Byte { .. }) => continue,
        };
        let until = until.min(scenario.heal_at);
        if until <= from {
            continue;
        }
        let (target, peer) = (Some(fault.target), fault.peer);
        for (place, other) in [(target, peer), (peer, target)] {
            let Some(place) = place else { continue };
            spans.push(Span {
                lane: lanes.of_place(place),
                from: exact(from),
                until: Some(exact(until)),
                kind,
                name: named(fault.kind, other, fault.lasts),
            });
        }
    }
    spans
}

fn named(kind: FaultKind, other: Option<Place>, lasts: Nanos) -> String {
    let with = other.map(|place| format!(" with {}", place.node()));
    let by = (kind == FaultKind::Delay).then(|| format!(" by {lasts}"));
    format!("{kind}{}{}", by.unwrap_or_default(), with.unwrap_or_default())
}

/// From each death to the next incarnation.
pub(super) fn deaths(evidence: &Evidence, lanes: &mut Lanes) -> Vec<Span> {
    let mut spans = Vec::new();
    for incarnation in &evidence.lifespans {
        let Some(died) = incarnation.died else { continue };
        let mut later =
            evidence.lifespans.iter().filter(|l| l.node == incarnation.node && l.born > died);
        let born: Option<Mono> = later.next().map(|l| l.born);
        spans.push(Span {
            lane: lanes.of_name(&incarnation.node),
            from: exact(died),
            until: born.map(exact),
            kind: SpanKind::Dead,
            name: format!("life {} is over", incarnation.incarnation),
        });
    }
    spans
}

/// Every jump of a wall clock.
pub(super) fn jumps(scenario: &Scenario, lanes: &mut Lanes) -> Vec<Mark> {
    let mut marks = Vec::new();
    let nodes = scenario.topology.nodes();
    for (number, clock) in (0..).zip(&scenario.clocks) {
        let shared = scenario.topology != Topology::Embedded;
        let place = if shared && number == nodes { Place::Store } else { Place::Node(number) };
        for jump in &clock.jumps {
            let by = Nanos::new(jump.by_ns.unsigned_abs());
            let way = if jump.by_ns < 0 { "back" } else { "ahead" };
            marks.push(Mark {
                lane: lanes.of_place(place),
                at: exact(jump.at),
                kind: MarkKind::Clock,
                name: format!("the wall clock jumps {way} by {by}"),
                run: None,
                number: None,
                details: vec![Detail::new("drift", format!("{} millionths", clock.drift_ppm))],
            });
        }
    }
    marks
}
