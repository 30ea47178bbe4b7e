use std::num::NonZeroU32;
use std::sync::Arc;

use retrial::guard::{Alert, ErrorBudget, GuardRules};
use retrial::policy::{ActionKind, Origin, Share};
use retrial::run::{Event, Outcome, Recorded, RunId};
use retrial::time::Nanos;
use retrial::workflow::{Action, Target, Webhook, WorkflowParts};
use retrial_sim::unstable::evidence::{Evidence, ObservedEvent, RunEvidence};
use retrial_sim::unstable::oracle::durability::judge;
use retrial_sim::unstable::oracle::error_budget::{
    ALERT_MISCOUNTED, ALERT_TWICE, ALERT_UNREACHED, ALERT_UNTOLD, ALERT_WITHOUT_FAILURE,
    ALERTS_OTHERWISE, WEBHOOK_LOST, WEBHOOK_UNASKED, WEBHOOK_WRONG,
};
use retrial_sim::unstable::scenario::Reply;
use serde_json::{Map, json};

use crate::kit::{
    Script, at, found, healthy, policy, server_error, status, step, store, task, workflow,
};

const WEBHOOK: u64 = 7;

fn webhook() -> Webhook {
    let action = Action {
        kind: ActionKind::AgentCall,
        target: Target::Registered,
        idempotent: None,
        inner_attempts: None,
        webhook: None,
        guard: GuardRules::default(),
        heartbeat_timeout: None,
    };
    Webhook::new("notify", action, ActionKind::AgentCall.built_in(), Origin::BuiltIn)
}

/// A step whose action may fail half the time; an alert for all of it is raised from two calls on.
fn parts(told: bool, window: Nanos) -> WorkflowParts {
    let mut parts = workflow(vec![step("a", policy(9))]);
    let half = Share::from_millionths(500_000).unwrap();
    let two = NonZeroU32::new(2).unwrap();
    let error_budget = ErrorBudget::new(half, window, two, [1_000_000]).ok();
    let action = parts.actions.get_mut("do_a").unwrap();
    action.guard = GuardRules { error_budget, ..GuardRules::default() };
    action.webhook = told.then(webhook);
    parts
}

fn alert(failures: u64, calls: u64) -> Alert {
    let burnt = failures * 2_000_000 / calls;
    Alert { threshold: 1_000_000, burnt, failures, calls }
}

fn id() -> RunId {
    RunId::from_random(WEBHOOK, WEBHOOK)
}

/// Attempts of the one task: `b` fails, `B` fails and raises an alert, `w` succeeds and is the
/// last. The window is an hour.
fn lived(attempts: &str, told: bool) -> Script {
    lived_in(Nanos::from_secs(3_600), attempts, told)
}

/// The same with another window, which is empty after a dot.
fn lived_in(window: Nanos, attempts: &str, told: bool) -> Script {
    let mut script = Script::new(parts(told, window));
    let it = task(0, 0);
    script.enter(0, 1);
    let (mut attempt, mut failures) = (0, 0);
    for c in attempts.chars() {
        if c == '.' {
            script.pass(window.as_millis());
            failures = 0;
            continue;
        }
        attempt += 1;
        if c == 'w' {
            script.start(it, attempt, Reply::SuccessTrue).succeed(it, attempt);
            script.step_succeeded(0).end(Outcome::Completed);
            break;
        }
        failures += 1;
        script.start(it, attempt, status(503));
        if c == 'B' {
            let alert = alert(failures, failures);
            let webhook = told.then(id);
            script.event(Event::ErrorBudgetBurnt { task: it, attempt, alert, webhook });
        }
        script.retry(it, attempt, &server_error());
    }
    script
}

/// The run that delivers `alert` to the webhook.
fn telling(world: &mut Evidence, alert: Alert) {
    let of = world.runs[0].id.to_string();
    let workflow = Arc::new(webhook().workflow("do_a").unwrap());
    let input = json!({
        "action": "do_a", "threshold": 1, "burnt": 2, "failures": alert.failures,
        "calls": alert.calls, "run": of,
    });
    let input: Map<_, _> = input.as_object().cloned().unwrap();
    let mut run = RunEvidence::new(id(), 5, Arc::clone(&workflow), at(0));
    let recorded =
        Recorded { at: store(300), event: Event::RunCreated { seed: 5, workflow, input } };
    let (node, number) = ("n0".to_owned(), run.version);
    let told = ObservedEvent { node, incarnation: 0, at: at(300), run: id(), number, recorded };
    run.events.push(told.recorded.clone());
    (run.version, run.is_webhook) = (number.after(1), true);
    world.observed.push(told);
    world.runs.push(run);
}

fn whole() -> Script {
    let mut script = lived("bBbw", true);
    telling(&mut script.world, alert(2, 2));
    script
}

/// Changes the kept events, and the reported ones with them.
fn altered(script: Script, mut change: impl FnMut(&mut Event)) -> Evidence {
    let mut world = script.world;
    world.runs.iter_mut().flat_map(|r| &mut r.events).for_each(|r| change(&mut r.event));
    world.observed.iter_mut().for_each(|told| change(&mut told.recorded.event));
    world
}

fn with_alert(script: Script, change: impl Fn(&mut Alert)) -> Evidence {
    altered(script, |event| {
        if let Event::ErrorBudgetBurnt { alert, .. } = event {
            change(alert);
        }
    })
}

#[test]
fn c18_alerts_that_are_told_where_they_are_raised_pass() {
    let report = judge(&whole().world);
    healthy(&report);
    let met = |feature| report.features.get(feature).copied();
    assert_eq!((met("alert"), met("alerts foretold"), met("webhook")), (Some(1), Some(1), Some(1)));
    healthy(&judge(&lived("bBw", false).world));
    healthy(&judge(&lived("w", true).world));
}

#[test]
fn c18_an_alert_is_raised_anew_after_its_window_was_empty() {
    let window = Nanos::from_secs(10);
    let judged = |attempts| judge(&lived_in(window, attempts, false).world);
    healthy(&judged("bBb.bBw"));
    found(&judged("bBb.bbw"), ALERTS_OTHERWISE);
    found(&judged("bbb.bBw"), ALERTS_OTHERWISE);
    // Where it is not known when they landed, nobody knows what was in the window.
    let mut script = lived_in(window, "bBb.bbw", false);
    script.world.answers.clear();
    healthy(&judge(&script.world));
}

#[test]
fn c18_an_alert_that_is_not_told_is_found() {
    let report = judge(&lived("bbw", false).world);
    found(&report, ALERT_UNTOLD);
    found(&report, ALERTS_OTHERWISE);
}

#[test]
fn c18_an_alert_that_is_told_too_late_or_twice_is_found() {
    found(&judge(&lived("bbBw", false).world), ALERTS_OTHERWISE);
    let twice = judge(&lived("bBBw", false).world);
    found(&twice, ALERTS_OTHERWISE);
    found(&twice, ALERT_TWICE);
}

#[test]
fn c18_an_alert_of_its_own_making_is_found() {
    found(&judge(&with_alert(lived("bBw", false), |a| a.threshold = 900_000)), ALERT_UNREACHED);
    found(&judge(&with_alert(lived("bBw", false), |a| a.burnt += 1)), ALERT_UNREACHED);
    found(&judge(&with_alert(lived("bBw", false), |a| *a = alert(1, 1))), ALERT_UNREACHED);
    found(&judge(&with_alert(lived("bBw", false), |a| *a = alert(4, 4))), ALERT_MISCOUNTED);
    found(&judge(&with_alert(lived("bBw", false), |a| *a = alert(2, 3))), ALERTS_OTHERWISE);
}

#[test]
fn c18_an_alert_without_its_failure_is_found() {
    let world = altered(lived("bBw", false), |event| {
        if let Event::ErrorBudgetBurnt { attempt, .. } = event {
            *attempt = 1;
        }
    });
    found(&judge(&world), ALERT_WITHOUT_FAILURE);
}

#[test]
fn c18_a_webhook_without_its_run_is_found() {
    found(&judge(&lived("bBw", true).world), WEBHOOK_LOST);
    let world = altered(lived("bBw", true), |event| {
        if let Event::ErrorBudgetBurnt { webhook, .. } = event {
            *webhook = None;
        }
    });
    found(&judge(&world), WEBHOOK_LOST);
}

#[test]
fn c18_a_webhook_that_is_told_otherwise_is_found() {
    let mut script = lived("bBw", true);
    telling(&mut script.world, alert(3, 3));
    found(&judge(&script.world), WEBHOOK_WRONG);
}

#[test]
fn c18_a_run_that_nobody_asked_for_is_found() {
    let mut script = lived("bBw", false);
    telling(&mut script.world, alert(2, 2));
    found(&judge(&script.world), WEBHOOK_UNASKED);
}
