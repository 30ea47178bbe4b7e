//! C18: a separate run calls a webhook. It is added together with the alert that it delivers:
//! nothing of it is lost, and it is delivered once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use retrial::action::Call;
use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::observe::{Notice, Observer};
use retrial::policy::Origin;
use retrial::run::{Outcome, RunId};
use retrial::runtime::TokioRuntime;
use retrial::store::{AskLetters, LetterFilter, Store};
use retrial::workflow::{Action, Webhook};
use serde_json::json;

use crate::alerts::*;
use crate::kit::*;

// The node that told it is gone before the webhook is called: another calls it.
#[tokio::test(start_paused = true)]
async fn c18_a_crash_between_alert_and_webhook_loses_nothing() {
    let store = Watched::new();
    let hangs = Acts::new(|call: Call| async move {
        if call.name == "notify" {
            std::future::pending::<()>().await;
        }
        Err(Failure::http(503, "down"))
    });
    let works = hangs.beside(|_: Call| async move { Ok(json!(1)) });
    let first = start(&store, &hangs, Config::default()).await;
    let flow = budgeted(&fan_out(5, eager(1)), notify(eager(3)));
    let run = submit(&first, flow).await;
    soon(first.outcome(run)).await.unwrap();
    drop(first);
    let second = start(&store, &works, Config::default()).await;
    let all = told(&store).await;
    let webhooks: Vec<RunId> = alerts(&all).iter().filter_map(|(_, _, run)| *run).collect();
    assert_eq!(webhooks.len(), 2);
    for run in webhooks {
        assert_eq!(soon(second.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
    assert_eq!(told(&store).await.len(), 3, "one run each");
}

#[tokio::test(start_paused = true)]
async fn c18_a_webhook_is_retried_delivered_once_and_put_aside_when_it_fails_for_good() {
    let store = Watched::new();
    // The webhook of the half answers at the third attempt, the other never.
    let acts = Acts::new(|call: Call| async move {
        match call.name.as_str() {
            "notify" if call.args["threshold"] == json!(0.5) && call.attempt == 3 => Ok(json!(1)),
            _ => Err(Failure::http(503, "down")),
        }
    });
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, budgeted(&fan_out(5, eager(1)), notify(eager(4)))).await;
    soon(engine.outcome(run)).await.unwrap();
    let alerts = alerts(&told(&store).await);
    let mut ends = Vec::new();
    for (_, alert, webhook) in alerts {
        let ended = soon(engine.outcome(webhook.unwrap())).await.unwrap();
        let calls = webhook_calls(&acts).iter().filter(|c| Some(c.run) == webhook).count();
        ends.push((alert.threshold / 10_000, ended.outcome == Outcome::Completed, calls));
    }
    assert_eq!(ends, [(50, true, 3), (100, false, 4)]);
    let filter = LetterFilter { action: Some("notify".into()), ..LetterFilter::default() };
    let letters = engine.letters(AskLetters { after: None, limit: 9, filter }).await.unwrap();
    assert_eq!(letters.letters.len(), 1);
}

// A webhook has its own budget, and calls no other.
#[tokio::test(start_paused = true)]
async fn c18_a_webhook_that_fails_calls_no_other() {
    let store = Watched::new();
    let acts = Acts::new(|_: Call| async move { Err(Failure::http(503, "down")) });
    let engine = start(&store, &acts, Config::default()).await;
    let last = Webhook::new("last", action(), eager(2), Origin::BuiltIn);
    let chained = Action { guard: guard(), webhook: Some(last), ..action() };
    let webhook = Webhook::new("notify", chained, eager(9), Origin::BuiltIn);
    let run = submit(&engine, budgeted(&fan_out(5, eager(1)), Some(webhook))).await;
    soon(engine.outcome(run)).await.unwrap();
    pass(60_000).await;
    let all = told(&store).await;
    let of_webhooks: Vec<_> = alerts(&all).into_iter().filter(|(of, ..)| *of != run).collect();
    assert_eq!(thresholds(&of_webhooks), [50, 100], "its own alerts are events");
    assert!(of_webhooks.iter().all(|(_, _, webhook)| webhook.is_none()));
    assert!(acts.calls().iter().all(|call| call.name != "last"));
}

/// Keeps which event of which run was reported, in order.
#[derive(Default)]
struct Order(Mutex<Vec<(RunId, u64)>>);

impl Observer for Order {
    fn tell(&self, notice: &Notice<'_>) {
        self.0.lock().unwrap().push((notice.run, notice.number.0));
    }
}

// A run that a commit adds is reported from its first event on, before anything else of it,
// although its task can be claimed before the commit is known to have landed.
#[tokio::test(start_paused = true)]
async fn c18_a_webhooks_run_is_told_from_its_beginning() {
    let (store, order) = (Watched::new(), Arc::new(Order::default()));
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&order) as _];
    let runtime = TokioRuntime::current();
    let config = Config::default();
    let acts = acts(|_| true);
    let engine: Engine<Test> =
        Engine::start(runtime, Arc::clone(&store), acts, config, observers).await;
    let run = submit(&engine, budgeted(&fan_out(30, eager(2)), notify(eager(3)))).await;
    store.answer_commits_late(run, Duration::from_secs(5));
    soon(engine.outcome(run)).await.unwrap();
    pass(60_000).await;
    let told = order.0.lock().unwrap().clone();
    for head in Store::heads(&store, None, 9).await.unwrap().runs {
        let numbers: Vec<u64> =
            told.iter().filter(|(of, _)| *of == head.run).map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..head.version.0).collect::<Vec<_>>(), "run {}", head.run);
    }
}
