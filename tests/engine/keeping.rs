//! A12 and X9: archiving, pruning, and how much of a long history is kept.

use retrial::action::Call;
use retrial::engine::{CommandError, Config, Retention, Submission};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::run::{self, Outcome, RunState};
use retrial::store::{Claim, ClaimId, RunPhase, Store as _};
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

fn failing() -> Acts {
    Acts::new(|_: Call| async { Err(Failure::http(503, "busy")) })
}

fn mended() -> Acts {
    Acts::new(|call: Call| async move { Ok(json!(call.attempt)) })
}

#[tokio::test(start_paused = true)]
async fn a12_an_archived_run_is_passed_by_and_stays_readable() {
    let (store, acts) = (Watched::new(), failing());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
    pass(500).await;
    assert_eq!(engine.archive(run).await.unwrap_err(), CommandError::NotAtRest(run));
    engine.deactivate(run).await.unwrap();
    engine.archive(run).await.unwrap();
    let since = store.heads(None, 9).await.unwrap().runs[0].archived;
    pass(60_000).await;
    engine.archive(run).await.unwrap();
    let head = store.heads(None, 9).await.unwrap().runs.remove(0);
    assert_eq!((since.is_some(), head.archived), (true, since), "the first time counts");
    drop(engine);
    let engine = start(&store, &acts, Config::default()).await;
    pass(60_000).await;
    let id = ClaimId { writer: 9, counter: 9 };
    let able = std::sync::Arc::new(retrial::workflow::Able::Anything);
    let claim = Claim { id, limit: 9, lasts: SECOND, chance: 1, able, full: [].into() };
    assert_eq!(store.claim(claim).await.unwrap().tasks, vec![]);
    assert_eq!((acts.calls().len(), engine.state(run).await.unwrap().steps().len()), (1, 1));
    let other = retrial::run::RunId::from_random(1, 1);
    assert_eq!(engine.archive(other).await.unwrap_err(), CommandError::UnknownRun(other));
    engine.activate(run).await.unwrap();
    pass(60_000).await;
    assert!(acts.calls().len() > 1, "activating takes it out again");
    assert_eq!(store.heads(None, 9).await.unwrap().runs[0].archived, None);
}

/// Both commands reach the run in one instant.
#[tokio::test(start_paused = true)]
async fn a12_who_activates_a_run_takes_it_out_of_the_archive_also_where_it_ends_at_once() {
    let (store, acts) = (Watched::new(), failing());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(9), &[], json!({}))])).await;
    pass(500).await;
    engine.deactivate(run).await.unwrap();
    engine.archive(run).await.unwrap();
    let (activated, cancelled) = tokio::join!(engine.activate(run), engine.cancel(run, "enough"));
    assert!(activated.is_ok() && cancelled.is_ok());
    let head = store.heads(None, 9).await.unwrap().runs.remove(0);
    assert_eq!((head.phase, head.archived), (RunPhase::Cancelled, None));
}

#[tokio::test(start_paused = true)]
async fn x9_ended_runs_are_pruned_by_age_and_by_setting() {
    let (store, acts) = (Watched::new(), mended());
    let engine = start(&store, &acts, Config::default()).await;
    let one = || workflow(vec![step("a", patient(2), &[], json!({}))]);
    let keyed = || Submission::new(one()).with_key("order 7");
    let old = engine.submit(keyed()).await.unwrap().run;
    soon(engine.outcome(old)).await.unwrap();
    assert!(engine.submit(keyed()).await.unwrap().existing);
    pass(60_000).await;
    let young = submit(&engine, one()).await;
    soon(engine.outcome(young)).await.unwrap();
    let archived_only = Retention { archived_only: true, ..Retention::older_than(Nanos::ZERO) };
    assert_eq!(engine.prune(archived_only).await.unwrap(), vec![]);
    let half_a_minute = Retention::older_than(Nanos::from_secs(30));
    assert_eq!(engine.prune(half_a_minute).await.unwrap(), vec![old]);
    assert_eq!(engine.prune(half_a_minute).await.unwrap(), vec![]);
    assert_eq!(engine.state(old).await.unwrap_err(), CommandError::UnknownRun(old));
    assert!(engine.state(young).await.is_ok());
    let again = engine.submit(keyed()).await.unwrap();
    assert!(!again.existing, "its key went with it");
    soon(engine.outcome(again.run)).await.unwrap();
    engine.archive(young).await.unwrap();
    assert_eq!(engine.prune(archived_only).await.unwrap(), vec![young]);
    drop(engine);
    let retention = Some(Retention::older_than(Nanos::from_secs(600)));
    let engine = start(&store, &acts, Config { retention, ..Config::default() }).await;
    pass(500_000).await;
    assert_eq!(store.heads(None, 9).await.unwrap().runs.len(), 1);
    pass(200_000).await;
    assert_eq!(store.heads(None, 9).await.unwrap().runs.len(), 0, "the engine prunes by itself");
    drop(engine);
}

/// Runs are looked at in pages of 256: one that stays keeps no other.
#[tokio::test(start_paused = true)]
async fn x9_a_run_that_stays_keeps_none_of_the_others() {
    let acts = Acts::new(|call: Call| async move {
        if call.step == "waits" {
            std::future::pending::<()>().await;
        }
        Ok(json!(call.attempt))
    });
    let engine = alone(&acts, Config::default()).await;
    let stays = submit(&engine, workflow(vec![step("waits", patient(1), &[], json!({}))])).await;
    let mut ended = Vec::new();
    for _ in 0..600 {
        let run = submit(&engine, workflow(vec![step("a", patient(1), &[], json!({}))])).await;
        soon(engine.outcome(run)).await.unwrap();
        ended.push(run);
    }
    let gone = engine.prune(Retention::older_than(Nanos::ZERO)).await.unwrap();
    assert_eq!(gone.len(), ended.len());
    assert!(gone.iter().all(|run| ended.contains(run)));
    assert!(engine.state(stays).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn x9_a_letter_that_waits_keeps_its_run() {
    let acts = failing();
    let engine = alone(&acts, Config::default()).await;
    let run = submit(&engine, workflow(vec![step("a", patient(1), &[], json!({}))])).await;
    soon(engine.outcome(run)).await.unwrap();
    let all = Retention::older_than(Nanos::ZERO);
    assert_eq!(engine.prune(all).await.unwrap(), vec![]);
    let letters = retrial::store::AskLetters { after: None, limit: 9, filter: Default::default() };
    let letter = engine.letters(letters.clone()).await.unwrap().letters[0].id;
    engine.discard(letter, "no use").await.unwrap();
    assert_eq!(engine.prune(all).await.unwrap(), vec![run]);
    assert_eq!(engine.letters(letters).await.unwrap().letters, vec![]);
    let run = submit(&engine, workflow(vec![step("a", patient(1), &[], json!({}))])).await;
    soon(engine.outcome(run)).await.unwrap();
    assert_eq!(engine.prune(Retention { with_letters: true, ..all }).await.unwrap(), vec![run]);
}

/// Thousands of retries: the events kept are bounded, and the newest snapshot with what followed it
/// gives the state that folding everything gave, first and last errors and counts included.
#[tokio::test(start_paused = true)]
async fn x9_a_history_of_unlimited_retries_stays_bounded() {
    const RETRIES: u32 = 5_000;
    const KEEP: u64 = 300;
    let acts = Acts::new(|call: Call| async move {
        match call.attempt {
            n if n < RETRIES => Err(Failure::http(503, &format!("busy {n}"))),
            n => Ok(json!(n)),
        }
    });
    let store = Watched::new();
    let config = Config { keep_events: KEEP, snapshot_tail: 4_096, ..Config::default() };
    let engine = start(&store, &acts, config).await;
    let backoff = Backoff::exponential(Nanos::from_millis(100)).with_cap(Nanos::from_millis(100));
    let policy = Policy::builder().unlimited().backoff(backoff).build().unwrap();
    let run = submit(&engine, workflow(vec![step("a", policy, &[], json!({}))])).await;
    let mut most = 0;
    let mut checked = 0;
    while engine.state(run).await.unwrap().outcome().is_none() {
        pass(7_000).await;
        let whole = store.load(run, Some(run::Version::START)).await.unwrap().unwrap();
        let kept = store.kept(run).await;
        most = most.max(kept);
        let Some(snapshot) = whole.snapshot else { continue };
        let mut replayed = run::decode_snapshot(&snapshot.state).unwrap();
        for bytes in &whole.tail.events {
            replayed.apply(&run::decode(bytes).unwrap()).unwrap();
        }
        same(&replayed, &engine.state(run).await.unwrap(), whole.version);
        checked += 1;
    }
    let state = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(state.outcome, Outcome::Completed);
    // A snapshot is taken when the tail outgrows it and the configured least.
    let bound = KEEP + 2 * 4_096 / 100;
    assert!(most <= bound && most > KEEP / 2, "{most} events were kept, {bound} allowed");
    assert!(checked > 50, "{checked}");
    let (_, task) = state.state.tasks().next().unwrap();
    assert_eq!(task.attempt, RETRIES);
    let message = |f: &Option<Box<Failure>>| f.as_ref().unwrap().message().to_owned();
    assert_eq!(message(&task.first_failure), "busy 1");
    assert_eq!(message(&task.failure), format!("busy {}", RETRIES - 1));
}

/// Where both are of one version, they are one.
fn same(replayed: &RunState, live: &RunState, version: run::Version) {
    assert_eq!(replayed.version(), version);
    if live.version() == version {
        assert_eq!(run::encode_snapshot(replayed), run::encode_snapshot(live));
    }
}
