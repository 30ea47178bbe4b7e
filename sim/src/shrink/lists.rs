//! The lists of a scenario. Each of their items can be left out.

use std::ops::Range;

use super::Without;
use crate::scenario::Scenario;

/// A list: how long it is, and the scenario without a piece of it.
pub(super) struct List {
    pub(super) count: fn(&Scenario) -> usize,
    pub(super) without: Without,
}

macro_rules! list {
    ($($path:ident).+) => {
        List {
            count: |scenario| scenario.$($path).+.len(),
            without: |scenario, piece| {
                let mut smaller = scenario.clone();
                smaller.$($path).+.drain(piece);
                Some(smaller)
            },
        }
    };
}

/// Every list, the one that costs most and is needed least first.
pub(super) const ALL: [List; 14] = [
    list!(faults),
    List { count: own_faults, without: without_own_faults },
    List { count: |s| s.submissions.len(), without: without_submissions },
    list!(interventions.pauses),
    list!(interventions.by_hand),
    list!(interventions.letter_rounds),
    list!(interventions.followers),
    list!(interventions.releases),
    list!(cancels),
    list!(deactivations),
    list!(secrets),
    list!(missing_functions),
    List { count: |s| s.workflows.len(), without: without_workflows },
    List { count: |s| s.endpoints.len(), without: without_endpoints },
];

fn own_faults(scenario: &Scenario) -> usize {
    scenario.own.as_ref().map_or(0, |own| own.faults.len())
}

fn without_own_faults(scenario: &Scenario, piece: Range<usize>) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    smaller.own.as_mut()?.faults.drain(piece);
    Some(smaller)
}

/// Where place `at` has moved to; none where it is in `piece`.
fn moved(at: usize, piece: &Range<usize>) -> Option<usize> {
    match at {
        at if piece.contains(&at) => None,
        at if at >= piece.end => Some(at - piece.len()),
        at => Some(at),
    }
}

/// Keeps the index `at` if its item is kept, and adjusts it.
fn follow(at: &mut usize, piece: &Range<usize>) -> bool {
    let to = moved(*at, piece);
    *at = to.unwrap_or(*at);
    to.is_some()
}

/// The commands for a submission are left out with it.
fn without_submissions(scenario: &Scenario, piece: Range<usize>) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    smaller.submissions.drain(piece.clone());
    smaller.cancels.retain_mut(|c| follow(&mut c.submission, &piece));
    smaller.deactivations.retain_mut(|r| follow(&mut r.submission, &piece));
    smaller.interventions.pauses.retain_mut(|p| follow(&mut p.submission, &piece));
    smaller.interventions.by_hand.retain_mut(|b| follow(&mut b.submission, &piece));
    smaller.interventions.followers.retain_mut(|f| follow(&mut f.submission, &piece));
    Some(smaller)
}

/// Only workflows that are never submitted.
fn without_workflows(scenario: &Scenario, piece: Range<usize>) -> Option<Scenario> {
    let mut smaller = scenario.clone();
    smaller.workflows.drain(piece.clone());
    let kept = smaller.submissions.iter_mut().all(|s| follow(&mut s.workflow, &piece));
    kept.then_some(smaller)
}

/// Only endpoints that no workflow names: another would answer that there is no such thing.
fn without_endpoints(scenario: &Scenario, piece: Range<usize>) -> Option<Scenario> {
    let texts = || {
        let actions = scenario.workflows.iter().filter_map(|w| w.actions.as_deref());
        scenario.workflows.iter().map(|w| w.text.as_str()).chain(actions)
    };
    let mut smaller = scenario.clone();
    let mut gone = smaller.endpoints.drain(piece);
    let unused = gone.all(|endpoint| texts().all(|text| !text.contains(&endpoint.path)));
    drop(gone);
    unused.then_some(smaller)
}
