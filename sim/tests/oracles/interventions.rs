use std::sync::Arc;

use bytes::Bytes;
use retrial::policy::GiveUp;
use retrial::run::{Event, Letter, LetterId, Outcome, RunId};
use retrial::store::{LetterHead, LetterStatus, Prune, RunHead, RunPhase};
use retrial::time::Nanos;
use retrial_sim::unstable::evidence::{Pruning, RedriveAnswer, RunEvidence};
use retrial_sim::unstable::oracle::exhaustion;
use retrial_sim::unstable::oracle::interventions::{
    ARRIVED_WHILE_PAUSED, LETTER_LOST, LETTER_UNEARNED, NOT_CANCELLED, PRUNED_TOO_LITTLE,
    PRUNED_TOO_MUCH, REDRIVEN_OTHERWISE, REDRIVEN_TWICE, STARTED_WHILE_PAUSED, WRONG_LETTER,
    WRONG_PAYLOAD, WRONG_STATUS, judge,
};
use serde_json::json;

use crate::kit::{
    Script, at, exhausted, found, healthy, policy, recovered, server_error, status, step, store,
    task, workflow,
};

/// Three 503 and out, and the letter that this leaves.
fn lettered() -> Script {
    let mut script = exhausted();
    let error = script.context(task(0, 0), 3, &server_error());
    let id = LetterId { run: script.run().id, task: task(0, 0) };
    let head = LetterHead {
        id,
        workflow: "w".to_owned(),
        action: "do_a".to_owned(),
        code: "503".to_owned(),
        message: String::new(),
        at: store(script.now),
        redrives: None,
        status: LetterStatus::Waiting,
    };
    let letter = Letter {
        step: "a".to_owned(),
        action: "do_a".to_owned(),
        attempts: 3,
        reason: GiveUp::Exhausted,
        error,
        first: Some(server_error()),
        last: Some(server_error()),
        payload: Some(json!({})),
    };
    script.world.interventions.letters.push((head, Some(letter)));
    script
}

fn by() -> RunId {
    RunId::from_bytes([7; 16])
}

/// The same, redriven by a run of its own.
fn redriven() -> Script {
    let mut script = lettered();
    let (head, _) = &mut script.world.interventions.letters[0];
    head.status = LetterStatus::Redriven { run: by() };
    let id = head.id;
    let workflow = Arc::clone(&script.run().workflow);
    let run = RunEvidence::new(by(), 1, workflow, at(0));
    script.world.runs.push(RunEvidence { redrives: Some(id), ..run });
    script.world.interventions.redriven.push((id, RedriveAnswer::By(by())));
    script.world.interventions.redriven.push((id, RedriveAnswer::Before(by())));
    script
}

#[test]
fn c18_letters_as_they_should_be_pass() {
    healthy(&judge(&lettered().world));
    healthy(&judge(&redriven().world));
}

#[test]
fn c18_a_letter_too_few_or_too_many_is_found() {
    found(&judge(&exhausted().world), LETTER_LOST);
    let mut script = lettered();
    let other = script.world.interventions.letters[0].clone();
    script.world.interventions.letters.push(other);
    found(&judge(&script.world), LETTER_LOST);
    let mut script = recovered();
    script.world.interventions.letters = lettered().world.interventions.letters;
    found(&judge(&script.world), LETTER_UNEARNED);
}

#[test]
fn c18_a_letter_that_says_something_else_is_found() {
    let changes: [fn(&mut LetterHead, &mut Letter); 6] = [
        |_, letter| letter.attempts = 2,
        |_, letter| letter.reason = GiveUp::NotRetryable,
        |_, letter| letter.first = None,
        |_, letter| letter.last = None,
        |head, _| head.code = "500".to_owned(),
        |head, _| head.redrives = Some(head.id),
    ];
    for change in changes {
        let mut script = lettered();
        let (head, letter) = &mut script.world.interventions.letters[0];
        change(head, letter.as_mut().unwrap());
        found(&judge(&script.world), WRONG_LETTER);
    }
}

#[test]
fn c18_a_payload_that_was_not_sent_is_found() {
    let mut script = lettered();
    script.world.ledger.truncate(1);
    script.world.ledger[0].body = Bytes::from_static(b"{\"card\":1}");
    found(&judge(&script.world), WRONG_PAYLOAD);
}

#[test]
fn c18_redriving_twice_is_found() {
    let mut script = redriven();
    let again = script.world.runs[1].clone();
    script.world.runs.push(RunEvidence { id: RunId::from_bytes([8; 16]), ..again });
    found(&judge(&script.world), REDRIVEN_TWICE);
    let mut script = redriven();
    let answer = script.world.interventions.redriven[0];
    script.world.interventions.redriven.push(answer);
    found(&judge(&script.world), REDRIVEN_TWICE);
}

#[test]
fn c18_a_status_that_does_not_fit_is_found() {
    let mut script = redriven();
    script.world.interventions.letters[0].0.status = LetterStatus::Waiting;
    found(&judge(&script.world), WRONG_STATUS);
    let mut script = redriven();
    script.world.interventions.redriven[1].1 = RedriveAnswer::Before(RunId::from_bytes([9; 16]));
    found(&judge(&script.world), WRONG_STATUS);
    let mut script = lettered();
    let id = script.world.interventions.letters[0].0.id;
    script.world.interventions.discarded.push(id);
    found(&judge(&script.world), WRONG_STATUS);
}

#[test]
fn c18_redriving_something_else_is_found() {
    let mut script = redriven();
    let other = workflow(vec![step("a", policy(9))]);
    script.world.runs[1].workflow = Arc::new(other.try_into().unwrap());
    found(&judge(&script.world), REDRIVEN_OTHERWISE);
    // The redriven step would not be held to what the first one ensured.
    let mut script = redriven();
    let mut ensured = workflow(vec![step("a", policy(3))]);
    let condition = json!({ "type": "exists", "field": "state.input" });
    ensured.steps[0].ensures = Some(serde_json::from_value(condition).unwrap());
    script.world.runs[0].workflow = Arc::new(ensured.try_into().unwrap());
    found(&judge(&script.world), REDRIVEN_OTHERWISE);
}

/// Fails, is paused and resumed while its retry waits, and succeeds.
fn held() -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
    script.event(Event::RunPaused { reason: "wait".to_owned() });
    let from = at(script.now);
    script.pass(1_000);
    let until = at(script.now);
    script.event(Event::RunResumed);
    script.start(it, 2, retrial_sim::unstable::scenario::Reply::SuccessTrue).succeed(it, 2);
    script.run_mut().pauses.push((from, until));
    script
}

#[test]
fn h17_a_pause_that_holds_passes() {
    healthy(&judge(&held().world));
}

#[test]
fn h17_a_retry_in_a_paused_run_is_found() {
    let script = held().without(|e| matches!(e, Event::RunResumed));
    found(&judge(&script.world), STARTED_WHILE_PAUSED);
    let mut script = held();
    let (from, _) = script.run().pauses[0];
    script.world.ledger[1].at = from;
    found(&judge(&script.world), ARRIVED_WHILE_PAUSED);
}

#[test]
fn h12_a_cancelled_run_that_goes_on_is_found() {
    let ended = |answered: u64| {
        let mut script = Script::new(workflow(vec![step("a", policy(3))]));
        let it = task(0, 0);
        script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
        script.run_mut().called_off = Some(at(answered));
        script
    };
    let off = || Outcome::Cancelled { reason: "enough".to_owned() };
    let mut in_time = ended(100);
    in_time.end(off());
    healthy(&judge(&in_time.world));
    let mut late = ended(99);
    late.end(off());
    found(&judge(&late.world), NOT_CANCELLED);
    found(&judge(&ended(100).world), NOT_CANCELLED);
}

#[test]
fn h17_a_waiting_task_failed_unasked_is_found() {
    let by_hand = |asked: bool| {
        let mut script = Script::new(workflow(vec![step("a", policy(3))]));
        let it = task(0, 0);
        script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
        if asked {
            let reason = "enough".to_owned();
            script.event(Event::FailRequested { step: it.step, item: None, reason });
        }
        let error = script.context(it, 1, &server_error());
        let end = error.clone();
        let (reason, spent) = (GiveUp::ByHand, retrial::run::TaskTime::default());
        script.event(Event::TaskFailed { task: it, attempts: 1, reason, error, spent });
        script.step_failed(0, end.clone()).end(Outcome::Failed { error: end });
        exhaustion::judge(&script.world)
    };
    healthy(&by_hand(true));
    found(&by_hand(false), exhaustion::GAVE_UP_EARLY);
}

fn head(n: u8, ended: u64, letters: u64) -> RunHead {
    RunHead {
        run: RunId::from_bytes([n; 16]),
        workflow: "w".to_owned(),
        digest: retrial::run::Digest::of(b""),
        phase: RunPhase::Failed,
        active: false,
        version: retrial::run::Version(9),
        created: store(0),
        ended: Some(store(ended)),
        archived: None,
        redrives: None,
        tasks: 0,
        letters,
        key: None,
        code: None,
        fields: Default::default(),
    }
}

/// The first two are old, the second's letter waits.
fn pruning() -> Pruning {
    let before = vec![head(1, 0, 0), head(2, 0, 1), head(3, 900_000, 0)];
    Pruning {
        asked: Prune {
            after: None,
            limit: 0,
            older_than: Nanos::from_secs(600),
            archived_only: false,
            with_letters: false,
        },
        at: store(1_000_000),
        until: store(1_000_100),
        gone: vec![before[0].run],
        after: before[1..].to_vec(),
        before,
        letters: Vec::new(),
        readable: Vec::new(),
    }
}

#[test]
fn x9_pruning_what_is_old_passes_and_anything_else_is_found() {
    let judged = |change: fn(&mut Pruning)| {
        let mut script = recovered();
        let mut pruning = pruning();
        change(&mut pruning);
        script.world.interventions.pruned = Some(pruning);
        judge(&script.world)
    };
    healthy(&judged(|_| {}));
    found(&judged(|p| p.after = vec![p.before[1].clone()]), PRUNED_TOO_MUCH);
    found(&judged(|p| p.after = vec![p.before[2].clone()]), PRUNED_TOO_MUCH);
    // Its end is not ten minutes ago, though its creation is.
    let early =
        |p: &mut Pruning| (p.before[0].ended, p.until) = (Some(store(400_200)), store(1_000_100));
    found(&judged(early), PRUNED_TOO_MUCH);
    found(&judged(|p| (p.after, p.gone) = (p.before.clone(), vec![])), PRUNED_TOO_LITTLE);
    found(&judged(|p| p.readable = vec![p.before[0].run]), PRUNED_TOO_LITTLE);
    found(&judged(|p| p.gone.push(p.before[1].run)), PRUNED_TOO_LITTLE);
}
