//! What attempts cost (H17): said by the action, recorded with the outcome, summed.

use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::observe::{Inspection, Notice, Observer, Statistics};
use retrial::run::{Cost, Event};
use retrial::runtime::TokioRuntime;
use serde_json::json;

use crate::kit::*;

type Costly = (TokioRuntime, Arc<Watched>, Registry);

#[derive(Default)]
struct Counts(std::sync::Mutex<Statistics>);

impl Observer for Counts {
    fn tell(&self, notice: &Notice<'_>) {
        self.0.lock().unwrap().take(notice);
    }
}

async fn node(
    store: &Arc<Watched>,
    registry: Registry,
    counts: &Arc<Counts>,
    config: Config,
) -> Engine<Costly> {
    let observer: Arc<dyn Observer> = Arc::clone(counts) as _;
    let runtime = TokioRuntime::current();
    Engine::start(runtime, Arc::clone(store), registry, config, vec![observer]).await
}

// H17: well or ill, what an attempt said is recorded before its outcome and summed for task, run
// and statistics; an attempt that said nothing costs nothing.
#[tokio::test(start_paused = true)]
async fn h17_costs_are_summed_per_task_and_run() {
    let (store, counts) = (Watched::new(), Arc::new(Counts::default()));
    let mut registry = Registry::new();
    registry.register("act", |context: Context| async move {
        match context.attempt() {
            1 => {
                context.report_cost(250_000);
                context.report_cost(500_000);
                Err(Failure::http(503, "busy"))
            }
            2 => Err(Failure::http(503, "nothing to pay")),
            _ => {
                context.report_cost(1_000_000);
                Ok(())
            }
        }
    });
    let engine = node(&store, registry, &counts, Config::default()).await;
    let steps = vec![step("a", patient(3), &[], json!({})), step("b", patient(3), &[0], json!({}))];
    let run = submit(&engine, workflow(steps)).await;
    let state = soon(engine.outcome(run)).await.unwrap().state;
    let each: Vec<_> = state.tasks().map(|(_, t)| t.cost.millionths()).collect();
    assert_eq!(each, [1_750_000, 1_750_000]);
    assert_eq!(state.cost(), Cost::from_millionths(3_500_000));
    assert_eq!(state.cost().to_string(), "3.5");
    let history = history(&store, run).await;
    let of_a = &names(&history)[2..8];
    let expected = [
        "attempt_started",
        "cost_reported",
        "attempt_failed",
        "retry_scheduled",
        "attempt_started",
        "attempt_failed",
    ];
    assert_eq!(of_a, expected);
    let inspection = Inspection::new(&state, &history);
    assert_eq!(inspection.to_json()["cost_millionths"], 3_500_000);
    assert_eq!(inspection.to_json()["steps"][1]["tasks"][0]["cost_millionths"], 1_750_000);
    let reported = history.iter().filter_map(|r| match r.event {
        Event::CostReported { cost, .. } => Some(cost),
        _ => None,
    });
    assert_eq!(reported.sum::<Cost>(), state.cost());
    let counts = counts.0.lock().unwrap();
    assert_eq!(counts.cost(), state.cost());
    assert!(counts.to_string().contains("├─ Cost of all attempts: 3.5\n"), "{counts}");
}

// H17: at a timeout what was said so far counts; of a lost lease nothing is known.
#[tokio::test(start_paused = true)]
async fn h17_the_cost_of_a_lost_attempt_is_unknown() {
    let (store, counts) = (Watched::new(), Arc::new(Counts::default()));
    let config = Config { sole_owner: false, lease: SECOND, ..Config::default() };
    let hangs = |cost: u64| {
        let mut registry = Registry::new();
        registry.register("act", move |context: Context| async move {
            context.report_cost(cost);
            if context.attempt() < 3 {
                std::future::pending::<()>().await;
            }
            Ok::<_, Failure>(())
        });
        registry
    };
    let policy = retrial::policy::Policy::builder()
        .attempts(3)
        .attempt_timeout(retrial::time::Nanos::from_secs(5));
    let lost = node(&store, hangs(7), &counts, config.clone()).await;
    let w = workflow(vec![step("a", policy.build().unwrap(), &[], json!({}))]);
    let run = submit(&lost, w).await;
    pass(500).await;
    drop(lost);
    let other = node(&store, hangs(10), &counts, config).await;
    let state = soon(other.outcome(run)).await.unwrap().state;
    // The first was lost, the second timed out, the third succeeded.
    assert_eq!(state.cost(), Cost::from_millionths(20));
}
