use bytes::Bytes;
use retrial::failure::{Class, Failure, NetworkFault};
use retrial::run::{Cost, Event, Recorded};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::oracle::classes::{WRONG_CLASS, WRONG_LINEAGE};
use retrial_sim::unstable::oracle::functions::COST_MISCOUNTED;
use retrial_sim::unstable::oracle::isolation::{
    BODY_CHANGED, FAILURE_FROM_NOWHERE, FAILURE_NOT_ITS_OWN, OUTCOME_BEFORE_ANSWER,
    RECEIPT_MISMATCH, SUCCESS_NOT_ITS_OWN, WRONG_ENDPOINT, WRONG_TIMEOUT_HEADER, judge,
};
use retrial_sim::unstable::scenario::Reply;
use serde_json::json;

use crate::kit::{
    Script, exhausted, fanned, found, healthy, ms, policy, recovered, status, step, task, workflow,
};

#[test]
fn c10_what_follows_from_its_own_answers_passes() {
    healthy(&judge(&recovered().world));
    healthy(&judge(&exhausted().world));
    healthy(&judge(&fanned().world));
}

#[test]
fn a_siblings_failure_is_found() {
    // The failure of item 0 is written down for item 1.
    let script = fanned().alter(|r| {
        if let Event::AttemptFailed { task: t, .. } = &mut r.event {
            *t = task(0, 1);
        }
    });
    found(&judge(&script.world), FAILURE_NOT_ITS_OWN);
}

#[test]
fn a_siblings_success_is_found() {
    let mut script = fanned();
    script.world.ledger[1].reply = status(500);
    found(&judge(&script.world), SUCCESS_NOT_ITS_OWN);
}

#[test]
fn an_outcome_that_was_told_before_its_own_answer_is_found() {
    // The third attempt's success, and the first one's failure, are reported while its request is
    // still open.
    for place in [2, 0] {
        let mut script = recovered();
        let answered = script.world.ledger[place].answered_at.unwrap();
        script.world.ledger[place].answered_at = Some(answered.after(ms(1)));
        found(&judge(&script.world), OUTCOME_BEFORE_ANSWER);
        script.world.clock.slack = ms(1);
        healthy(&judge(&script.world));
    }
}

#[test]
fn h17_a_cost_that_no_answer_named_is_found() {
    let cost = |named: u64, told: &[(u32, u64)]| {
        let mut script = recovered();
        for arrival in &mut script.world.ledger {
            arrival.cost = Some(named);
        }
        let events = &mut script.run_mut().events;
        for (attempt, cost) in told {
            let (task, attempt, cost) = (task(0, 0), *attempt, Cost::from_millionths(*cost));
            let event = Event::CostReported { task, attempt, cost };
            events.push(Recorded { at: events[0].at, event });
        }
        judge(&script.world)
    };
    healthy(&cost(0, &[]));
    healthy(&cost(7, &[(1, 7), (2, 7), (3, 7)]));
    found(&cost(7, &[(2, 7), (3, 7)]), COST_MISCOUNTED);
    found(&cost(7, &[(1, 7), (2, 14), (3, 7)]), COST_MISCOUNTED);
    found(&cost(0, &[(1, 7)]), COST_MISCOUNTED);
}

#[test]
fn another_status_than_was_answered_is_found() {
    let mut script = recovered();
    script.world.ledger[0].reply = status(500);
    found(&judge(&script.world), FAILURE_NOT_ITS_OWN);
}

/// One attempt that meets `reply` and fails with `failure`.
fn once(reply: Reply, failure: &Failure) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    script.start(task(0, 0), 1, reply).retry(task(0, 0), 1, failure);
    script
}

#[test]
fn decision_17_every_answer_has_its_code() {
    let value = Failure::exception("ValueError", "no", &[]);
    let exception =
        Reply::Exception { kind: "ValueError".to_owned(), message: "no".to_owned(), mro: vec![] };
    healthy(&judge(&once(exception, &value).world));
    let object = Reply::Ok(json!({"type": "ValueError", "message": "no"}));
    healthy(&judge(&once(object, &value).world));
    healthy(&judge(&once(Reply::SuccessFalse, &Failure::work_failed("no")).world));
    healthy(&judge(&once(Reply::Malformed, &Failure::bad_response("no")).world));
    let cut = Failure::network(NetworkFault::Cut, "cut");
    healthy(&judge(&once(Reply::Truncated, &cut).world));
    // A4: success, whatever else the body says.
    let misleading = json!({"success": true, "type": "ValueError", "message": "no"});
    found(&judge(&once(Reply::Ok(misleading), &value).world), FAILURE_NOT_ITS_OWN);
}

#[test]
fn a_failure_that_nothing_caused_is_found() {
    let network = Failure::network(NetworkFault::Reset, "reset");
    let mut script = once(Reply::SuccessTrue, &network);
    found(&judge(&script.world), FAILURE_FROM_NOWHERE);
    script.strike(FaultKind::Reset);
    healthy(&judge(&script.world));
    let mut script = once(Reply::SuccessTrue, &Failure::lease_lost());
    found(&judge(&script.world), FAILURE_FROM_NOWHERE);
    script.strike(FaultKind::Crash);
    healthy(&judge(&script.world));
    let timeout = Failure::timed_out("too long");
    found(&judge(&once(Reply::Hang, &timeout).world), FAILURE_FROM_NOWHERE);
}

#[test]
fn a14_another_idempotency_key_is_found() {
    let mut script = recovered();
    script.world.ledger[1].idempotency_key = Some("another".to_owned());
    found(&judge(&script.world), RECEIPT_MISMATCH);
}

#[test]
fn arguments_that_change_between_attempts_are_found() {
    let mut script = recovered();
    script.world.ledger[1].body = Bytes::from_static(b"{\"n\":2}");
    found(&judge(&script.world), BODY_CHANGED);
}

#[test]
fn a_request_at_another_steps_endpoint_is_found() {
    let mut script = recovered();
    script.world.ledger[0].path = "/b".to_owned();
    found(&judge(&script.world), WRONG_ENDPOINT);
}

#[test]
fn w15_a_wrong_timeout_header_is_found() {
    let mut script = recovered();
    script.world.ledger[0].retry_timeout_ms = Some(0);
    found(&judge(&script.world), WRONG_TIMEOUT_HEADER);
}

// Spec decision 17, H4, W7.
#[test]
fn decision_17_a_failure_of_another_class_or_type_is_found() {
    let mro = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<String>>();
    let reply = |kind: &str, names: &[&str]| Reply::Exception {
        kind: kind.to_owned(),
        message: "no".to_owned(),
        mro: mro(names),
    };
    let timed_out = ["ReadTimeout", "TimeoutError", "OSError"];
    let right = [
        (status(503), Failure::http(503, "no")),
        (status(404), Failure::http(404, "no")),
        (status(429), Failure::http(429, "no")),
        (
            reply("ReadTimeout", &timed_out),
            Failure::exception("ReadTimeout", "no", &mro(&timed_out)),
        ),
        (reply("ValueError", &[]), Failure::exception("ValueError", "no", &[])),
        (Reply::SuccessFalse, Failure::work_failed("no")),
    ];
    for (reply, failure) in &right {
        healthy(&judge(&once(reply.clone(), failure).world));
    }
    // The other class, with the same types.
    for (reply, failure) in &right {
        let types = failure.lineage().to_vec();
        let other = Failure::new(failure.code().as_str(), "no").with_lineage(types);
        let other = if failure.class() == Class::Permanent { other.retryable() } else { other };
        found(&judge(&once(reply.clone(), &other).world), WRONG_CLASS);
    }
    // The same class, without its types.
    for (reply, failure) in right.iter().filter(|(_, f)| f.code().as_str() != "WORK_FAILED") {
        let bare = Failure::new(failure.code().as_str(), "no").with_lineage(["Nothing"]);
        let bare = if failure.class() == Class::Retryable { bare.retryable() } else { bare };
        found(&judge(&once(reply.clone(), &bare).world), WRONG_LINEAGE);
    }
}
