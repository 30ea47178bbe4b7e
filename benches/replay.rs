//! What does a replay cost? Ten thousand events of one run: decoding, folding, and both; beside the
//! events' public JSON, which is not what is stored.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Functions, Policy, PolicyError};
use retrial::run::{
    DecodeError, Input, Recorded, RunId, RunState, TaskId, Token, decode, decode_snapshot, encode,
    encode_snapshot,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use serde_json::{Map, Value, json};

/// Each item starts, fails, waits, starts and succeeds: with the failed attempt's two, six events.
const ITEMS: u32 = 1_666;

fn policy() -> Result<Policy, PolicyError> {
    Policy::builder().attempts(3).backoff(Backoff::exponential(Nanos::from_secs(1))).build()
}

fn workflow() -> Option<Workflow> {
    let items: Vec<u32> = (0..ITEMS).collect();
    let step = Step {
        args: Template::try_from(json!({"n": "${item}"})).ok()?,
        for_each: Some(Template::try_from(json!(items)).ok()?),
        ..Step::new("fan", "fan", policy().ok()?)
    };
    let parts = WorkflowParts { name: "fan".into(), steps: vec![step], ..WorkflowParts::default() };
    Workflow::try_from(parts).ok()
}

/// A run's whole history, about ten thousand events.
fn history() -> (RunId, Vec<Recorded>) {
    let id = RunId::from_random(1, 1);
    let Some(workflow) = workflow() else { return (id, Vec::new()) };
    let mut now = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let created = RunState::create(id, 7, Arc::new(workflow), Map::new(), now);
    let Ok((mut state, mut log)) = created else { return (id, Vec::new()) };
    let functions = Functions::default();
    for attempt in [1, 2] {
        for item in 0..ITEMS {
            let task = TaskId { step: StepIx(0), item };
            let token = Token::from_random(u64::from(item), u64::from(attempt));
            let end = if attempt == 1 {
                Input::Failed {
                    task,
                    token,
                    failure: Failure::http(503, "busy, try again later"),
                    denied: false,
                }
            } else {
                Input::Succeeded { task, token, result: Arc::new(Value::Null) }
            };
            now = now.after(Nanos::from_millis(1));
            log.extend(
                state
                    .handle(
                        &Input::Claimed { task, attempt, token, default_timeout: None },
                        now,
                        &functions,
                    )
                    .into_iter()
                    .flatten(),
            );
            log.extend(state.handle(&end, now, &functions).into_iter().flatten());
        }
    }
    (id, log)
}

fn decoded(stored: &[Bytes]) -> Result<Vec<Recorded>, DecodeError> {
    stored.iter().map(|bytes| decode(bytes)).collect()
}

fn replay(c: &mut Criterion) {
    let (id, log) = history();
    let stored: Vec<Bytes> = log.iter().map(encode).collect();
    let public: Vec<Vec<u8>> = log.iter().filter_map(|r| serde_json::to_vec(r).ok()).collect();
    let mut group = c.benchmark_group("replay");
    group.throughput(Throughput::Elements(log.len() as u64));
    group.bench_function("fold", |b| b.iter(|| RunState::replay(id, black_box(&log))));
    group.bench_function("decode", |b| b.iter(|| decoded(black_box(&stored))));
    group.bench_function("decode and fold", |b| {
        b.iter(|| decoded(black_box(&stored)).map(|log| RunState::replay(id, &log)));
    });
    group.bench_function("encode", |b| {
        b.iter(|| log.iter().map(|r| encode(r).len()).sum::<usize>());
    });
    group.bench_function("public JSON", |b| {
        b.iter(|| {
            let read = |bytes: &Vec<u8>| serde_json::from_slice::<Recorded>(bytes).is_ok();
            black_box(&public).iter().filter(|bytes| read(bytes)).count()
        });
    });
    group.finish();
    let Ok(state) = RunState::replay(id, &log) else { return };
    let snapshot = encode_snapshot(&state);
    let mut group = c.benchmark_group("snapshot");
    group.throughput(Throughput::Elements(u64::from(ITEMS)));
    group.bench_function("encode", |b| b.iter(|| encode_snapshot(black_box(&state))));
    group.bench_function("decode", |b| b.iter(|| decode_snapshot(black_box(&snapshot))));
    group.finish();
}

fn short() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! { name = benches; config = short(); targets = replay }
criterion_main!(benches);
