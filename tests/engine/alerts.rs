//! C18: alerts of error budgets are recorded exactly once, durably, in the runs that raise them,
//! and to webhooks by runs of their own.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::guard::{Alert, ErrorBudget, GuardRules};
use retrial::policy::{Backoff, Jitter, Origin, Policy, Shape, Share};
use retrial::run::{Event, Outcome, Recorded, RunId};
use retrial::store::{RunPhase, Store};
use retrial::time::Nanos;
use retrial::workflow::{Action, Target, Webhook, Workflow, WorkflowParts};
use serde_json::json;

use crate::kit::*;

pub(crate) fn action() -> Action {
    Action {
        kind: Default::default(),
        target: Target::Registered,
        idempotent: None,
        inner_attempts: None,
        heartbeat_timeout: None,
        guard: GuardRules::default(),
        webhook: None,
    }
}

/// A tenth of the attempts within a minute may fail; from five on, half and all of it raise alerts.
pub(crate) fn guard() -> GuardRules {
    let (target, five) = (Share::from_millionths(900_000).unwrap(), NonZeroU32::new(5).unwrap());
    let minute = Nanos::from_secs(60);
    let budget = ErrorBudget::new(target, minute, five, [500_000, 1_000_000]).unwrap();
    GuardRules { error_budget: Some(budget), ..GuardRules::default() }
}

pub(crate) fn eager(attempts: u32) -> Policy {
    let shape = Shape::Fixed { base: SECOND };
    let backoff = Backoff { shape, jitter: Jitter::None, cap: None };
    Policy::builder().attempts(attempts).backoff(backoff).build().unwrap()
}

pub(crate) fn notify(policy: Policy) -> Option<Webhook> {
    Some(Webhook::new("notify", action(), policy, Origin::BuiltIn))
}

/// The workflow with an error budget on its one action.
pub(crate) fn budgeted(workflow: &Arc<Workflow>, webhook: Option<Webhook>) -> Arc<Workflow> {
    let mut parts = WorkflowParts::from((**workflow).clone());
    parts.actions.insert("act".into(), Action { guard: guard(), webhook, ..action() });
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// What each item does: fails where `fails` says so. The webhook is called well.
pub(crate) fn acts(fails: impl Fn(u64) -> bool + Send + Sync + 'static) -> Acts {
    Acts::new(move |call: Call| {
        let item = call.args["item"].as_u64();
        let bad = item.is_some_and(&fails);
        async move { if bad { Err(Failure::http(503, "down")) } else { Ok(json!(1)) } }
    })
}

/// The runs of the store, and the alerts recorded in each of them.
pub(crate) async fn told(store: &impl Store) -> Vec<(RunId, Vec<Recorded>)> {
    let heads = store.heads(None, 1_000).await.unwrap().runs;
    let mut all = Vec::new();
    for head in heads {
        all.push((head.run, history(store, head.run).await));
    }
    all
}

/// The alerts among them, with the runs that tell webhooks.
pub(crate) fn alerts(told: &[(RunId, Vec<Recorded>)]) -> Vec<(RunId, Alert, Option<RunId>)> {
    let burnt = |(run, events): &(RunId, Vec<Recorded>)| {
        let of_run = events.iter().filter_map(|r| match &r.event {
            Event::ErrorBudgetBurnt { alert, webhook, .. } => Some((*run, *alert, *webhook)),
            _ => None,
        });
        of_run.collect::<Vec<_>>()
    };
    told.iter().flat_map(burnt).collect()
}

pub(crate) fn thresholds(alerts: &[(RunId, Alert, Option<RunId>)]) -> Vec<u64> {
    let mut all: Vec<u64> = alerts.iter().map(|(_, alert, _)| alert.threshold / 10_000).collect();
    all.sort_unstable();
    all
}

pub(crate) fn webhook_calls(acts: &Acts) -> Vec<Call> {
    acts.calls().into_iter().filter(|call| call.name == "notify").collect()
}

#[tokio::test(start_paused = true)]
async fn c18_an_alert_is_told_in_the_run_that_raises_it_and_to_its_webhook() {
    let store = Watched::new();
    let acts = acts(|item| item >= 9);
    let engine = start(&store, &acts, Config { concurrency: 1, ..Config::default() }).await;
    let run = submit(&engine, budgeted(&fan_out(11, eager(1)), notify(eager(3)))).await;
    soon(engine.outcome(run)).await.unwrap();
    pass(1_000).await;
    let all = told(&store).await;
    let alerts = alerts(&all);
    let all_of_it = Alert { threshold: 1_000_000, burnt: 1_000_000, failures: 1, calls: 10 };
    let half = Alert { threshold: 500_000, ..all_of_it };
    let found: Vec<_> = alerts.iter().map(|(of, alert, _)| (*of, *alert)).collect();
    assert_eq!(found, [(run, half), (run, all_of_it)]);
    // Before the failure that raised them, in its commit.
    let mine = history(&store, run).await;
    let at = names(&mine).iter().position(|name| *name == "error_budget_burnt").unwrap();
    assert_eq!(
        names(&mine)[at..at + 3],
        ["error_budget_burnt", "error_budget_burnt", "attempt_failed"]
    );
    // Each webhook is a run of its own.
    let webhooks: Vec<RunId> = alerts.iter().filter_map(|(_, _, webhook)| *webhook).collect();
    assert_eq!((webhooks.len(), all.len()), (2, 3));
    let mut calls = webhook_calls(&acts);
    calls.sort_by_key(|call| webhooks.iter().position(|run| *run == call.run));
    assert_eq!(calls.iter().map(|call| call.run).collect::<Vec<_>>(), webhooks);
    let args = json!({
        "action": "act", "threshold": 0.5, "burnt": 1, "failures": 1, "calls": 10,
        "run": run.to_string(), "workflow": "fan", "step": "each",
    });
    assert_eq!(calls[0].args, args);
    let heads = Store::heads(&store, None, 9).await.unwrap().runs;
    let of = heads.iter().find(|head| head.run == webhooks[0]).unwrap();
    assert_eq!((of.workflow.as_str(), of.phase), ("act alert", RunPhase::Completed));
}

// One store, two nodes, many failures at once: the first one records it, the others do not.
#[tokio::test(start_paused = true)]
async fn c18_nodes_that_share_a_store_tell_an_alert_once() {
    let store = Watched::new();
    let config = || Config { sole_owner: false, ..Config::default() };
    let acts = acts(|_| true);
    let other = store.beside();
    let nodes = [start(&store, &acts, config()).await, start(&other, &acts, config()).await];
    let flow = budgeted(&fan_out(20, eager(3)), notify(eager(3)));
    let mut runs = Vec::new();
    for n in 0..6 {
        runs.push(submit(&nodes[n % 2], Arc::clone(&flow)).await);
    }
    for run in runs {
        soon(nodes[0].outcome(run)).await.unwrap();
    }
    pass(5_000).await;
    let all = told(&store).await;
    assert_eq!(thresholds(&alerts(&all)), [50, 100]);
    assert_eq!((webhook_calls(&acts).len(), all.len()), (2, 8));
    // What did not tell it did not land, and what told it did so at once.
    let sent = [store.sent(), other.sent()].concat();
    assert!(sent.iter().filter(|commit| !commit.raised.is_empty()).count() >= 1);
}

// The store does what is asked and its answers are lost: the same bytes are sent until one comes.
#[tokio::test(start_paused = true)]
async fn c18_a_lost_answer_tells_nothing_twice() {
    for trouble in
        [Trouble::AnswerLost, Trouble::LandingLost, Trouble::RequestLost, Trouble::NotDone]
    {
        let store = Watched::new();
        let slow = Acts::new(|call: Call| async move {
            pass(1_000).await;
            if call.name == "notify" { Ok(json!(1)) } else { Err(Failure::http(503, "down")) }
        });
        let engine = start(&store, &slow, Config::default()).await;
        let flow = budgeted(&fan_out(8, eager(2)), notify(eager(3)));
        let run = submit(&engine, flow).await;
        pass(500).await;
        store.fail(Some(trouble));
        pass(3_000).await;
        store.fail(None);
        soon(engine.outcome(run)).await.unwrap();
        pass(5_000).await;
        let all = told(&store).await;
        assert_eq!(thresholds(&alerts(&all)), [50, 100], "{trouble:?}");
        assert_eq!((webhook_calls(&slow).len(), all.len()), (2, 3), "{trouble:?}");
    }
}

// The commit landed, and its node died without knowing.
#[tokio::test(start_paused = true)]
async fn c18_a_crash_after_the_commit_tells_nothing_twice() {
    let store = Watched::new();
    let acts = acts(|_| true);
    let other = store.beside();
    let slow = acts.beside(|_: Call| async move {
        pass(1_000).await;
        Err(Failure::http(503, "down"))
    });
    let first = start(&store, &slow, Config::default()).await;
    let run = submit(&first, budgeted(&fan_out(5, eager(2)), notify(eager(3)))).await;
    pass(500).await;
    store.fail(Some(Trouble::LandingLost));
    pass(1_000).await;
    let before = alerts(&told(store.under()).await);
    assert_eq!(thresholds(&before), [50, 100], "it landed");
    drop(first);
    let second = start(&other, &acts, Config::default()).await;
    soon(second.outcome(run)).await.unwrap();
    pass(5_000).await;
    assert_eq!(alerts(&told(&other).await), before);
    let mut called: Vec<_> = webhook_calls(&acts).iter().map(|c| Some(c.run)).collect();
    called.sort_unstable();
    let mut named: Vec<_> = before.iter().map(|(_, _, webhook)| *webhook).collect();
    named.sort_unstable();
    assert_eq!(called, named);
}

// Nothing within the window: the alert is lowered, and told when it is raised again.
#[tokio::test(start_paused = true)]
async fn c18_an_alert_that_was_lowered_is_told_again() {
    let store = Watched::new();
    let acts = acts(|_| true);
    let engine = start(&store, &acts, Config::default()).await;
    let flow = budgeted(&fan_out(6, eager(1)), notify(eager(3)));
    let mut counts = Vec::new();
    for after in [0, 10, 120, 10] {
        pass(after * 1_000).await;
        let run = submit(&engine, Arc::clone(&flow)).await;
        soon(engine.outcome(run)).await.unwrap();
        counts.push(alerts(&told(&store).await).len());
    }
    pass(1_000).await;
    assert_eq!(counts, [2, 2, 4, 4]);
    assert_eq!(webhook_calls(&acts).len(), 4);
}

// Failures that are the caller's own, and attempts that are called off, burn nothing.
#[tokio::test(start_paused = true)]
async fn c18_what_says_nothing_of_the_action_burns_nothing() {
    let store = Watched::new();
    let acts = Acts::new(|call: Call| async move {
        match call.args["item"].as_u64() {
            Some(0..20) => Err(Failure::http(404, "not here")),
            _ => std::future::pending().await,
        }
    });
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, budgeted(&fan_out(40, eager(1)), None)).await;
    pass(1_000).await;
    engine.cancel(run, "enough").await.unwrap();
    soon(engine.outcome(run)).await.unwrap();
    assert_eq!(alerts(&told(&store).await), []);
}

// Nothing is known of an attempt whose node is gone.
#[tokio::test(start_paused = true)]
async fn c18_a_lost_lease_burns_nothing() {
    let store = Watched::new();
    let config = || Config { sole_owner: false, lease: Nanos::from_secs(3), ..Config::default() };
    let hangs = Acts::new(|_: Call| std::future::pending());
    let lost = start(&store, &hangs, config()).await;
    let run = submit(&lost, budgeted(&fan_out(10, eager(1)), None)).await;
    pass(1_000).await;
    drop(lost);
    let second = start(&store, &hangs, config()).await;
    soon(second.outcome(run)).await.unwrap();
    let all = told(&store).await;
    let failed = all[0].1.iter().filter(|r| r.event.name() == "attempt_failed").count();
    assert_eq!((failed, alerts(&all)), (10, vec![]));
}

// An alert was counted for the commit that landed, not for one that others went before.
#[tokio::test(start_paused = true)]
async fn c18_an_alert_counts_what_others_wrote_first() {
    let store = Watched::new();
    let other = store.beside();
    let config = || Config { sole_owner: false, concurrency: 1, ..Config::default() };
    let fails = Acts::new(|call: Call| async move {
        if call.args["item"] == json!(4) {
            pass(1_000).await;
            return Err(Failure::http(503, "down"));
        }
        Ok(json!(1))
    });
    let works = fails.beside(|_: Call| async move {
        pass(1_200).await;
        Ok(json!(1))
    });
    let first = start(&store, &fails, config()).await;
    let run = submit(&first, budgeted(&fan_out(6, eager(1)), None)).await;
    pass(100).await;
    let _second = start(&other, &works, config()).await;
    pass(500).await;
    // What the one asks is judged before the other's success lands, and answered after that.
    store.answer_commits_late(run, Duration::from_millis(800));
    soon(first.outcome(run)).await.unwrap();
    let alert = Alert { threshold: 500_000, burnt: 1_666_666, failures: 1, calls: 6 };
    let alerts: Vec<Alert> = alerts(&told(&store).await).iter().map(|(_, a, _)| *a).collect();
    assert_eq!(alerts, [alert, Alert { threshold: 1_000_000, ..alert }]);
}

// The state is the store's: neither a restart nor another node raises it again, and what was not
// yet called is called then.
#[cfg(feature = "redb")]
#[tokio::test(start_paused = true)]
async fn c18_alerts_outlive_the_process() {
    use crate::restart::{engine, open, stop};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let down = acts(|_| true);
    let flow = |n| budgeted(&fan_out(n, eager(1)), notify(eager(3)));
    let store = open(&path).await;
    let first = engine(&store, &down).await;
    let run = submit(&first, flow(6)).await;
    soon(first.outcome(run)).await.unwrap();
    let before = alerts(&told(&*store).await);
    assert_eq!(thresholds(&before), [50, 100]);
    stop(first, store).await;
    let store = open(&path).await;
    let second = engine(&store, &down).await;
    let run = submit(&second, flow(6)).await;
    soon(second.outcome(run)).await.unwrap();
    assert_eq!(alerts(&told(&*store).await), before);
    for (_, _, webhook) in before {
        let ended = soon(second.outcome(webhook.unwrap())).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Completed);
    }
    stop(second, store).await;
}
