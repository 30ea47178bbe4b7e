//! No action takes more than its share of a node's places.

use std::collections::BTreeMap;

use retrial::failure::ErrorCode;
use retrial::run::{Event, RunId, TaskId};
use retrial::time::{Mono, Nanos};

use super::{MORE_THAN_ITS_SHARE, SHARE};
use crate::evidence::{Arrival, Evidence, ObservedEvent};
use crate::oracle::Report;
use crate::oracle::attempt_records::AttemptRecords;

/// An attempt of a run's task.
type Attempt = (RunId, TaskId, u32);
/// A node's life.
type Life<'e> = (&'e str, u32);

/// Counts the attempts of each action that a node surely had in progress, by what it told: from the
/// start that it told to the end that it told. How an attempt ended that was cut or lost its lease
/// may be told after its place was free, so of these only the first half of its time counts, only
/// where it did something, and not beyond the end of its requests or what is told of its own: a start
/// may be told long after the store's time for it began.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let Some(places) = evidence.places else { return };
    let most = (places.all as usize * places.share as usize / 100).max(1);
    let (ends, ledger) = (ends(evidence), AttemptRecords::of(evidence));
    let mut going: BTreeMap<(Life<'_>, &str), BTreeMap<Attempt, Option<Mono>>> = BTreeMap::new();
    for told in &evidence.observed {
        let event = &told.recorded.event;
        let Some((attempt, action)) = attempt(evidence, told) else { continue };
        let life = (told.node.as_str(), told.incarnation);
        let here = going.entry((life, action)).or_default();
        let Event::AttemptStarted { timeout, .. } = event else {
            here.remove(&attempt);
            continue;
        };
        here.retain(|_, until| until.is_none_or(|until| until > told.at));
        let (run, task, number) = attempt;
        let acted = !ledger.arrivals(run, task, number).is_empty()
            || !ledger.function_records(run, task, number).is_empty();
        let until = match ends.get(&attempt) {
            Some(End::Own(end)) if *end == life => None,
            Some(End::TimeUp(end)) if acted => {
                // The store counts its time from then on.
                let begun = evidence.asked.get(&(run, told.number)).copied().unwrap_or(told.at);
                let half = timeout.map(|limit| begun.after(Nanos::new(limit.get() / 2)));
                [half, Some(*end), answered(ledger.arrivals(run, task, number))]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ => continue,
        };
        if until.is_some_and(|until| until <= told.at) {
            continue;
        }
        here.insert(attempt, until);
        let count = here.len();
        report.check(count <= most, run, MORE_THAN_ITS_SHARE, || {
            format!(
                "{} had {count} attempts of `{action}` in progress, not {most} of its {} places, \
                 at {}",
                told.node, places.all, told.recorded.at
            )
        });
        if count == most {
            report.met(SHARE);
        }
    }
}

/// When the last of an attempt's requests had ended, if all have.
fn answered(arrivals: &[&Arrival]) -> Option<Mono> {
    let ends: Option<Vec<Mono>> = arrivals.iter().map(|arrival| arrival.ended_at).collect();
    ends?.into_iter().max()
}

/// How an attempt ended.
enum End<'e> {
    /// By its own outcome, told by this life of a node.
    Own(Life<'e>),
    /// Its time was up, as was told then.
    TimeUp(Mono),
    Lost,
}

fn ends(evidence: &Evidence) -> BTreeMap<Attempt, End<'_>> {
    let mut found = BTreeMap::new();
    for told in &evidence.observed {
        let own = End::Own((told.node.as_str(), told.incarnation));
        let end = match &told.recorded.event {
            Event::TaskSucceeded { .. } => own,
            Event::AttemptFailed { failure, .. } => match failure.code().as_str() {
                ErrorCode::TIMEOUT => End::TimeUp(told.at),
                ErrorCode::LEASE_LOST | ErrorCode::HEARTBEAT_TIMEOUT => End::Lost,
                _ => own,
            },
            _ => continue,
        };
        if let Some((attempt, _)) = attempt(evidence, told) {
            found.entry(attempt).or_insert(end);
        }
    }
    found
}

/// The attempt whose start or end is told, and its action.
fn attempt<'e>(evidence: &'e Evidence, told: &ObservedEvent) -> Option<(Attempt, &'e str)> {
    let (task, number) = match told.recorded.event {
        Event::AttemptStarted { task, attempt, .. }
        | Event::AttemptFailed { task, attempt, .. }
        | Event::TaskSucceeded { task, attempt, .. } => (task, attempt),
        _ => return None,
    };
    let run = evidence.runs.iter().find(|run| run.id == told.run && !run.damaged)?;
    let action = &run.workflow.step(task.step)?.action;
    Some(((told.run, task, number), action))
}
