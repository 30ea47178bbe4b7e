//! R5, R6, decision 15: a run's queue rows with Rappel's columns, and what happens at `timeout_at`.

use std::sync::Arc;

use bytes::Bytes;
use retrial::action::Call;
use retrial::engine::{Config, Engine, QueueView, World};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::run::{Digest, Lapse, RunId, TaskId, Version};
use retrial::runtime::TokioRuntime;
use retrial::store::{
    Claim, ClaimId, Commit, CommitId, Committed, Create, Fence, MemoryStore, QueueChange,
    QueueState, RunPhase, Store,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Need, StepIx, Via};
use serde_json::{Value, json};

use crate::kit::*;

/// Attempt 1 runs out of its 7 s, the second fails, the third hangs.
fn acts() -> Acts {
    Acts::new(|call: Call| async move {
        if call.attempt == 2 {
            return Err(Failure::http(503, "busy"));
        }
        std::future::pending().await
    })
}

fn policy() -> Policy {
    Policy::builder()
        .attempts(5)
        .backoff(Backoff::exponential(SECOND))
        .or()
        .attempts(10)
        .exception_types(["NETWORK_ERROR"])
        .backoff(Backoff::exponential(Nanos::from_secs(3)))
        .attempt_timeout(Nanos::from_millis(6_500))
        .timeout_retries(2)
        .build()
        .unwrap()
}

/// The one row, times as seconds since `from` and the token as whether there is one.
fn shown(rows: &[QueueView], from: Timestamp) -> String {
    let [row] = rows else { panic!("{rows:?}") };
    let Value::Object(mut columns) = serde_json::to_value(row).unwrap() else { panic!("{row:?}") };
    let since = |at: Option<Timestamp>| at.map(|at| json!(at.since(from).to_string()));
    columns["scheduled_at"] = since(row.scheduled_at).into();
    columns["timeout_at"] = since(row.timeout_at).into();
    columns["delivery_token"] = json!(row.delivery_token.is_some());
    columns.remove("task");
    let line = |(name, value): (&String, &Value)| format!("{name}={value}");
    columns.iter().map(line).collect::<Vec<_>>().join(" ")
}

async fn check_columns<W: World<Actions = Acts>>(engine: &Engine<W>) {
    let run = submit(engine, workflow(vec![step("a", policy(), &[], json!({}))])).await;
    pass(1_000).await;
    let from = started(&history(engine.store(), run).await, 1);
    let mut all = Vec::new();
    let mut tokens = Vec::new();
    for wait in [0, 6_000, 1_000, 2_000] {
        pass(wait).await;
        let rows = engine.queue(&engine.state(run).await.unwrap()).await.unwrap();
        tokens.extend(rows[0].delivery_token);
        all.push(shown(&rows, from));
    }
    insta::allow_duplicates! { insta::assert_snapshot!(all.join("\n"), @r#"
    attempt_number=0 backoff_base_delay_ms=3000 backoff_kind="exponential" delivery_token=true max_retries=9 retry_kind=null scheduled_at=null status="dispatched" timeout_at="6.5s" timeout_retry_limit=2 timeout_seconds=7
    attempt_number=1 backoff_base_delay_ms=1000 backoff_kind="exponential" delivery_token=false max_retries=4 retry_kind="timeout" scheduled_at="7.5s" status="queued" timeout_at=null timeout_retry_limit=1 timeout_seconds=7
    attempt_number=2 backoff_base_delay_ms=1000 backoff_kind="exponential" delivery_token=false max_retries=4 retry_kind="failure" scheduled_at="9.5s" status="queued" timeout_at=null timeout_retry_limit=1 timeout_seconds=7
    attempt_number=2 backoff_base_delay_ms=1000 backoff_kind="exponential" delivery_token=true max_retries=4 retry_kind="failure" scheduled_at=null status="dispatched" timeout_at="16s" timeout_retry_limit=1 timeout_seconds=7
    "#); }
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "each dispatch has its own");
    engine.cancel(run, "seen").await.unwrap();
    assert_eq!(engine.queue(&engine.state(run).await.unwrap()).await.unwrap(), []);
}

// Rappel's columns at the first attempt, in the delay after its timeout, and after a failure.
#[tokio::test(start_paused = true)]
async fn r5_decision_15_a_queue_row_has_rappels_columns() {
    check_columns(&alone(&acts(), Config::default()).await).await;
}

#[cfg(feature = "redb")]
#[tokio::test(start_paused = true)]
async fn r5_decision_15_a_queue_row_on_redb_has_rappels_columns() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::restart::open(&folder.path().join("runs.redb")).await;
    let engine = crate::restart::engine(&store, &acts()).await;
    check_columns(&engine).await;
    soon(crate::restart::stop(engine, store)).await;
}

/// The operator's default timeout ends an attempt whose policy has none, so its row says it.
#[tokio::test(start_paused = true)]
async fn r5_a_row_without_a_timeout_of_its_own_shows_the_operators() {
    let config = Config { attempt_timeout: Some(Nanos::from_millis(3_200)), ..Config::default() };
    let engine = alone(&acts(), config).await;
    let plain = Policy::builder().attempts(2).build().unwrap();
    let steps = vec![step("a", plain, &[], json!({})), step("b", policy(), &[], json!({}))];
    let run = submit(&engine, workflow(steps)).await;
    pass(1_000).await;
    let rows = engine.queue(&engine.state(run).await.unwrap()).await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| row.timeout_seconds).collect();
    assert_eq!(shown, [Some(4), Some(7)]);
}

const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };

fn commit(run: RunId, writer: u64, expect: u64, fence: Fence, queue: QueueChange) -> Commit {
    Commit {
        id: CommitId { writer, counter: expect },
        run,
        expect: Version(expect),
        fences: vec![fence],
        events: vec![Bytes::from_static(b"next")],
        queue: vec![queue],
        results: vec![],
        letters: vec![],
        phase: RunPhase::Running,
        snapshot: None,
        guards: vec![],
        raised: vec![],
        creates: vec![],
    }
}

fn due(attempt: u32) -> QueueChange {
    let need = Need { action: "act".into(), via: Via::Function };
    QueueChange::Due { task: TASK, attempt, after: Nanos::ZERO, need, progress: None }
}

/// An attempt of 2 s under a lease of 30 s: at its end two nodes find the row, one records it.
async fn check_timeout_at(store: &impl Store) {
    let run = RunId::from_random(7, 7);
    let create = Create {
        run,
        key: None,
        digest: Digest::of(b""),
        id: Default::default(),
        workflow: "w".into(),
        events: vec![Bytes::from_static(b"first")],
        queue: vec![due(1)],
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    };
    store.create(create).await.unwrap();
    let id = ClaimId { writer: 1, counter: 1 };
    let able = Able::Anything.into();
    let claim =
        Claim { id, limit: 1, lasts: Nanos::from_secs(30), chance: 5, able, full: [].into() };
    let token = store.claim(claim).await.unwrap().tasks[0].token;
    let (lasts, timeout) = (Nanos::from_secs(30), Some(Nanos::from_secs(2)));
    let lease =
        QueueChange::Lease { task: TASK, attempt: 1, token, lasts, timeout, heartbeat: None };
    let begun = commit(run, 1, 1, Fence::Held { task: TASK, token }, lease);
    let Committed::Applied { at, .. } = store.commit(begun).await.unwrap() else { panic!() };
    let state = store.queue(run).await.unwrap().remove(0).state;
    let end = at.after(Nanos::from_secs(2));
    assert_eq!(state, QueueState::Leased { token, until: end, deadline: Some(end), beat_by: None });
    pass(1_900).await;
    assert_eq!(store.expired(9).await.unwrap().tasks, []);
    pass(200).await;
    let [first, second] = [store.expired(9).await.unwrap(), store.expired(9).await.unwrap()];
    assert_eq!(first.tasks, second.tasks);
    assert!(first.tasks.len() == 1 && first.tasks[0].lapse == Lapse::Deadline, "{first:?}");
    let ends =
        |writer, expect| commit(run, writer, expect, Fence::Lapsed { task: TASK, token }, due(2));
    assert!(matches!(store.commit(ends(1, 2)).await.unwrap(), Committed::Applied { .. }));
    assert!(matches!(store.commit(ends(2, 2)).await.unwrap(), Committed::Conflict { .. }));
    assert!(matches!(store.commit(ends(2, 3)).await.unwrap(), Committed::Fenced { .. }));
    assert_eq!(store.expired(9).await.unwrap().tasks, []);
    let rows = store.queue(run).await.unwrap();
    assert!(rows.len() == 1 && rows[0].attempt == 2, "{rows:?}");
}

#[tokio::test(start_paused = true)]
async fn r6_timeout_at_is_the_stores_and_one_node_records_it() {
    check_timeout_at(&MemoryStore::new(TokioRuntime::current())).await;
}

#[cfg(feature = "redb")]
#[tokio::test(start_paused = true)]
async fn r6_timeout_at_on_redb_is_the_stores_and_one_node_records_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::restart::open(&folder.path().join("runs.redb")).await;
    check_timeout_at(&store).await;
    Arc::into_inner(store).unwrap().close().await;
}
