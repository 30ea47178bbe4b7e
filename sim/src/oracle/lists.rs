//! The part of promise 9 about lists: a list read page by page holds each matching run and letter once,
//! in order, as the histories say, and the counts are right. A store that is opened again lists the
//! same.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{Event, Outcome, RunId};
use retrial::store::{LetterFilter, LetterHead, LetterStatus, RunFilter, RunHead, RunPhase};
use retrial::time::{Nanos, Timestamp};
use serde_json::Value;

use super::Report;
use super::history::{entries, input_of};
use crate::evidence::{Evidence, Listing, RunEvidence};

/// A list has other runs than its filter asks for, or another order.
pub const LISTED_OTHERWISE: &str = "listed_otherwise";
/// A run in a list is not as its history says.
pub const WRONG_HEAD: &str = "wrong_head";
/// A list has other letters than its filter asks for, or another order.
pub const LETTERS_LISTED_OTHERWISE: &str = "letters_listed_otherwise";
/// A run that was activated is still archived.
pub const STAYED_ARCHIVED: &str = "stayed_archived";
/// Nothing can be listed, though all has healed.
pub const NOT_LISTED: &str = "not_listed";
/// Runs or letters are not as many as is said.
pub const WRONG_TALLY: &str = "wrong_tally";

/// How far the time that a node gives an event may be from the store's.
const CLOCKS: Nanos = Nanos::from_millis(500);

/// A run, as its history has it.
struct Expected<'e> {
    evidence: &'e RunEvidence,
    phase: RunPhase,
    /// By the store's own first word: events have the time of the node that asked.
    created: Timestamp,
    ended: Option<Timestamp>,
    letters: u64,
    code: Option<&'e str>,
    fields: BTreeMap<String, String>,
}

/// Judged where every run has ended: what goes on changes while it is listed.
pub(super) fn judge(report: &mut Report, evidence: &Evidence, gone: &BTreeSet<RunId>) {
    let reopened = answered(report, evidence.interventions.reopened.as_ref());
    let asked = evidence.interventions.listed.as_ref();
    let Some(listing) = answered(report, asked) else { return };
    let kept = evidence.runs.iter().filter(|run| !run.events.is_empty() || run.damaged);
    let all: Option<Vec<Expected<'_>>> = kept.map(|run| expected(evidence, listing, run)).collect();
    let Some(mut runs) = all else { return };
    runs.sort_by_key(|run| std::cmp::Reverse((run.created, run.evidence.id)));
    let mut letters: Vec<&LetterHead> =
        evidence.interventions.letters.iter().map(|(head, _)| head).collect();
    letters.sort_by_key(|head| head.id);
    listed(report, listing, &runs, &letters);
    for run in &runs {
        let stays =
            listing.heads.iter().any(|h| h.run == run.evidence.id && is_before_activation(h, run));
        report.check(!stays, run.evidence.id, STAYED_ARCHIVED, || {
            "it was activated after it was archived, and is archived all the same".to_owned()
        });
    }
    let Some(listing) = reopened else { return };
    runs.retain(|run| !gone.contains(&run.evidence.id));
    letters.retain(|head| !gone.contains(&head.id.run));
    listed(report, listing, &runs, &letters);
    let before = evidence.interventions.pruned.as_ref().map(|pruning| &pruning.after);
    report.check(before.is_none_or(|heads| *heads == listing.heads), None, WRONG_HEAD, || {
        format!("opened again it lists {:?}, not {before:?}", listing.heads)
    });
}

/// A store that has healed answers, and can be opened again.
fn answered<'e>(
    report: &mut Report,
    asked: Option<&'e Result<Listing, String>>,
) -> Option<&'e Listing> {
    let why = asked?.as_ref().err();
    report.check(why.is_none(), None, NOT_LISTED, || why.cloned().unwrap_or_default());
    asked?.as_ref().ok()
}

/// `None` where it is not known whole, or has not ended.
fn expected<'e>(
    evidence: &'e Evidence,
    listing: &Listing,
    run: &'e RunEvidence,
) -> Option<Expected<'e>> {
    let first = entries(run).next().filter(|e| matches!(e.event, Event::RunCreated { .. }))?;
    let head = listing.heads.iter().find(|head| head.run == run.id);
    let phase = entries(run).find_map(|e| match e.event {
        Event::RunEnded { outcome: Outcome::Completed } => Some(RunPhase::Completed),
        Event::RunEnded { outcome: Outcome::Failed { .. } } => Some(RunPhase::Failed),
        Event::RunEnded { outcome: Outcome::Cancelled { .. } } => Some(RunPhase::Cancelled),
        _ => None,
    })?;
    let code = entries(run).filter_map(|e| match e.event {
        Event::TaskFailed { error, .. } => Some(error.code.as_str()),
        _ => None,
    });
    let waits = |head: &LetterHead| head.id.run == run.id && head.status == LetterStatus::Waiting;
    let letters = evidence.interventions.letters.iter().filter(|(head, _)| waits(head));
    Some(Expected {
        evidence: run,
        phase,
        created: head.map_or(first.at, |head| head.created),
        ended: head.and_then(|head| head.ended),
        letters: letters.count() as u64,
        code: code.last(),
        fields: fields(run),
    })
}

/// X20: the values of the searchable fields that the input has.
fn fields(run: &RunEvidence) -> BTreeMap<String, String> {
    let names = serde_json::to_value(run.workflow.search()).unwrap_or_default();
    let names = names.as_array().cloned().unwrap_or_default();
    let value = |name: Value| {
        let name = name.as_str()?.to_owned();
        let mut parts = name.split('.');
        let first = input_of(run)?.get(parts.next()?)?;
        let found = parts.try_fold(first, |value, part| value.get(part))?;
        let text = match found {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => found.to_string(),
            _ => return None,
        };
        (text.len() <= 256).then_some((name, text))
    };
    names.into_iter().filter_map(value).collect()
}

fn listed(report: &mut Report, listing: &Listing, runs: &[Expected<'_>], letters: &[&LetterHead]) {
    let mut by_id: Vec<RunId> = runs.iter().map(|run| run.evidence.id).collect();
    by_id.sort_unstable();
    let ids = |heads: &[RunHead]| heads.iter().map(|head| head.run).collect::<Vec<_>>();
    let (found, limit, damaged) = (ids(&listing.heads), listing.limit, listing.damaged);
    report.check(found == by_id && damaged == 0, None, LISTED_OTHERWISE, || {
        format!("by id, {limit} at once: {found:?}, not {by_id:?}; {damaged} damaged")
    });
    for (filter, heads) in &listing.runs {
        let wanted = runs.iter().filter(|run| wants(filter, run));
        let (right, found) = (wanted.map(|run| run.evidence.id).collect::<Vec<_>>(), ids(heads));
        report.check(found == right, None, LISTED_OTHERWISE, || {
            format!("{filter:?}, {limit} at once: {found:?}, not {right:?}")
        });
    }
    for head in listing.heads.iter().chain(listing.runs.iter().flat_map(|(_, heads)| heads)) {
        let Some(run) = runs.iter().find(|run| run.evidence.id == head.run) else { continue };
        let wrong = differs(head, run);
        report.check(wrong.is_none(), head.run, WRONG_HEAD, || {
            format!("its {} is listed otherwise: {head:?}", wrong.unwrap_or_default())
        });
    }
    letters_listed(report, listing, letters);
    tallied(report, listing, runs);
}

fn letters_listed(report: &mut Report, listing: &Listing, letters: &[&LetterHead]) {
    for (filter, found) in &listing.letters {
        let right: Vec<&LetterHead> =
            letters.iter().copied().filter(|head| wants_letter(filter, head)).collect();
        report.check(
            found.iter().eq(right.iter().copied()),
            None,
            LETTERS_LISTED_OTHERWISE,
            || format!("{filter:?}, {} at once: {found:?}, not {right:?}", listing.limit),
        );
    }
}

fn tallied(report: &mut Report, listing: &Listing, runs: &[Expected<'_>]) {
    let mut phases = BTreeMap::new();
    runs.iter().for_each(|run| *phases.entry(run.phase).or_default() += 1);
    let waiting = runs.iter().map(|run| run.letters).sum::<u64>();
    let right = listing.tally.phases == phases && listing.tally.letters == waiting;
    report.check(right, None, WRONG_TALLY, || {
        format!("{:?}, not {phases:?} and {waiting} letters", listing.tally)
    });
}

fn differs(head: &RunHead, run: &Expected<'_>) -> Option<&'static str> {
    let asked = run.evidence.text.is_some();
    let parts = [
        (head.workflow == run.evidence.workflow.name(), "workflow"),
        (head.phase == run.phase, "phase"),
        (!head.active, "activity"),
        (head.version.0 == run.evidence.events.len() as u64, "version"),
        (head.created == run.created, "creation"),
        (head.ended.is_some_and(|end| end >= head.created) && head.ended == run.ended, "end"),
        (head.redrives == run.evidence.redrives, "link"),
        (head.tasks == 0, "count of tasks"),
        (head.letters == run.letters, "count of letters"),
        (!asked || head.key == run.evidence.key, "key"),
        (head.code.as_deref() == run.code, "code"),
        (head.fields == run.fields, "searchable fields"),
    ];
    parts.into_iter().find(|(right, _)| !right).map(|(_, what)| what)
}

/// A12: whoever activates a run takes it out of the archive.
fn is_before_activation(head: &RunHead, run: &Expected<'_>) -> bool {
    let activated = entries(run.evidence).filter(|e| matches!(e.event, Event::RunActivated)).last();
    let (Some(archived), Some(activated)) = (head.archived, activated) else { return false };
    archived.after(CLOCKS) < activated.at
}

fn wants(filter: &RunFilter, run: &Expected<'_>) -> bool {
    let RunFilter { phase, workflow, text, letters, key, code, fields, since, until } = filter;
    let matches = |text: &str| {
        let (id, text) = (run.evidence.id.to_string().replace('-', ""), text.to_ascii_lowercase());
        id.starts_with(&text.replace('-', ""))
            || run.evidence.workflow.name().to_ascii_lowercase().contains(&text)
    };
    phase.is_none_or(|phase| phase == run.phase)
        && workflow.as_ref().is_none_or(|name| name == run.evidence.workflow.name())
        && text.as_ref().is_none_or(|text| matches(text))
        && (!letters || run.letters > 0)
        && key.as_ref().is_none_or(|key| run.evidence.key.as_ref() == Some(key))
        && code.as_ref().is_none_or(|code| run.code == Some(code))
        && fields.iter().all(|(name, value)| run.fields.get(name) == Some(value))
        && since.is_none_or(|since| since <= run.created)
        && until.is_none_or(|until| run.created < until)
}

fn wants_letter(filter: &LetterFilter, head: &LetterHead) -> bool {
    let LetterFilter { workflow, action, code, waiting, since, until } = filter;
    workflow.as_ref().is_none_or(|name| *name == head.workflow)
        && action.as_ref().is_none_or(|name| *name == head.action)
        && code.as_ref().is_none_or(|code| *code == head.code)
        && (!waiting || head.status == LetterStatus::Waiting)
        && since.is_none_or(|since| since <= head.at)
        && until.is_none_or(|until| head.at < until)
}
