//! Backoffs of the future list (H17), through the engine: custom functions and decorrelated jitter.

use retrial::action::Call;
use retrial::engine::Config;
use retrial::failure::Failure;
use retrial::policy::{Backoff, Functions, Jitter, Policy, Shape};
use retrial::run::Event;
use retrial::time::Nanos;
use serde_json::json;

use crate::kit::*;

/// The delays before the retries of a step that never succeeds.
async fn delays(backoff: Backoff, attempts: u32, functions: Functions) -> Vec<Nanos> {
    let (store, acts) =
        (Watched::new(), Acts::new(|_: Call| async { Err(Failure::http(503, "busy")) }));
    let config = Config { functions, ..Config::default() };
    let engine = start(&store, &acts, config).await;
    let policy = Policy::builder().attempts(attempts).backoff(backoff).build().unwrap();
    let run = submit(&engine, workflow(vec![step("a", policy, &[], json!({}))])).await;
    soon(engine.outcome(run)).await.unwrap();
    let history = history(&store, run).await;
    let delay = |r: &retrial::run::Recorded| match r.event {
        Event::RetryScheduled { delay, .. } => Some(delay),
        _ => None,
    };
    let delays: Vec<Nanos> = history.iter().filter_map(delay).collect();
    // Each was waited.
    for (n, delay) in (1..).zip(&delays) {
        let waited = started(&history, n + 1).since(failed(&history, n));
        assert!(waited >= *delay && waited <= delay.saturating_add(SECOND), "{waited} {delay}");
    }
    delays
}

// H17: a registered function says each delay, from the number of the retry; the cap holds.
#[tokio::test(start_paused = true)]
async fn h17_custom_backoff_function_gives_each_delay() {
    let mut functions = Functions::default();
    functions.register("squares", |n| Nanos::from_secs(u64::from(n) * u64::from(n)));
    let shape = Shape::Custom { name: "squares".into() };
    let backoff = Backoff { shape, cap: Some(Nanos::from_secs(10)), jitter: Jitter::None };
    let given = delays(backoff, 6, functions).await;
    assert_eq!(given, [1, 4, 9, 10, 10].map(Nanos::from_secs));
}

// H17, decision 4: each delay is drawn from the base to three times the one before, capped.
#[tokio::test(start_paused = true)]
async fn h17_decorrelated_jitter_grows_from_the_delay_before() {
    let base = Nanos::from_millis(100);
    let cap = Nanos::from_secs(60);
    let backoff =
        Backoff { shape: Shape::Fixed { base }, cap: Some(cap), jitter: Jitter::Decorrelated };
    let given = delays(backoff, 40, Functions::default()).await;
    let mut before = base;
    for delay in &given {
        let most = before.saturating_mul(3).min(cap);
        assert!(*delay >= base && *delay <= most, "{delay} after {before}");
        before = *delay;
    }
    assert!(given.windows(2).any(|w| w[0] != w[1]), "{given:?}");
    let first = base.saturating_mul(3);
    assert!(given.iter().any(|delay| *delay > first), "none grows from a longer one: {given:?}");
}
