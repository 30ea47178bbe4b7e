use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome, TaskTime};
use retrial::workflow::StepIx;
use retrial_sim::unstable::evidence::ByHand;
use retrial_sim::unstable::oracle::Report;
use retrial_sim::unstable::oracle::by_hand::{FAILED_UNASKED, NOT_FAILED};
use retrial_sim::unstable::oracle::interventions::judge;
use retrial_sim::unstable::scenario::Reply;

use crate::kit::{Script, found, healthy, policy, server_error, status, step, task, workflow};

/// A task that waits for its retry, and a command that the history has.
fn waits(command: Option<Option<u32>>) -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
    if let Some(item) = command {
        script.event(Event::FailRequested { step: StepIx(0), item, reason: "enough".to_owned() });
    }
    script
}

/// A user asked for it, and was told so.
fn asked(mut script: Script, item: Option<u32>, is_done: bool) -> Report {
    let (run, step) = (script.run().id, "a".to_owned());
    script.world.interventions.by_hand.push(ByHand { run, step, item, is_done });
    judge(&script.world)
}

fn failed(mut script: Script) -> Script {
    let (it, reason, spent) = (task(0, 0), GiveUp::ByHand, TaskTime::default());
    let error = script.context(it, 1, &server_error());
    let end = error.clone();
    script.event(Event::TaskFailed { task: it, attempts: 1, reason, error, spent });
    script.step_failed(0, end.clone()).end(Outcome::Failed { error: end });
    script
}

fn has(report: &Report, reason: &str) -> bool {
    report.findings.iter().any(|finding| finding.reason == reason)
}

#[test]
fn w13_what_is_failed_by_hand_was_asked_for() {
    for item in [None, Some(0)] {
        let report = asked(failed(waits(Some(item))), item, true);
        assert!(!has(&report, FAILED_UNASKED) && !has(&report, NOT_FAILED), "{report:?}");
    }
    found(&judge(&failed(waits(Some(None))).world), FAILED_UNASKED);
    found(&asked(failed(waits(Some(None))), Some(0), false), FAILED_UNASKED);
    found(&asked(failed(waits(Some(Some(1)))), Some(1), false), FAILED_UNASKED);
    found(&asked(failed(waits(None)), None, false), FAILED_UNASKED);
}

#[test]
fn w13_what_waits_and_is_meant_fails() {
    let it = task(0, 0);
    let goes_on = |mut script: Script| {
        script.start(it, 2, Reply::SuccessTrue).succeed(it, 2);
        script.step_succeeded(0).end(Outcome::Completed);
        script
    };
    found(&asked(goes_on(waits(Some(None))), None, true), NOT_FAILED);
    found(&asked(goes_on(waits(Some(Some(0)))), Some(0), true), NOT_FAILED);
    healthy(&asked(goes_on(waits(Some(Some(1)))), Some(1), true));
    // Who was told that something failed is in the history.
    found(&asked(goes_on(waits(None)), None, true), NOT_FAILED);
    healthy(&asked(goes_on(waits(None)), None, false));
}
