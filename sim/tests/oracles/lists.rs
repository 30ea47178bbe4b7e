use std::collections::BTreeMap;
use std::sync::Arc;

use retrial::run::{Digest, Event, LetterId, RunId, Version};
use retrial::store::{LetterFilter, LetterHead, LetterStatus, RunFilter, RunHead, RunPhase, Tally};
use retrial::workflow::SearchFields;
use retrial_sim::unstable::evidence::{Listing, RunEvidence};
use retrial_sim::unstable::oracle::Report;
use retrial_sim::unstable::oracle::interventions::judge;
use retrial_sim::unstable::oracle::lists::{
    LETTERS_LISTED_OTHERWISE, LISTED_OTHERWISE, NOT_LISTED, STAYED_ARCHIVED, WRONG_HEAD,
    WRONG_TALLY,
};
use retrial_sim::unstable::scenario::{Format, WorkflowText};

use crate::kit::{Script, exhausted, found, healthy, policy, step, store, task, workflow};

/// A run that failed, and a copy of it that began 5 s later, each with a letter; and their lists.
fn listed() -> (Script, Listing) {
    let mut parts = workflow(vec![step("a", policy(3))]);
    parts.search = SearchFields::new(["items", "n"]).unwrap();
    let mut script = exhausted();
    script.run_mut().workflow = Arc::new(parts.try_into().unwrap());
    let first = script.run_mut();
    if let Event::RunCreated { input, .. } = &mut first.events[0].event {
        input.insert("n".to_owned(), 7.into());
    }
    first.key = Some("k".to_owned());
    first.text = Some(Arc::new(text()));
    let (id, key) = (RunId::from_bytes([9; 16]), Some("j".to_owned()));
    let second = RunEvidence { id, key, ..first.clone() };
    let heads = [head(&second, 5_000), head(first, 0)];
    script.world.runs.push(second);
    let letters: Vec<LetterHead> = heads.iter().map(|run| letter(run.run)).collect();
    for head in &letters {
        script.world.interventions.letters.push((head.clone(), None));
    }
    let mut by_id = heads.to_vec();
    by_id.sort_by_key(|head| head.run);
    let mut letters_by_id = letters;
    letters_by_id.sort_by_key(|head| head.id);
    let listing = Listing {
        limit: 1,
        heads: by_id,
        runs: vec![
            (RunFilter::default(), heads.to_vec()),
            (RunFilter { until: Some(store(5_000)), ..RunFilter::default() }, heads[1..].to_vec()),
            (RunFilter { key: Some("k".to_owned()), ..RunFilter::default() }, heads[1..].to_vec()),
            (RunFilter { key: Some("none".to_owned()), ..RunFilter::default() }, Vec::new()),
        ],
        letters: vec![(LetterFilter::default(), letters_by_id)],
        tally: Tally { at: store(9_000), phases: [(RunPhase::Failed, 2)].into(), letters: 2 },
        damaged: 0,
    };
    (script, listing)
}

/// That of a run that a user asked for.
pub(crate) fn text() -> WorkflowText {
    let (format, builder) = (Format::Json, BTreeMap::new());
    WorkflowText { format, text: String::new(), actions: None, builder }
}

fn head(run: &RunEvidence, created: u64) -> RunHead {
    RunHead {
        run: run.id,
        workflow: "w".to_owned(),
        digest: Digest::of(b""),
        phase: RunPhase::Failed,
        active: false,
        version: Version(run.events.len() as u64),
        created: store(created),
        ended: Some(store(8_000)),
        archived: None,
        redrives: None,
        tasks: 0,
        letters: 1,
        key: run.key.clone(),
        code: Some("503".to_owned()),
        fields: [("n".to_owned(), "7".to_owned())].into(),
    }
}

fn letter(run: RunId) -> LetterHead {
    LetterHead {
        id: LetterId { run, task: task(0, 0) },
        workflow: "w".to_owned(),
        action: "do_a".to_owned(),
        code: "503".to_owned(),
        message: String::new(),
        at: store(0),
        redrives: None,
        status: LetterStatus::Waiting,
    }
}

fn judged(change: impl Fn(&mut Listing)) -> Report {
    let (mut script, mut listing) = listed();
    change(&mut listing);
    script.world.rot = true; // Bodies of letters, which nothing here reads, may be missing.
    script.world.interventions.listed = Some(Ok(listing));
    judge(&script.world)
}

#[test]
fn x20_lists_of_what_there_is_pass() {
    healthy(&judged(|_| {}));
}

#[test]
fn x20_a_run_that_is_listed_twice_or_not_or_out_of_order_is_found() {
    found(&judged(|listing| drop(listing.runs[0].1.pop())), LISTED_OTHERWISE);
    found(&judged(|listing| listing.runs[0].1.reverse()), LISTED_OTHERWISE);
    found(&judged(|listing| listing.heads.reverse()), LISTED_OTHERWISE);
    found(&judged(|listing| listing.damaged = 1), LISTED_OTHERWISE);
    let twice = |listing: &mut Listing| {
        let again = listing.runs[0].1[1].clone();
        listing.runs[0].1.push(again);
    };
    found(&judged(twice), LISTED_OTHERWISE);
    // Nothing is what this filter asks for.
    found(&judged(|listing| listing.runs[3].1 = listing.runs[1].1.clone()), LISTED_OTHERWISE);
}

#[test]
fn x20_a_run_that_is_listed_as_another_is_found() {
    let changes: [fn(&mut RunHead); 11] = [
        |head| head.phase = RunPhase::Completed,
        |head| head.active = true,
        |head| head.version = Version(1),
        |head| head.ended = None,
        |head| head.redrives = Some(letter(head.run).id),
        |head| head.tasks = 1,
        |head| head.letters = 0,
        |head| head.key = None,
        |head| head.code = Some("500".to_owned()),
        |head| head.fields = Default::default(),
        |head| head.workflow = "v".to_owned(),
    ];
    for change in changes {
        found(&judged(|listing| change(&mut listing.runs[0].1[0])), WRONG_HEAD);
    }
}

#[test]
fn x20_letters_that_are_listed_otherwise_are_found() {
    found(&judged(|listing| drop(listing.letters[0].1.pop())), LETTERS_LISTED_OTHERWISE);
    found(&judged(|listing| listing.letters[0].1.reverse()), LETTERS_LISTED_OTHERWISE);
    let discarded = |listing: &mut Listing| {
        listing.letters[0].1[0].status = LetterStatus::Discarded { reason: "old".to_owned() };
    };
    found(&judged(discarded), LETTERS_LISTED_OTHERWISE);
}

#[test]
fn x20_wrong_counts_are_found() {
    found(&judged(|listing| listing.tally.letters = 1), WRONG_TALLY);
    found(&judged(|listing| listing.tally.phases.clear()), WRONG_TALLY);
}

/// A12: somebody archived it while it was deactivated, and then it was activated.
#[test]
fn a12_a_run_that_stays_archived_is_found() {
    let archived = |at: u64| {
        let (mut script, mut listing) = listed();
        script.world.rot = true;
        let run = script.run_mut();
        let mut activated = run.events[1].clone();
        (activated.at, activated.event) = (store(3_000), Event::RunActivated);
        run.events.insert(2, activated);
        let (id, version) = (run.id, Version(run.events.len() as u64));
        let heads = listing.runs.iter_mut().flat_map(|(_, heads)| heads).chain(&mut listing.heads);
        for head in heads.filter(|head| head.run == id) {
            (head.archived, head.version) = (Some(store(at)), version);
        }
        script.world.interventions.listed = Some(Ok(listing));
        judge(&script.world)
    };
    healthy(&archived(4_000));
    found(&archived(2_000), STAYED_ARCHIVED);
}

#[test]
fn x9_a_store_that_is_opened_again_lists_the_same() {
    let reopened = |again: Result<Listing, String>| {
        let (mut script, listing) = listed();
        script.world.rot = true;
        script.world.interventions.listed = Some(Ok(listing));
        script.world.interventions.reopened = Some(again);
        judge(&script.world)
    };
    let (_, listing) = listed();
    healthy(&reopened(Ok(listing.clone())));
    found(&reopened(Err("it does not open".to_owned())), NOT_LISTED);
    let mut fewer = listing;
    fewer.heads.pop();
    found(&reopened(Ok(fewer)), LISTED_OTHERWISE);
}
