use std::num::NonZeroU32;

use retrial::failure::Failure;
use retrial::guard::{Breaker, FailureRate, GuardRules, HeldBy};
use retrial::policy::Share;
use retrial::run::{Event, Recorded, TaskId, Token};
use retrial::store::{Hold, Holder};
use retrial::workflow::{Template, WorkflowParts};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::{CommitRecord, ObservedEvent, StoreAnswer};
use retrial_sim::unstable::incarnation::Lifespan;
use retrial_sim::unstable::oracle::event_refs::named;
use retrial_sim::unstable::oracle::guards::{
    HELD_BY_NOTHING, HELD_TOO_LONG, HELD_WITHOUT_NEED, HOLD_UNSAID, MORE_THAN_ITS_SHARE,
    STARTED_WHILE_OPEN, TOO_MANY_PROBES, WRONG_HOLD, judge,
};
use retrial_sim::unstable::scenario::{Places, Reply, STORE};
use serde_json::json;

use crate::kit::{
    Script, found, healthy, ms, policy, server_error, status, step, store, task, workflow,
};

pub(crate) fn many(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// Three tasks of one guarded action.
pub(crate) fn fan(guard: GuardRules) -> Script {
    let mut one = step("a", policy(9));
    one.for_each = Some(Template::try_from(json!("${input.items}")).unwrap());
    let mut parts: WorkflowParts = workflow(vec![one]);
    parts.actions.get_mut("do_a").unwrap().guard = guard;
    let mut script = Script::new(parts);
    script.enter(0, 3);
    script
}

pub(crate) fn item(n: u32) -> TaskId {
    task(0, n)
}

/// So many failures open it for a second.
fn breaker(failures: u32, probes: u32) -> GuardRules {
    let breaker = Breaker::new(Some(many(failures)), None, ms(1_000), many(probes)).ok();
    GuardRules { breaker, ..GuardRules::default() }
}

/// The store holds a start back until then.
pub(crate) fn hold(script: &mut Script, task: TaskId, attempt: u32, by: HeldBy, until: u64) {
    hold_last(script, &[task], attempt, by, until);
}

/// The store holds a commit of starts back, for the last of them.
pub(crate) fn hold_last(
    script: &mut Script,
    tasks: &[TaskId],
    attempt: u32,
    by: HeldBy,
    until: u64,
) {
    let (at, run, first) = (store(script.now), script.run().id, script.run().version);
    let token = |t: TaskId| Token::from_random(7, u64::from(attempt) + u64::from(t.item) * 100);
    let start = |&task: &TaskId| {
        let (token, timeout, retries_left) = (token(task), None, None);
        let event =
            Event::AttemptStarted { task, attempt, token, timeout, retries_left, retry: None };
        Recorded { at, event }
    };
    let events = tasks.iter().map(start).collect();
    let ask = CommitRecord { at, writer: 0, run, first, events };
    let held = tasks.last().map(|&task| Holder { run, task, token: token(task) });
    let holds = held.map(|attempt| Hold { attempt, by, until: store(until) });
    script.world.answers.push(StoreAnswer::Held(ask, holds.into_iter().collect()));
}

fn say(script: &mut Script, attempt: u32, until: u64) {
    let (task, by, until) = (item(0), HeldBy::Breaker, store(until));
    script.event(Event::TaskHeld { task, attempt, by, until });
}

/// A failure opens it at 0; held at 100 until 1,000, said so, and a success then.
fn held() -> Script {
    let mut script = fan(breaker(1, 1));
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    hold(&mut script, item(0), 2, HeldBy::Breaker, 1_000);
    say(&mut script, 2, 1_000);
    script.pass(900).start(item(0), 2, Reply::SuccessTrue).succeed(item(0), 2);
    script
}

#[test]
fn c18_what_waits_until_it_may_passes() {
    let report = judge(&held().world);
    healthy(&report);
    assert_eq!(report.features["breaker hold"], 1);
    assert_eq!(report.features["breaker probe"], 1);
}

#[test]
fn c18_an_attempt_while_the_breaker_is_open_is_found() {
    let mut script = fan(breaker(1, 1));
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    script.start(item(1), 1, Reply::SuccessTrue);
    let report = judge(&script.world);
    found(&report, STARTED_WHILE_OPEN);
    let started = script.run().events.len() - 1;
    let [proof] = named(&report.findings[0], &script.world)[..] else { panic!("{report:?}") };
    assert_eq!(proof.number.0, started as u64, "the start itself");
}

#[test]
fn c18_a_breaker_opens_at_its_failure_rate() {
    let share = Share::from_millionths(500_000).unwrap();
    let rate = FailureRate { share, window: ms(10_000), min_calls: many(2) };
    let breaker = Breaker::new(None, Some(rate), ms(1_000), many(1)).ok();
    let mut script = fan(GuardRules { breaker, ..GuardRules::default() });
    script.start(item(0), 1, Reply::SuccessTrue).succeed(item(0), 1);
    script.start(item(1), 1, status(503)).retry(item(1), 1, &server_error());
    script.start(item(1), 2, Reply::SuccessTrue);
    found(&judge(&script.world), STARTED_WHILE_OPEN);
}

#[test]
fn c18_a_second_probe_beside_the_first_is_found() {
    let mut script = held();
    script.pass(5).start(item(1), 1, status(503)).retry(item(1), 1, &server_error());
    script.pass(1_000).start(item(1), 2, Reply::SuccessTrue);
    healthy(&judge(&script.world));
    script.start(item(2), 1, Reply::SuccessTrue);
    found(&judge(&script.world), TOO_MANY_PROBES);
}

#[test]
fn c18_permanent_failures_and_lost_leases_do_not_open_it() {
    let lost = Failure::lease_lost();
    for failure in [Failure::http(404, "not here"), lost] {
        let mut script = fan(breaker(1, 1));
        script.start(item(0), 1, status(404)).retry(item(0), 1, &failure);
        script.start(item(0), 2, Reply::SuccessTrue);
        healthy(&judge(&script.world));
        hold(&mut script, item(1), 1, HeldBy::Breaker, 1_000);
        found(&judge(&script.world), HELD_WITHOUT_NEED);
    }
}

#[test]
fn c18_what_started_before_it_opened_can_not_close_it() {
    let mut script = fan(breaker(1, 1));
    script.start(item(1), 1, Reply::SuccessTrue);
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    script.succeed(item(1), 1);
    healthy(&judge(&script.world));
    script.start(item(0), 2, Reply::SuccessTrue);
    found(&judge(&script.world), STARTED_WHILE_OPEN);
}

#[test]
fn c18_a_hold_for_longer_than_it_is_open_is_found() {
    let mut script = fan(breaker(1, 1));
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    hold(&mut script, item(0), 2, HeldBy::Breaker, 1_001);
    found(&judge(&script.world), HELD_TOO_LONG);
}

#[test]
fn c18_a_hold_said_twice_is_found() {
    let script = held().twice(|e| matches!(e, Event::TaskHeld { .. }));
    found(&judge(&script.world), WRONG_HOLD);
}

#[test]
fn c18_a_hold_that_uses_an_attempt_up_is_found() {
    let script = held().alter(|r| {
        if let Event::AttemptStarted { attempt: attempt @ 2, .. } = &mut r.event {
            *attempt = 3;
        }
    });
    found(&judge(&script.world), WRONG_HOLD);
}

#[test]
fn c18_a_hold_that_nobody_said_is_found() {
    let mut script = held().without(|e| matches!(e, Event::TaskHeld { .. }));
    found(&judge(&script.world), HOLD_UNSAID);
    // Its node may not have been told.
    script.strike(FaultKind::StoreAnswerLost);
    found(&judge(&script.world), HOLD_UNSAID);
    let store = Lifespan { node: STORE.to_owned(), ..script.world.lifespans[0].clone() };
    script.world.lifespans.push(store);
    healthy(&judge(&script.world));
}

/// The node that was held may still wait for the answer to what it says when another one starts.
#[test]
fn c18_a_hold_need_not_be_said_before_another_nodes_start() {
    let mut script = held().without(|e| matches!(e, Event::TaskHeld { .. }));
    for answer in &mut script.world.answers {
        if let StoreAnswer::Landed(ask) = answer {
            let starts = |r: &Recorded| matches!(r.event, Event::AttemptStarted { attempt: 2, .. });
            ask.writer = u64::from(ask.events.iter().any(starts));
        }
    }
    healthy(&judge(&script.world));
}

#[test]
fn c18_a_hold_without_a_guard_is_found() {
    let mut script = fan(GuardRules { concurrency: Some(many(3)), ..GuardRules::default() });
    say(&mut script, 1, 1_000);
    found(&judge(&script.world), HELD_BY_NOTHING);
}

#[test]
fn c18_what_landed_unseen_is_known_from_the_history() {
    // The store began anew, and the answer that told of the failure was lost with it.
    let mut script = fan(breaker(1, 1));
    script.start(item(0), 1, status(503)).retry(item(0), 1, &server_error());
    let lost = script.world.answers.len() - 2;
    script.world.answers.truncate(lost);
    script.world.answers.push(StoreAnswer::Unsure);
    script.start(item(0), 2, Reply::SuccessTrue);
    found(&judge(&script.world), STARTED_WHILE_OPEN);
}

#[test]
fn x15_more_than_its_share_is_found() {
    let together = |places: Places, second: &str| {
        let mut script = fan(GuardRules::default());
        script.world.places = Some(places);
        script.start(item(0), 1, Reply::SuccessTrue);
        script.pass(1).start(item(1), 1, Reply::SuccessTrue);
        if second == "later" {
            script.pass(1).succeed(item(0), 1);
        }
        script.pass(1).start(item(2), 1, Reply::SuccessTrue);
        if second != "later" {
            script.pass(1).succeed(item(0), 1);
        }
        script.pass(1).succeed(item(1), 1).pass(1).succeed(item(2), 1);
        if second == "elsewhere" {
            for told in &mut script.world.observed {
                if told.recorded.event.task() == Some(item(2)) {
                    told.node = "n1".to_owned();
                }
            }
        }
        judge(&script.world)
    };
    let (half, most) = (Places { all: 4, share: 50 }, Places { all: 4, share: 75 });
    found(&together(half, "at once"), MORE_THAN_ITS_SHARE);
    healthy(&together(most, "at once"));
    healthy(&together(half, "later"));
    healthy(&together(half, "elsewhere"));
    // At least one place is an action's share.
    found(&together(Places { all: 1, share: 75 }, "later"), MORE_THAN_ITS_SHARE);
}

/// An attempt whose start is told long after it was made may end by the store's time while its node
/// has its answer already.
#[test]
fn x15_an_attempt_that_ran_out_of_time_counts_only_while_it_surely_went_on() {
    let after_a_timeout = |change: fn(&mut Script)| {
        let mut script = fan(GuardRules::default());
        script.world.places = Some(Places { all: 2, share: 50 });
        script.start(item(0), 1, Reply::Hang);
        script.world.ledger[0].ended_at = None;
        let timed = |told: &mut ObservedEvent| {
            if let Event::AttemptStarted { timeout, .. } = &mut told.recorded.event {
                *timeout = Some(ms(1_000));
            }
        };
        script.world.observed.iter_mut().for_each(timed);
        change(&mut script);
        script.pass(20).start(item(1), 1, Reply::SuccessTrue).pass(1).succeed(item(1), 1);
        if script.run().events.iter().all(|r| r.event.name() != "attempt_failed") {
            script.pass(1_000).retry(item(0), 1, &Failure::timeout(ms(1_000)));
        }
        judge(&script.world)
    };
    found(&after_a_timeout(|_| ()), MORE_THAN_ITS_SHARE);
    healthy(&after_a_timeout(|script| {
        script.world.ledger[0].ended_at = Some(script.world.ledger[0].at);
    }));
    healthy(&after_a_timeout(|script| {
        script.pass(10).retry(item(0), 1, &Failure::timeout(ms(1_000)));
        let ends = |told: &&mut ObservedEvent| told.recorded.event.name() == "attempt_failed";
        script.world.observed.iter_mut().find(ends).unwrap().node = "n1".to_owned();
        script.world.ledger[0].ended_at = None;
    }));
}
