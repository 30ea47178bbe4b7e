use retrial::run::Event;
use retrial::time::Nanos;
use retrial_sim::unstable::oracle::sequence::judge;
use retrial_sim::unstable::oracle::task_time::{WRONG_SPENT, WRONG_TOOK};

use crate::kit::{exhausted, found, recovered};

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
