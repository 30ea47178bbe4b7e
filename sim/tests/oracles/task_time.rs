use retrial::run::Event;
use retrial::time::Nanos;
use retrial_sim::unstable::oracle::sequence::{WRONG_TIMEOUT, judge};
use retrial_sim::unstable::oracle::task_time::{WRONG_SPENT, WRONG_TOOK};
use retrial_sim::unstable::scenario::Reply;

use crate::kit::{Script, exhausted, found, healthy, ms, policy, recovered, step, task, workflow};

#[test]
fn c15_a_wrong_length_of_an_attempt_is_found() {
    let script = recovered().alter(|r| {
        if let Event::AttemptFailed { attempt: 2, took, .. } = &mut r.event {
            *took = took.saturating_add(Nanos::new(1));
        }
    });
    found(&judge(&script.world), WRONG_TOOK);
}

#[test]
fn c15_time_told_in_the_wrong_place_is_found() {
    let script = recovered().alter(|r| {
        if let Event::TaskSucceeded { spent, .. } = &mut r.event {
            (spent.failing, spent.waiting) = (spent.waiting, spent.failing);
        }
    });
    found(&judge(&script.world), WRONG_SPENT);
    let script = exhausted().alter(|r| {
        if let Event::TaskFailed { spent, .. } = &mut r.event {
            spent.waiting = Nanos::ZERO;
        }
    });
    found(&judge(&script.world), WRONG_SPENT);
}

#[test]
fn x15_an_attempt_without_a_timeout_gets_the_default() {
    let given = |default: u64, own: u64| {
        let mut script = Script::new(workflow(vec![step("a", policy(3))]));
        script.start(task(0, 0), 1, Reply::SuccessTrue);
        script.world.attempt_timeout = Some(ms(default));
        let script = script.alter(|r| {
            if let Event::AttemptStarted { timeout, .. } = &mut r.event {
                *timeout = Some(ms(own));
            }
        });
        judge(&script.world)
    };
    healthy(&given(700, 700));
    found(&given(700, 701), WRONG_TIMEOUT);
    let mut forgotten = Script::new(workflow(vec![step("a", policy(3))]));
    forgotten.start(task(0, 0), 1, Reply::SuccessTrue);
    forgotten.world.attempt_timeout = Some(ms(700));
    found(&judge(&forgotten.world), WRONG_TIMEOUT);
    // A timeout of its own comes before it.
    let mut own = policy(3);
    own.attempt_timeout = Some(ms(250));
    let mut own = Script::new(workflow(vec![step("a", own)]));
    own.start(task(0, 0), 1, Reply::SuccessTrue);
    own.world.attempt_timeout = Some(ms(50));
    healthy(&judge(&own.world));
}
