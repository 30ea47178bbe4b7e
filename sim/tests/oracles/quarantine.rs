//! X14: what the oracle says of tasks that keep losing their node.

use std::num::NonZeroU32;

use retrial::failure::Failure;
use retrial::run::Event;
use retrial_sim::unstable::oracle::interventions::judge;
use retrial_sim::unstable::oracle::quarantine::{
    NOT_QUARANTINED, QUARANTINE, QUARANTINED_EARLY, RELEASED_UNASKED, STARTED_IN_QUARANTINE,
};
use retrial_sim::unstable::scenario::Reply;

use crate::kit::{Script, found, healthy, policy, server_error, step, task, workflow};

/// Two attempts that lose their node, a quarantine, a release and a success.
fn held() -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(5))]));
    script.world.quarantine_after = NonZeroU32::new(2);
    let it = task(0, 0);
    script.enter(0, 1);
    for attempt in 1..=2 {
        script.start(it, attempt, Reply::Hang).retry(it, attempt, &Failure::lease_lost());
    }
    script.event(Event::TaskQuarantined { task: it, attempt: 3, lost: 2 });
    script.run_mut().release_asked = true;
    script.event(Event::TaskReleased { task: it, attempt: 3, reason: "mended".to_owned() });
    script.start(it, 3, Reply::SuccessTrue).succeed(it, 3).step_succeeded(0);
    script
}

fn is_quarantined(event: &Event) -> bool {
    matches!(event, Event::TaskQuarantined { .. })
}

#[test]
fn x14_a_quarantine_that_holds_passes() {
    let report = judge(&held().world);
    healthy(&report);
    assert_eq!(report.features.get(QUARANTINE), Some(&1));
}

#[test]
fn x14_a_task_that_is_not_held_is_found() {
    let bare = |e: &Event| is_quarantined(e) || matches!(e, Event::TaskReleased { .. });
    found(&judge(&held().without(bare).world), NOT_QUARANTINED);
    let mut script = held();
    script.world.quarantine_after = None;
    healthy(&judge(&held().world));
    found(&judge(&script.world), QUARANTINED_EARLY);
    script.world.quarantine_after = NonZeroU32::new(3);
    found(&judge(&script.world), QUARANTINED_EARLY);
}

/// The count begins anew with every failure that its node lived to tell.
#[test]
fn x14_a_count_over_other_failures_is_found() {
    let lost = Failure::lease_lost();
    let script = |failures: [&Failure; 2], lost: u32| {
        let mut script = Script::new(workflow(vec![step("a", policy(5))]));
        script.world.quarantine_after = NonZeroU32::new(2);
        let it = task(0, 0);
        script.enter(0, 1);
        for (failure, attempt) in failures.into_iter().zip(1..) {
            script.start(it, attempt, Reply::Hang).retry(it, attempt, failure);
        }
        script.event(Event::TaskQuarantined { task: it, attempt: 3, lost });
        judge(&script.world)
    };
    healthy(&script([&lost, &lost], 2));
    found(&script([&lost, &lost], 3), QUARANTINED_EARLY);
    found(&script([&server_error(), &lost], 2), QUARANTINED_EARLY);
    found(&script([&lost, &server_error()], 2), QUARANTINED_EARLY);
}

#[test]
fn x14_a_start_in_quarantine_and_a_release_that_nobody_asked_for_are_found() {
    let script = held().without(|e| matches!(e, Event::TaskReleased { .. }));
    found(&judge(&script.world), STARTED_IN_QUARANTINE);
    let mut script = held();
    script.run_mut().release_asked = false;
    found(&judge(&script.world), RELEASED_UNASKED);
    let script = held().twice(|e| matches!(e, Event::TaskReleased { .. }));
    found(&judge(&script.world), RELEASED_UNASKED);
}
