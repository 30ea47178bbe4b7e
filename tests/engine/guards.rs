//! Guards at work: what they hold waits without using anything up, whichever node asks, across
//! restarts, and goes on when it may.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::guard::{Breaker, GuardRules, HeldBy, Pace};
use retrial::policy::{Backoff, Budget, BudgetScope, Denied, GiveUp, Jitter, Policy, Shape, Share};
use retrial::run::{Event, Outcome};
use retrial::time::Nanos;
use retrial::workflow::{Action, Rollback, Target, Workflow, WorkflowParts};
use serde_json::json;

use crate::kit::*;
use crate::rollback::saga;

fn many(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// The workflow with these guards on its one action.
fn guarded(workflow: &Arc<Workflow>, guard: GuardRules) -> Arc<Workflow> {
    let mut parts = WorkflowParts::from((**workflow).clone());
    let (kind, target) = (Default::default(), Target::Registered);
    let (idempotent, inner_attempts, heartbeat_timeout, webhook) = (None, None, None, None);
    let action =
        Action { kind, target, idempotent, inner_attempts, heartbeat_timeout, guard, webhook };
    parts.actions.insert("act".into(), action);
    Arc::new(Workflow::try_from(parts).unwrap())
}

fn one(policy: Policy) -> Arc<Workflow> {
    workflow(vec![step("a", policy, &[], json!({}))])
}

fn breaker(failures: u32, open: u64, probes: u32) -> GuardRules {
    let breaker = Breaker::new(Some(many(failures)), None, Nanos::from_secs(open), many(probes));
    GuardRules { breaker: breaker.ok(), ..GuardRules::default() }
}

fn limit(n: u32) -> GuardRules {
    GuardRules { concurrency: Some(many(n)), ..GuardRules::default() }
}

fn eager(attempts: u32) -> Policy {
    let backoff = always(Nanos::from_millis(10));
    Policy::builder().attempts(attempts).backoff(backoff).build().unwrap()
}

fn always(base: Nanos) -> Backoff {
    Backoff { shape: Shape::Fixed { base }, jitter: Jitter::None, cap: None }
}

fn down() -> Failure {
    Failure::http(503, "down")
}

/// An action that fails until it is mended.
fn mendable() -> (Acts, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&mended);
    let acts = Acts::new(move |_: Call| {
        let well = seen.load(Ordering::SeqCst);
        async move { if well { Ok(json!(1)) } else { Err(down()) } }
    });
    (acts, mended)
}

// C18: three failures open it for 60 s; what waits uses up no attempt and says so once an attempt.
#[tokio::test(start_paused = true)]
async fn c18_h17_an_open_breaker_holds_tasks_without_using_an_attempt() {
    let (acts, mended) = mendable();
    let store = Watched::new();
    let engine = start(&store, &acts, Config::default()).await;
    let flow = guarded(&one(eager(5)), breaker(3, 60, 1));
    let run = submit(&engine, flow).await;
    pass(30_000).await;
    assert_eq!(acts.calls().len(), 3);
    mended.store(true, Ordering::SeqCst);
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    let attempts: Vec<u32> = acts.calls().iter().map(|c| c.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    let history = history(&store, run).await;
    assert_eq!(names(&history).iter().filter(|n| **n == "task_held").count(), 1);
    let held = history.iter().find(|r| r.event.name() == "task_held").unwrap();
    let Event::TaskHeld { attempt, by, until, .. } = held.event else { panic!("{held:?}") };
    assert_eq!((attempt, by), (4, HeldBy::Breaker));
    let opened = failed(&history, 3);
    // By the store's clock; the node's idea of it may be a little behind.
    let open = until.since(opened);
    assert!(open >= Nanos::from_secs(60) && open < Nanos::from_secs(61), "{open}");
    assert!(started(&history, 4) >= until);
}

// C18: probes are bounded over all nodes, a failed one opens it again, a good one closes it.
#[tokio::test(start_paused = true)]
async fn c18_two_nodes_send_one_probe_between_them() {
    let (acts, mended) = mendable();
    let store = Watched::new();
    let config = || Config { sole_owner: false, ..Config::default() };
    let slow = acts.beside({
        let mended = Arc::clone(&mended);
        move |_: Call| {
            let well = mended.load(Ordering::SeqCst);
            async move {
                pass(2_000).await;
                if well { Ok(json!(1)) } else { Err(down()) }
            }
        }
    });
    let nodes = [start(&store, &slow, config()).await, start(&store, &slow, config()).await];
    let flow = guarded(&fan_out(20, eager(30)), breaker(5, 10, 1));
    let mut runs = Vec::new();
    for node in &nodes {
        runs.push(submit(node, Arc::clone(&flow)).await);
    }
    // All forty were in progress when it opened.
    pass(5_000).await;
    let before = acts.calls().len();
    assert_eq!(before, 40);
    // Each 10 s of being open ends in one probe of 2 s.
    pass(60_000).await;
    let probes = acts.calls().len() - before;
    assert!((4..=5).contains(&probes), "{probes} probes in a minute");
    mended.store(true, Ordering::SeqCst);
    for run in runs {
        assert_eq!(soon(nodes[0].outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
}

// C18: the state is the store's, so neither a restart nor another node closes it.
#[tokio::test(start_paused = true)]
async fn c18_a_restart_keeps_the_breaker_open() {
    let (acts, mended) = mendable();
    let store = Watched::new();
    let first = start(&store, &acts, Config::default()).await;
    let flow = guarded(&one(eager(5)), breaker(2, 300, 1));
    let run = submit(&first, Arc::clone(&flow)).await;
    pass(1_000).await;
    drop(first);
    mended.store(true, Ordering::SeqCst);
    let second = start(&store, &acts, Config::default()).await;
    let other = submit(&second, flow).await;
    pass(250_000).await;
    assert_eq!(acts.calls().len(), 2, "nothing was called while it was open");
    assert_eq!(soon(second.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    assert_eq!(soon(second.outcome(other)).await.unwrap().outcome, Outcome::Completed);
}

// A failure that is the caller's own says that the action answers.
#[tokio::test(start_paused = true)]
async fn c18_permanent_failures_do_not_open_it() {
    let acts = Acts::new(|_: Call| async move { Err(Failure::http(404, "not here")) });
    let engine = alone(&acts, Config::default()).await;
    let flow = guarded(&fan_out(10, eager(3)), breaker(2, 1_000_000, 1));
    let run = submit(&engine, flow).await;
    pass(1_000).await;
    assert!(matches!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Failed { .. }));
    assert_eq!(acts.calls().len(), 30, "the policy tries all of them again, at once");
}

#[tokio::test(start_paused = true)]
async fn x6_concurrency_is_limited_over_runs_and_nodes() {
    let began = tokio::time::Instant::now();
    let acts = Acts::new(|call: Call| async move {
        pass(50 + u64::from(call.task.item % 7)).await;
        Ok(json!(1))
    });
    let store = Watched::new();
    let config = || Config { sole_owner: false, ..Config::default() };
    let nodes = [start(&store, &acts, config()).await, start(&store, &acts, config()).await];
    let flow = guarded(&fan_out(30, patient(2)), limit(4));
    let mut runs = Vec::new();
    for node in &nodes {
        runs.push(submit(node, Arc::clone(&flow)).await);
    }
    for run in runs {
        assert_eq!(soon(nodes[1].outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
    assert_eq!((acts.most(), acts.calls().len()), (4, 60));
    // A place is taken as soon as it is free: sixty of about 53 ms each, four at a time.
    let took = began.elapsed();
    assert!(took.as_millis() < 1_900, "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn x6_a_rate_is_kept_over_runs() {
    let acts = Acts::new(|_: Call| async move { Ok(json!(1)) });
    let store = Watched::new();
    let engine = start(&store, &acts, Config::default()).await;
    let rate = Pace::new(many(5), Nanos::from_secs(1)).ok();
    let rules = GuardRules { rate, ..GuardRules::default() };
    let flow = guarded(&fan_out(20, patient(2)), rules);
    let runs = [submit(&engine, Arc::clone(&flow)).await, submit(&engine, flow).await];
    let mut starts = Vec::new();
    for run in runs {
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
        let of_run = history(&store, run).await;
        let is_start = |r: &&retrial::run::Recorded| r.event.name() == "attempt_started";
        starts.extend(of_run.iter().filter(is_start).map(|r| r.at));
    }
    starts.sort_unstable();
    assert_eq!(starts.len(), 40);
    // Five at once, then one each 200 ms: in any time t at most 5 and 5 a second.
    for (i, from) in starts.iter().enumerate() {
        for (n, to) in starts[i..].iter().enumerate() {
            let most = 5 + to.since(*from).saturating_add(Nanos::from_millis(5)).as_millis() / 200;
            assert!((n as u64) < most, "{} starts within {}", n + 1, to.since(*from));
        }
    }
    let all = starts[39].since(starts[0]);
    assert!(all < Nanos::from_secs(12), "{all}: no slower than need be");
}

// X6: a thousand tasks that are due do not make another run's one wait for them.
#[tokio::test(start_paused = true)]
async fn x6_a_thousand_tasks_do_not_starve_another_runs_one() {
    let acts = Acts::new(|_: Call| async move {
        pass(100).await;
        Ok(json!(1))
    });
    let engine = alone(&acts, Config { concurrency: 4, ..Config::default() }).await;
    let many = submit(&engine, fan_out(1_000, patient(2))).await;
    pass(350).await;
    let single = submit(&engine, one(patient(2))).await;
    let before = acts.calls().len();
    assert_eq!(soon(engine.outcome(single)).await.unwrap().outcome, Outcome::Completed);
    let meanwhile = acts.calls().len() - before;
    assert!(meanwhile <= 16, "{meanwhile} others started before it ended");
    assert_eq!(soon(engine.outcome(many)).await.unwrap().outcome, Outcome::Completed);
}

// H17: 10,000 first attempts on a dead dependency: a tenth of them, and ten, may be tried again.
#[tokio::test(start_paused = true)]
async fn h17_a_budget_of_a_tenth_keeps_the_load_within_1_1_times() {
    let acts = Acts::new(|_: Call| async move { Err(down()) });
    let store = Watched::new();
    let engine = start(&store, &acts, Config { concurrency: 500, ..Config::default() }).await;
    let share = Share::from_millionths(100_000).unwrap();
    let budget = Some(Budget::of_first_attempts(share));
    let rules = GuardRules { retry_budget: budget, ..GuardRules::default() };
    let flow = guarded(&fan_out(2_500, eager(4)), rules);
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(submit(&engine, Arc::clone(&flow)).await);
    }
    for run in runs {
        soon(engine.outcome(run)).await.unwrap();
    }
    let calls = acts.calls();
    let first = calls.iter().filter(|c| c.attempt == 1).count();
    assert_eq!(first, 10_000);
    let retries = calls.len() - first;
    assert!(first + retries - 10 <= first * 11 / 10, "{retries} retries");
    assert!(retries >= 900, "{retries} retries: the budget allows a tenth");
}

#[tokio::test(start_paused = true)]
async fn h17_a_retry_that_the_budget_denies_fails_now_and_says_so() {
    let acts = Acts::new(|_: Call| async move { Err(down()) });
    let store = Watched::new();
    let engine = start(&store, &acts, Config::default()).await;
    let budget =
        Budget { initial: 2, ..Budget::of_first_attempts(Share::from_millionths(1).unwrap()) };
    let backoff = always(SECOND);
    let policy = Policy::builder().attempts(9).backoff(backoff).budget(budget).build().unwrap();
    let run = submit(&engine, one(policy)).await;
    let ended = soon(engine.outcome(run)).await.unwrap();
    let Outcome::Failed { error } = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert_eq!((acts.calls().len(), error.code.as_str()), (3, "503"));
    assert!(error.message.contains("RETRY_BUDGET"), "{}", error.message);
    let history = history(&store, run).await;
    let reasons = history.iter().filter_map(|r| match &r.event {
        Event::TaskFailed { reason, .. } => Some(*reason),
        _ => None,
    });
    assert_eq!(reasons.collect::<Vec<_>>(), [GiveUp::RetryBudget]);
    let failed: Vec<bool> = history
        .iter()
        .filter_map(|r| match &r.event {
            Event::AttemptFailed { will_retry, .. } => Some(*will_retry),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn h17_a_retry_that_may_wait_for_its_budget_waits() {
    let (acts, mended) = mendable();
    let store = Watched::new();
    let engine = start(&store, &acts, Config::default()).await;
    let share = Share::from_millionths(1).unwrap();
    let budget = Budget { initial: 1, on_denied: Denied::Wait, ..Budget::of_first_attempts(share) };
    let policy = || {
        let backoff = always(Nanos::from_millis(1));
        Policy::builder().attempts(50).backoff(backoff).budget(budget).build().unwrap()
    };
    let run = submit(&engine, one(policy())).await;
    pass(10_000).await;
    // One at first, then one a second.
    let calls = acts.calls().len();
    assert!((10..=13).contains(&calls), "{calls} calls");
    mended.store(true, Ordering::SeqCst);
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
}

// H17: the tasks of one fan-out share a budget, and no other run has a part in it.
#[tokio::test(start_paused = true)]
async fn h17_a_parallel_group_has_a_budget_of_its_own() {
    let acts = Acts::new(|_: Call| async move { Err(down()) });
    let engine = alone(&acts, Config::default()).await;
    let share = Share::from_millionths(250_000).unwrap();
    let budget =
        Budget { initial: 2, scope: BudgetScope::Group, ..Budget::of_first_attempts(share) };
    let backoff = always(SECOND);
    let policy = Policy::builder().attempts(9).backoff(backoff).budget(budget).build().unwrap();
    let flow = fan_out(20, policy);
    let runs = [submit(&engine, Arc::clone(&flow)).await, submit(&engine, flow).await];
    for run in runs {
        soon(engine.outcome(run)).await.unwrap();
        let calls: Vec<_> = acts.calls().into_iter().filter(|c| c.run == run).collect();
        // Twenty first attempts, two tokens at first and five for the twenty.
        assert_eq!((calls.iter().filter(|c| c.attempt == 1).count(), calls.len()), (20, 27));
    }
}

// X6, C18: an attempt that a rollback calls off gives its place back, also to a compensation of the
// same run, which would never start.
#[tokio::test(start_paused = true)]
async fn x6_c18_a_rollback_frees_the_places_of_what_it_calls_off() {
    let acts = Acts::new(|call: Call| async move {
        match call.step.as_str() {
            "ship" => std::future::pending().await,
            _ => Ok(json!({ "charge": 7 })),
        }
    });
    let store = Watched::new();
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, guarded(&saga(Rollback::Never), limit(1))).await;
    while acts.calls().len() < 2 {
        pass(1).await;
    }
    engine.rollback(run, "wrong address").await.unwrap();
    let ended = soon(engine.outcome(run)).await.unwrap();
    assert_eq!(ended.state.rollback().unwrap().complete, Some(true));
}

// H17.1: a success after a retry gives back what the retry took, so one token does for each run in
// turn.
#[tokio::test(start_paused = true)]
async fn h17_a_success_refunds_its_retry() {
    let acts = Acts::new(|call: Call| async move {
        if call.attempt == 1 { Err(down()) } else { Ok(json!(1)) }
    });
    let engine = alone(&acts, Config::default()).await;
    let share = Share::from_millionths(1).unwrap();
    let mut budget = Budget { initial: 1, ..Budget::of_first_attempts(share) };
    budget.refill.refund = true;
    let rules = GuardRules { retry_budget: Some(budget), ..GuardRules::default() };
    let flow = guarded(&one(eager(3)), rules);
    for _ in 0..3 {
        let run = submit(&engine, Arc::clone(&flow)).await;
        assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    }
}
