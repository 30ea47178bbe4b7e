use retrial::failure::Failure;
use retrial::run::{Event, Lapse, Token, Version};
use retrial::store::{QueueRow, QueueState};
use retrial::time::{Nanos, Timestamp};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::{
    Contradiction, EarlyEnd, FunctionEvent, LapsedLease, Shutdown, Slip, VainReservation,
};
use retrial_sim::unstable::oracle::leases::{self, RESERVED_IN_VAIN, WRONG_LAPSE};
use retrial_sim::unstable::oracle::ownership::{
    LEASE_ENDED_EARLY, LEASE_WITHOUT_START, LEFT_BEHIND, OUTCOME_WITHOUT_START,
    OVERLAPPING_ATTEMPTS, SENT_TWICE, SHUT_DOWN_TOO_SOON, STARTED_TWICE, TOKEN_REUSED,
    TWO_OUTCOMES, judge,
};

use crate::functions::did;
use crate::kit::{
    Script, at, exhausted, fanned, found, healthy, policy, recovered, status, step, store, task,
    workflow,
};

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

/// The token of the first attempt.
fn first_token(script: &Script) -> Token {
    let token = script.run().events.iter().find_map(|r| match r.event {
        Event::AttemptStarted { token, .. } => Some(token),
        _ => None,
    });
    token.unwrap()
}

/// The first attempt's lease, which held until 9 s, is ended by another node at 5 s.
fn ended_early(died: Option<u64>) -> Script {
    let mut script = recovered();
    let (run, token) = (script.run().id, first_token(&script));
    script.world.leases.started.insert((run, token), ("n0".to_owned(), 0));
    script.world.lifespans[0].died = died.map(at);
    script.world.leases.early_ends.push(EarlyEnd {
        run,
        task: task(0, 0),
        token,
        at: store(5_000),
        until: store(9_000),
        seen: at(5_000),
    });
    script
}

#[test]
fn r6_a_renewed_lease_that_another_node_ends_is_found() {
    healthy(&judge(&ended_early(Some(4_000)).world));
    found(&judge(&ended_early(None).world), LEASE_ENDED_EARLY);
    found(&judge(&ended_early(Some(6_000)).world), LEASE_ENDED_EARLY);
}

#[test]
fn what_the_store_contradicts_is_found() {
    for slip in [Slip::LandedUnheld, Slip::LapseUntold, Slip::AnotherAnswer] {
        let mut script = recovered();
        script.world.leases.compared = 1;
        let (place, at) = (Some((script.run().id, task(0, 0))), store(5));
        script.world.leases.contradictions.push(Contradiction { place, at, slip });
        found(&judge(&script.world), leases::reason(slip));
    }
}

/// C3: a task that a node reserved, while nothing else happened, and let wait.
#[test]
fn a_reservation_without_use_is_found() {
    let script = recovered();
    let of = |which: &dyn Fn(&Event) -> bool| {
        script.run().events.iter().rev().find(|r| which(&r.event)).map(|r| r.at).unwrap()
    };
    let retry = of(&|e| matches!(e, Event::RetryScheduled { .. }));
    let start = of(&|e| matches!(e, Event::AttemptStarted { .. }));
    let before = |at: Timestamp| Timestamp::from_nanos(at.as_nanos() - 1);
    let reserved = |from, until, strike: Option<FaultKind>| {
        let mut script = recovered();
        let run = script.run().id;
        let reservation = VainReservation { run, task: task(0, 0), from, until };
        script.world.leases.in_vain.push(reservation);
        strike.into_iter().for_each(|kind| _ = script.strike(kind));
        judge(&script.world)
    };
    found(&reserved(retry, before(start), None), RESERVED_IN_VAIN);
    // It was not to be started yet, or something may have come between, or made its node late.
    healthy(&reserved(before(retry), before(start), None));
    healthy(&reserved(retry, start, None));
    healthy(&reserved(retry, before(start), Some(FaultKind::SlowSync)));
}

#[test]
fn r10_a_lapse_called_otherwise_is_found() {
    let told_before = |lapse: Lapse, told: &[Lapse], failure: Failure| {
        let mut script = Script::new(workflow(vec![step("a", policy(9))]));
        let it = task(0, 0);
        script.enter(0, 1).start(it, 1, status(503)).pass(9_000).retry(it, 1, &failure);
        let (run, token) = (script.run().id, first_token(&script));
        script.world.leases.lapsed.push(LapsedLease { run, task: it, token, lapse });
        script.world.leases.told.extend(told.iter().map(|told| (run, token, *told)));
        judge(&script.world)
    };
    let lapsed = |lapse, failure| told_before(lapse, &[], failure);
    let timeout = || Failure::new("TIMEOUT", "too long");
    let lost = || Failure::new("LEASE_LOST", "gone");
    healthy(&lapsed(Lapse::Deadline, timeout()));
    healthy(&lapsed(Lapse::Lease, lost()));
    found(&lapsed(Lapse::Deadline, lost()), WRONG_LAPSE);
    found(&lapsed(Lapse::Lease, timeout()), WRONG_LAPSE);
    found(&lapsed(Lapse::Heartbeat, timeout()), WRONG_LAPSE);
    // It had passed, was renewed after all, and then its attempt's time was over.
    healthy(&told_before(Lapse::Deadline, &[Lapse::Lease], lost()));
    healthy(&told_before(Lapse::Deadline, &[Lapse::Lease, Lapse::Deadline], lost()));
    found(&told_before(Lapse::Deadline, &[Lapse::Deadline], lost()), WRONG_LAPSE);
}

/// A function returns at 0 s, its node has been shut down in good order at `done` s, and its lease is
/// lost at 9 s.
fn left_behind(done: u64, code: &str) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(9))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503));
    did(&mut script, 1, &[FunctionEvent::Began(None), FunctionEvent::Returned]);
    script.pass(9_000).retry(it, 1, &Failure::new(code, "gone"));
    let mut events = script.run().events.iter();
    let place = events.position(|r| matches!(r.event, Event::AttemptFailed { .. })).unwrap();
    let run = script.run().id;
    script.world.asked.insert((run, Version(place as u64)), at(9_000));
    let mut events = script.run().events.iter();
    let begun = events.position(|r| matches!(r.event, Event::AttemptStarted { .. })).unwrap();
    script.world.asked.insert((run, Version(begun as u64)), at(0));
    let token = first_token(&script);
    script.world.leases.started.insert((run, token), ("n0".to_owned(), 0));
    script.world.shutdowns.push(shutdown(done, 0));
    script
}

fn shutdown(done: u64, unanswered: u32) -> Shutdown {
    Shutdown { node: "n0".to_owned(), incarnation: 0, at: at(done), unanswered }
}

#[test]
fn decision_12_an_outcome_that_a_shutdown_leaves_behind_is_found() {
    found(&judge(&left_behind(4_000, "LEASE_LOST").world), LEFT_BEHIND);
    healthy(&judge(&left_behind(4_000, "TIMEOUT").world));
    healthy(&judge(&left_behind(10_000, "LEASE_LOST").world));
    // Its time was over when its start landed, so nobody began it.
    let mut late = left_behind(4_000, "LEASE_LOST");
    late.run_mut().events.iter_mut().for_each(|recorded| {
        if let Event::AttemptStarted { timeout, .. } = &mut recorded.event {
            *timeout = Some(Nanos::from_secs(3));
        }
    });
    healthy(&judge(&late.world));
}

#[test]
fn decision_12_a_shutdown_that_waits_for_no_answer_is_found() {
    let shut_down = |unanswered: u32| {
        let mut script = recovered();
        script.world.shutdowns.push(shutdown(4_000, unanswered));
        judge(&script.world)
    };
    healthy(&shut_down(0));
    found(&shut_down(1), SHUT_DOWN_TOO_SOON);
}
