//! The events of one action, in the order of the store's answers. The store may have decided
//! answers of one instant in another order, and commits without an answer landed where the store
//! restarted, perhaps in one batch with the last answers before. There every order is tried, and one
//! must be right. While a commit waits for an answer and the store is then unsure, no hold is
//! judged that may have been decided then: what the store lost may be its reason.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use retrial::guard::HeldBy;
use retrial::run::{Event, Recorded, RunId, TaskId, Version};
use retrial::store::Hold;
use retrial::time::Timestamp;

use super::action::Breach;
use super::state::{Moment, State};
use super::{BREAKER, CONCURRENCY, DENIED, PROBE, RATE, Rules, WAITED, rules};
use crate::evidence::{CommitRecord, Evidence, RunEvidence, StoreAnswer};
use crate::oracle::Report;

/// No more orders of one instant than this are tried.
const MOST_WAYS: usize = 4_000;

/// The events of one action.
pub(super) struct Timeline<'e> {
    groups: Vec<Group<'e>>,
}

/// Events in an unknown order; only the order within each run is known.
struct Group<'e> {
    /// Without answers: between these two times.
    between: Option<(Timestamp, Timestamp)>,
    entries: Vec<Entry<'e>>,
}

/// A commit, as far as it is about the action.
#[derive(Clone)]
struct Entry<'e> {
    at: Timestamp,
    run: RunId,
    first: Version,
    /// The number after its last event.
    end: Version,
    events: Vec<&'e Event>,
    /// The holds; `None` if it landed.
    holds: Option<&'e [Hold]>,
}

/// The timeline of `action`, if it can be known.
pub(super) fn of<'e>(evidence: &'e Evidence, action: &str, same: &Rules) -> Option<Timeline<'e>> {
    let users: BTreeMap<RunId, &RunEvidence> = evidence
        .runs
        .iter()
        .filter(|run| {
            let uses = |step| run.workflow.step(step).is_some_and(|s| s.action == action);
            run.workflow.places().any(|at| uses(at) && rules(run, at).as_ref() == Some(same))
        })
        .map(|run| (run.id, run))
        .collect();
    if users.values().any(|run| run.damaged) {
        return None;
    }
    let about = |run: &RunEvidence, event: &Event| match event {
        Event::RunEnded { .. } | Event::RollbackStarted { .. } | Event::RunDeactivated => true,
        event => event.task().is_some_and(|task| concerns(run, task, action)),
    };
    let entry = |ask: &'e CommitRecord, holds: Option<&'e [Hold]>| {
        let run = users.get(&ask.run)?;
        let events: Vec<&Event> =
            ask.events.iter().map(|r| &r.event).filter(|e| about(run, e)).collect();
        let (first, end) = (ask.first, ask.first.after(ask.events.len()));
        Some(Entry { at: ask.at, run: ask.run, first, end, events, holds })
    };
    let mut parts: Vec<Vec<Entry<'e>>> = Vec::new();
    // Whether the store may know of something that it loses before anybody hears of it, and what was
    // asked for before it was last unsure, and so perhaps decided then.
    let (mut in_doubt, mut asked) = (false, Vec::<&CommitRecord>::new());
    let (mut asked_before, mut pending) = (AskedBefore::default(), Vec::new());
    for answer in &evidence.answers {
        match answer {
            StoreAnswer::Unsure => {
                in_doubt = false;
                if parts.last().is_none_or(|part| !part.is_empty()) {
                    parts.push(Vec::new());
                }
                asked_before.extend(&mut pending, parts.len().saturating_sub(1));
            }
            StoreAnswer::Asked(ask) => {
                pending.push((ask.run, ask.first));
                in_doubt |= entry(ask, None).is_some_and(|entry| !entry.events.is_empty());
                asked.push(ask);
            }
            StoreAnswer::Landed(ask) => parts.last_mut()?.extend(entry(ask, None)),
            StoreAnswer::Held(ask, holds) => {
                let same = |a: &&CommitRecord| a.run == ask.run && a.events == ask.events;
                let before = asked.iter().position(same).map(|at| asked.swap_remove(at));
                let mut hold = entry(ask, Some(holds));
                if let Some(hold) = hold.as_mut().filter(|_| in_doubt || before.is_some()) {
                    hold.events.clear();
                }
                parts.last_mut()?.extend(hold);
            }
        }
    }
    asked_before.extend(&mut pending, parts.len());
    let mut missing: Vec<Vec<Entry<'e>>> = parts.iter().map(|_| Vec::new()).collect();
    missing.push(Vec::new());
    for run in users.values() {
        for (from, until, place) in gaps(run, &parts, &asked_before) {
            let start = usize::try_from(from.0.checked_sub(run.first.0)?).ok()?;
            let len = usize::try_from(until.0 - from.0).ok()?;
            let lost: &[Recorded] = run.events.get(start..start + len)?;
            let events: Vec<&Event> =
                lost.iter().map(|r| &r.event).filter(|e| about(run, e)).collect();
            // The creation of a run starts nothing; the commit after it may be in doubt.
            if !events.is_empty() {
                let (first, end, at) = (from, until, lost.first()?.at);
                let entry = Entry { at, run: run.id, first, end, events, holds: None };
                missing.get_mut(place?)?.push(entry);
            }
        }
    }
    Some(Timeline { groups: groups(parts, missing) })
}

fn concerns(run: &RunEvidence, task: TaskId, action: &str) -> bool {
    run.workflow.step(task.step).is_some_and(|s| s.action == action)
        && rules(run, task.step).is_some()
}

/// Before which parts the commits at a run's places were asked for last. Where they landed without an
/// answer, they did there.
#[derive(Default)]
struct AskedBefore(BTreeMap<(RunId, Version), BTreeSet<usize>>);

impl AskedBefore {
    /// These were asked for before this part.
    fn extend(&mut self, asked: &mut Vec<(RunId, Version)>, part: usize) {
        for commit in asked.drain(..) {
            self.0.entry(commit).or_default().insert(part);
        }
    }

    /// The one part of these before which a commit of this range was asked for; of all of these where
    /// it is not known to have been.
    fn only(
        &self,
        run: RunId,
        commits: Range<Version>,
        parts: RangeInclusive<usize>,
    ) -> Option<usize> {
        let asked = self.0.range((run, commits.start)..(run, commits.end));
        let asked: BTreeSet<usize> = asked.flat_map(|(_, parts)| parts).copied().collect();
        let mut open = parts.filter(|part| asked.is_empty() || asked.contains(part));
        open.next().filter(|_| open.next().is_none())
    }
}

/// The ranges of a run's events that landed without an answer, each with the part before which that
/// was; no part where it can't be known.
fn gaps(
    run: &RunEvidence,
    parts: &[Vec<Entry<'_>>],
    asked_before: &AskedBefore,
) -> Vec<(Version, Version, Option<usize>)> {
    // Which part each answered commit belongs to.
    let mut landed: BTreeMap<Version, (Version, usize)> = BTreeMap::new();
    for (n, part) in parts.iter().enumerate() {
        for entry in part.iter().filter(|e| e.run == run.id && e.holds.is_none()) {
            landed.insert(entry.first, (entry.end, n));
        }
    }
    let mut found = Vec::new();
    let (mut at, mut next) = (Version::START, 0);
    let end = (run.version, (run.version, parts.len()));
    for (first, (until, n)) in landed.into_iter().chain([end]) {
        if first > at {
            found.push((at, first, asked_before.only(run.id, at..first, next..=n)));
        }
        (at, next) = (until, n + 1);
    }
    found
}

fn groups<'e>(parts: Vec<Vec<Entry<'e>>>, missing: Vec<Vec<Entry<'e>>>) -> Vec<Group<'e>> {
    let mut found: Vec<Group<'e>> = Vec::new();
    let mut last = Timestamp::default();
    let mut parts = parts.into_iter();
    for lost in missing {
        let mut part = parts.next().unwrap_or_default();
        part.retain(|entry| !entry.events.is_empty());
        part.sort_by_key(|entry| entry.at);
        if !lost.is_empty() {
            let next = part.first().map_or(Timestamp::from_nanos(u64::MAX), |entry| entry.at);
            // The store may have decided the answers of the last instant in one batch with these.
            let before = found.pop_if(|group| group.between.is_none());
            let entries = before.into_iter().flat_map(|group| group.entries).chain(lost);
            found.push(Group { between: Some((last, next)), entries: entries.collect() });
        }
        for entry in part {
            last = entry.at;
            match found.last_mut() {
                Some(group) if group.between.is_none() && group.entries[0].at == entry.at => {
                    group.entries.push(entry);
                }
                _ => found.push(Group { between: None, entries: vec![entry] }),
            }
        }
    }
    found
}

impl Timeline<'_> {
    pub(super) fn judge(&self, report: &mut Report, action: &str, rules: &Rules) {
        let mut states = BTreeSet::from([State::new(rules)]);
        for group in &self.groups {
            let vague = group.between.is_some();
            if vague && rules.breaker.is_some_and(|breaker| breaker.rate().is_some()) {
                return;
            }
            let phase = states.iter().map(State::probes).min();
            states = match group.follow(rules, states) {
                Ok(Some(states)) => states,
                Ok(None) => return,
                Err((run, breach)) => {
                    report.check(false, run, breach.reason, || {
                        format!("`{action}`: {}", breach.text)
                    });
                    return;
                }
            };
            if vague {
                states = states.into_iter().map(State::vague).collect();
            }
            group.entries.iter().for_each(|entry| entry.meet(report));
            let probes = states.iter().map(State::probes).min();
            for _ in phase.unwrap_or(0)..probes.unwrap_or(0) {
                report.met(PROBE);
            }
        }
    }
}

impl Group<'_> {
    /// The states that may follow `states`; `None` if there are too many orders. An error if no
    /// order is right.
    fn follow(
        &self,
        rules: &Rules,
        states: BTreeSet<State>,
    ) -> Result<Option<BTreeSet<State>>, (RunId, Breach)> {
        let lines = self.lines();
        let start = vec![0_usize; lines.len()];
        let mut ways: BTreeSet<(Vec<usize>, State)> =
            states.into_iter().map(|state| (start.clone(), state)).collect();
        for _ in 0..self.entries.len() {
            let (mut next, mut wrong) = (BTreeSet::new(), None);
            for (done, state) in &ways {
                for (n, line) in lines.iter().enumerate() {
                    let Some(entry) = line.get(done[n]) else { continue };
                    if !is_next(entry, &lines, done) {
                        continue;
                    }
                    match entry.follow(rules, state, self.between) {
                        Ok(after) => {
                            let mut done = done.clone();
                            done[n] += 1;
                            next.extend(after.into_iter().map(|state| (done.clone(), state)));
                        }
                        Err(breach) => {
                            wrong = wrong.or_else(|| Some((entry.run, entry.named(breach))));
                        }
                    }
                }
            }
            match wrong {
                Some(wrong) if next.is_empty() => return Err(wrong),
                _ if next.len() > MOST_WAYS => return Ok(None),
                _ => ways = next,
            }
        }
        Ok(Some(ways.into_iter().map(|(_, state)| state).collect()))
    }

    /// Each run's own order. A second commit that was held where its run stood is in a line of its own:
    /// which was asked for first is not known.
    fn lines(&self) -> Vec<Vec<&Entry<'_>>> {
        let mut lines: BTreeMap<(RunId, usize), Vec<&Entry<'_>>> = BTreeMap::new();
        for (n, entry) in self.entries.iter().enumerate() {
            let same = |e: &&Entry<'_>| e.run == entry.run && e.place() == entry.place();
            let before = self.entries[..n].iter().filter(same).count();
            lines.entry((entry.run, before)).or_default().push(entry);
        }
        for line in lines.values_mut() {
            line.sort_by_key(|entry| entry.place());
        }
        lines.into_values().collect()
    }
}

/// Whether all came before `entry` that its run's order has before it, and nothing that it has after it.
fn is_next(entry: &Entry<'_>, lines: &[Vec<&Entry<'_>>], done: &[usize]) -> bool {
    let others = lines
        .iter()
        .zip(done)
        .flat_map(|(line, done)| line.iter().enumerate().map(move |(n, e)| (e, n < *done)));
    others.filter(|(other, _)| other.run == entry.run).all(|(other, came)| {
        match other.place().cmp(&entry.place()) {
            Ordering::Less => came,
            Ordering::Equal => true,
            Ordering::Greater => !came,
        }
    })
}

impl Entry<'_> {
    /// Its place in its run: what is held is so before its number is taken.
    fn place(&self) -> (Version, bool) {
        (self.first, self.holds.is_none())
    }

    fn follow(
        &self,
        rules: &Rules,
        state: &State,
        between: Option<(Timestamp, Timestamp)>,
    ) -> Result<Vec<State>, Breach> {
        let moment = match between {
            Some((from, until)) => Moment { from, until, exact: false },
            None => Moment { from: self.at, until: self.at, exact: true },
        };
        let holds = self.holds.unwrap_or_default();
        let mut states = vec![state.clone()];
        for event in &self.events {
            let (mut next, mut wrong) = (Vec::new(), None);
            for state in states {
                match state.take(rules, self.run, event, holds, moment) {
                    Ok(after) => next.extend(after),
                    Err(breach) => wrong = Some(breach),
                }
            }
            // An event before it in this commit left several states: one of them must allow it.
            match wrong {
                Some(breach) if next.is_empty() => return Err(breach),
                _ => states = next,
            }
        }
        // A hold changes nothing.
        Ok(if self.holds.is_some() { vec![state.clone()] } else { states })
    }

    /// Names the events of what landed.
    fn named(&self, breach: Breach) -> Breach {
        let (first, last) = (self.first.0, self.end.0.saturating_sub(1));
        let events = match self.holds {
            Some(_) => return breach,
            None if first == last => format!("#{first}"),
            None => format!("#{first} to #{last}"),
        };
        Breach { text: format!("{}, by the commit of {events}", breach.text), ..breach }
    }

    /// Says which guards were met.
    fn meet(&self, report: &mut Report) {
        for event in &self.events {
            let held = |token| {
                self.holds.into_iter().flatten().find(|h| h.attempt.token == token).map(|h| h.by)
            };
            let Event::AttemptStarted { token, .. } = event else { continue };
            report.judged += 1;
            match held(*token) {
                Some(HeldBy::Breaker) => report.met(BREAKER),
                Some(HeldBy::Concurrency) => report.met(CONCURRENCY),
                Some(HeldBy::Rate) => report.met(RATE),
                Some(HeldBy::RetryBudget) => report.met(WAITED),
                None => {}
            }
        }
        let retries = self.events.iter().filter(|e| matches!(e, Event::RetryScheduled { .. }));
        let tasks: BTreeSet<TaskId> = retries.filter_map(|e| e.task()).collect();
        let denied = self.holds.into_iter().flatten().filter(|h| tasks.contains(&h.attempt.task));
        denied.for_each(|_| report.met(DENIED));
    }
}
