//! What does one retry decision cost? The policy's verdict alone, and the run's whole decision with
//! its events, beside the delay that backon computes.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Dialect, Functions, Jitter, Matcher, Policy, Used, Verdict};
use retrial::run::{Input, RunId, RunState, TaskId, Token, decide};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use serde_json::{Map, Value};

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000_000);
const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };

fn policy(jitter: Jitter) -> Policy {
    let backoff = Backoff::exponential(Nanos::from_millis(100)).with_cap(Nanos::from_secs(30));
    let built = Policy::builder()
        .attempts(1_000_000)
        .matcher(Matcher::retryable())
        .backoff(backoff.with_jitter(jitter))
        .build();
    built.unwrap_or_else(|_| Policy::no_retries(Dialect::Builder))
}

/// A run whose only task is in its third attempt.
fn running() -> Option<(RunState, Token)> {
    let step = Step {
        args: Template::try_from(Value::Null).ok()?,
        ..Step::new("a", "a", policy(Jitter::Full))
    };
    let parts = WorkflowParts { name: "one".into(), steps: vec![step], ..WorkflowParts::default() };
    let workflow = Arc::new(Workflow::try_from(parts).ok()?);
    let created = RunState::create(RunId::from_random(1, 1), 7, workflow, Map::new(), NOW);
    let (mut state, _) = created.ok()?;
    let functions = Functions::default();
    for attempt in 1..=3 {
        let token = Token::from_random(1, u64::from(attempt));
        state
            .handle(
                &Input::Claimed { task: TASK, attempt, token, default_timeout: None },
                NOW,
                &functions,
            )
            .ok()?;
        if attempt < 3 {
            let failure = Failure::http(503, "busy");
            let failed = Input::Failed { task: TASK, token, failure, denied: false };
            state.handle(&failed, NOW, &functions).ok()?;
        }
    }
    Some((state, Token::from_random(1, 3)))
}

fn verdict(c: &mut Criterion) {
    let mut group = c.benchmark_group("retry decision");
    let functions = Functions::default();
    let failure = Failure::http(503, "busy");
    for (name, jitter) in [("verdict", Jitter::None), ("verdict with full jitter", Jitter::Full)] {
        let policy = policy(jitter);
        let mut attempt = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                attempt = attempt % 8 + 1;
                let used = Used {
                    attempt,
                    idempotent: true,
                    timeout_retries: 0,
                    by_rule: &[],
                    previous: None,
                    first_started: NOW,
                };
                let chance = TASK.chance(7, attempt);
                let verdict = policy.verdict(black_box(&failure), &used, NOW, chance, &functions);
                matches!(verdict, Verdict::Retry { .. })
            });
        });
    }
    for (name, jitter) in [("backon next", false), ("backon next with jitter", true)] {
        let builder = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(30))
            .with_max_times(8);
        let builder = if jitter { builder.with_jitter() } else { builder };
        let mut delays = builder.build();
        group.bench_function(name, |b| {
            b.iter(|| match delays.next() {
                Some(delay) => delay,
                None => {
                    delays = builder.build();
                    Duration::ZERO
                }
            });
        });
    }
    group.finish();
}

fn whole(c: &mut Criterion) {
    let Some((state, token)) = running() else { return };
    let functions = Functions::default();
    let failure = Failure::http(503, "busy");
    let input = Input::Failed { task: TASK, token, failure, denied: false };
    let mut group = c.benchmark_group("run decision");
    group.bench_function("decide", |b| {
        b.iter(|| decide(black_box(&state), &input, NOW, &functions));
    });
    group.bench_function("handle (decide and apply)", |b| {
        b.iter_batched(
            || state.clone(),
            |mut state| {
                let events = state.handle(&input, NOW, &functions);
                (state, events)
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = short(); targets = verdict, whole }
criterion_main!(benches);
