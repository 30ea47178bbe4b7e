//! The part of promise 9 about users who wait for a run or read its events: they are told what is in
//! its history, each event once and in order, observers first, and soon once nothing goes wrong.

use std::collections::BTreeMap;

use retrial::run::{Event, Outcome, RunId, Version};
use retrial::time::{Mono, Nanos};

use super::Report;
use super::promptness::{POLL, back_at, is_near, is_quick};
use crate::evidence::{Evidence, Followed, RunEvidence, Told};

/// Events were told with a gap, a repeat or in another order.
pub const TOLD_OUT_OF_LINE: &str = "told_out_of_line";
/// What was told is not in the run's history.
pub const TOLD_A_TALE: &str = "told_a_tale";
/// The events ended before the run.
pub const TOLD_TOO_LITTLE: &str = "told_too_little";
/// Who waited for a run knew of its end before the observers of the node that ended it.
pub const TOLD_BEFORE_OBSERVERS: &str = "told_before_observers";
/// Who asked the node at which it happened was told late.
pub const TOLD_LATE: &str = "told_late";
/// The run has ended and who asked was not told.
pub const NEVER_TOLD: &str = "never_told";

/// A user who waits for a run or reads its events.
pub(crate) const FOLLOWER: &str = "follower";
/// Something that a node must tell soon.
pub(crate) const SOON_TOLD: &str = "follower told soon";

/// A node tells what it has done itself within this time.
const SOON: Nanos = Nanos::from_millis(300);
/// It looks at the store for what others did once a second.
const ELSEWHERE: Nanos = POLL.saturating_add(Nanos::from_millis(500));
/// Within this time a node tells everything.
const AT_LAST: Nanos = Nanos::from_secs(3);

/// From when on nothing keeps a node from telling something soon.
fn calm_from(evidence: &Evidence) -> Mono {
    let is_calm = is_quick(evidence) && is_near(evidence);
    if is_calm { Mono::from_nanos(0) } else { back_at(evidence) }
}

/// Judges what users were told of runs.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    if evidence.interventions.followed.is_empty() || evidence.rot {
        return;
    }
    let seen = seen(evidence);
    for followed in &evidence.interventions.followed {
        let run = evidence.runs.iter().find(|run| run.id == followed.run && !run.damaged);
        let Some(run) = run else { continue };
        report.met(FOLLOWER);
        line(report, followed);
        truth(report, run, followed);
        in_time(report, evidence, run, followed, &seen);
    }
}

/// When observers saw which event of which run, with the node.
type Seen<'e> = BTreeMap<(RunId, Version), (&'e str, Mono)>;

fn seen(evidence: &Evidence) -> Seen<'_> {
    let all = evidence.observed.iter();
    all.map(|seen| ((seen.run, seen.number), (seen.node.as_str(), seen.at))).collect()
}

/// Each event follows the one before it, from the one that was asked for.
fn line(report: &mut Report, followed: &Followed) {
    let mut next = followed.from;
    for (_, told) in &followed.told {
        let (right, then) = match told {
            Told::Event(number, _) => (next == Some(*number), number.after(1)),
            Told::Compacted(from, to) => (next == Some(*from), *to),
            Told::Outcome(_) => (next.is_none(), Version::START),
            Told::Over => (next.is_some(), Version::START),
            Told::Refused(_) => continue,
        };
        report.check(right, followed.run, TOLD_OUT_OF_LINE, || {
            format!("{} says {told:?} where {next:?} is to come", followed.node)
        });
        next = next.map(|_| then);
    }
}

/// Everything is as the history has it.
fn truth(report: &mut Report, run: &RunEvidence, followed: &Followed) {
    let outcome = end(run).map(|(_, outcome)| outcome);
    for (_, told) in &followed.told {
        let right = match told {
            Told::Event(number, recorded) => {
                let place = number.0.checked_sub(run.first.0);
                // What was removed since can't be compared.
                place.is_none_or(|place| run.events.get(place as usize) == Some(recorded))
            }
            Told::Outcome(told) => outcome == Some(told),
            Told::Compacted(..) | Told::Over | Told::Refused(_) => true,
        };
        report.check(right, run.id, TOLD_A_TALE, || format!("{} says {told:?}", followed.node));
    }
    let is_over = followed.told.iter().any(|(_, told)| *told == Told::Over);
    let has_end = || {
        let last = followed.told.iter().rev().find_map(|(_, told)| match told {
            Told::Event(_, recorded) => Some(matches!(recorded.event, Event::RunEnded { .. })),
            _ => None,
        });
        // Who asked for what follows the end is told of nothing.
        last.unwrap_or(outcome.is_some() && followed.from >= Some(run.version))
    };
    report.check(!is_over || has_end(), run.id, TOLD_TOO_LITTLE, || {
        format!("{} says that nothing follows", followed.node)
    });
}

/// The number of the run's last event, and how it ended.
fn end(run: &RunEvidence) -> Option<(Version, &Outcome)> {
    run.events.iter().enumerate().find_map(|(place, recorded)| match &recorded.event {
        Event::RunEnded { outcome } => Some((run.first.after(place), outcome)),
        _ => None,
    })
}

/// Where nothing is in the way, a node that lives on tells what it has done itself soon, and everything at
/// last. It tells its observers first.
fn in_time(
    report: &mut Report,
    evidence: &Evidence,
    run: &RunEvidence,
    followed: &Followed,
    seen: &Seen<'_>,
) {
    let calm = calm_from(evidence);
    let life = evidence.lifespans.iter().find(|life| {
        let lived = life.born <= followed.asked && life.died.is_none_or(|d| followed.asked < d);
        life.node == followed.node && lived
    });
    let Some(life) = life else { return };
    let end = end(run).map(|(number, _)| number);
    let mut ready = followed.asked;
    for (at, told) in &followed.told {
        let number = match told {
            Told::Event(number, _) => Some(*number),
            Told::Outcome(_) => end,
            _ => None,
        };
        let seen = number.and_then(|number| seen.get(&(run.id, number)));
        let Some(&(node, happened)) = seen else { continue };
        let is_here = node == followed.node && happened >= life.born;
        if is_here && matches!(told, Told::Outcome(_)) {
            report.check(*at >= happened, run.id, TOLD_BEFORE_OBSERVERS, || {
                format!("{} said it {} before", followed.node, happened.since(*at))
            });
        }
        // A reader that rests hears it when it asks again.
        ready = ready.max(happened).max(calm);
        if happened >= calm && followed.rest == Nanos::ZERO {
            report.met(SOON_TOLD);
            let most = if is_here { SOON } else { ELSEWHERE };
            report.check(at.since(ready) <= most, run.id, TOLD_LATE, || {
                let late = at.since(happened);
                format!("{} says {told:?}, which {node} did, after {late}", followed.node)
            });
        }
        ready = ready.max(*at);
    }
    let over = |(_, told): &(Mono, Told)| matches!(told, Told::Outcome(_) | Told::Over);
    let Some((_, ended)) = end.and_then(|end| seen.get(&(run.id, end))) else { return };
    let since = (*ended).max(calm).max(ready);
    let by = evidence.phases.ended_at;
    if life.died.is_none() && followed.rest == Nanos::ZERO && by.since(since) > AT_LAST {
        let is_refused = followed.told.iter().any(|(_, told)| matches!(told, Told::Refused(_)));
        let right = is_refused || followed.told.iter().any(over);
        report.check(right, run.id, NEVER_TOLD, || {
            format!("{} has said nothing for {}", followed.node, by.since(since))
        });
    }
}
