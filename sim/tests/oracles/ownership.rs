use retrial::run::{Event, Token};
use retrial::store::{QueueRow, QueueState};
use retrial_sim::unstable::oracle::ownership::{
    LEASE_WITHOUT_START, OUTCOME_WITHOUT_START, OVERLAPPING_ATTEMPTS, SENT_TWICE, STARTED_TWICE,
    TOKEN_REUSED, TWO_OUTCOMES, judge,
};

use crate::kit::{Script, exhausted, fanned, found, healthy, recovered, store, task};

#[test]
fn r7_one_owner_an_attempt_passes() {
    healthy(&judge(&recovered().world));
    healthy(&judge(&exhausted().world));
    healthy(&judge(&fanned().world));
}

fn started(attempt: u32) -> impl Fn(&Event) -> bool {
    move |e| matches!(e, Event::AttemptStarted { attempt: n, .. } if *n == attempt)
}

#[test]
fn an_attempt_started_by_two_nodes_is_found() {
    let mut script = recovered().twice(started(2));
    let mut fresh = 100;
    script.run_mut().events.iter_mut().for_each(|r| {
        if let Event::AttemptStarted { token, .. } = &mut r.event {
            fresh += 1;
            *token = Token::from_random(5, fresh);
        }
    });
    let report = judge(&script.world);
    found(&report, STARTED_TWICE);
    found(&report, OVERLAPPING_ATTEMPTS);
}

#[test]
fn decision_12_an_outcome_recorded_twice_is_found() {
    let script = recovered().twice(|e| matches!(e, Event::AttemptFailed { .. }));
    found(&judge(&script.world), TWO_OUTCOMES);
    let script = recovered().twice(|e| matches!(e, Event::TaskSucceeded { .. }));
    found(&judge(&script.world), TWO_OUTCOMES);
}

#[test]
fn a_stale_holders_outcome_is_found() {
    // The second attempt is in progress when the first one's holder reports.
    let script = recovered().alter(|r| {
        if let Event::TaskSucceeded { attempt, .. } = &mut r.event {
            *attempt = 4;
        }
    });
    found(&judge(&script.world), OUTCOME_WITHOUT_START);
}

#[test]
fn an_outcome_without_a_start_is_found() {
    found(&judge(&recovered().without(started(2)).world), OUTCOME_WITHOUT_START);
}

#[test]
fn a_token_used_for_two_attempts_is_found() {
    let script = recovered().alter(|r| {
        if let Event::AttemptStarted { token, .. } = &mut r.event {
            *token = Token::from_random(1, 1);
        }
    });
    found(&judge(&script.world), TOKEN_REUSED);
}

#[test]
fn a_request_sent_twice_is_found() {
    let mut script = recovered();
    let again = script.world.ledger[1].clone();
    script.world.ledger.push(again);
    found(&judge(&script.world), SENT_TWICE);
}

#[test]
fn a_lease_that_no_start_took_is_found() {
    let mut script: Script = recovered();
    let token = Token::from_random(8, 8);
    let state = QueueState::Leased { token, until: store(9), deadline: None, beat_by: None };
    script.run_mut().queue.push(QueueRow { task: task(0, 0), attempt: 3, state, progress: None });
    found(&judge(&script.world), LEASE_WITHOUT_START);
}
