//! Registered actions in the simulated world: heartbeats with progress (X1), costs (H17), conditions
//! (H10), and who runs what (X12), on three nodes that share a store while two of them crash.
//!
//! Judged by the actions' own ledger, the events, and the queue rows as somebody outside sees them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::run::{self, Cost, Event, Recorded, RunId, RunState, TaskId, Version};
use retrial::runtime::Runtime as _;
use retrial::store::{MemoryStore, RunPhase, Store};
use retrial::time::{Mono, Nanos};
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use retrial_sim::unstable::clock::true_now;
use retrial_sim::unstable::disk::CrashOutcome;
use retrial_sim::unstable::node::{Crash, CrashAt, NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{RuntimePlan, SimRuntime, run_seed};
use retrial_sim::unstable::workload::Draw;
use serde_json::json;

const SEEDS: u64 = 60;
const LIMIT: Nanos = Nanos::from_secs(2);
const LEASE: Nanos = Nanos::from_secs(3);
/// What polls, sweeps and commits may add.
const SLACK: Nanos = Nanos::from_millis(300);
/// Which functions each node has: every one is somewhere, `c` on one node alone.
const NODES: [&[&str]; 3] = [&["a", "b"], &["b"], &["a", "b", "c"]];

type Simulated = (SimRuntime, Arc<MemoryStore<SimRuntime>>, Registry);

/// What attempts really did.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Debug)]
struct Entry {
    run: RunId,
    task: TaskId,
    attempt: u32,
    at: Mono,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// The precondition was looked at.
    Before,
    /// The function began on this node, having seen this progress.
    Began {
        node: usize,
        seen: Option<u64>,
    },
    Beat,
    Cost(u64),
    /// The function's future is gone, or it has ended.
    Over,
}

impl Ledger {
    fn note(&self, context: &Context, what: What) {
        let (run, task, attempt) = (context.run(), context.task(), context.attempt());
        self.0.lock().unwrap().push(Entry { run, task, attempt, at: true_now(), what });
    }

    fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }
}

/// Notes that an attempt is over, however it ended.
struct Ends(Ledger, Context);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.note(&self.1, What::Over);
    }
}

/// What an attempt does, from the seed alone.
async fn act(
    seed: u64,
    node: usize,
    runtime: SimRuntime,
    ledger: Ledger,
    context: Context,
) -> Result<u64, Failure> {
    let TaskId { step, item } = context.task();
    let label = format!("{}-{item}-{}", step.0, context.attempt());
    let mut draw = Draw::new(seed, &label);
    let seen: Option<u64> = context.progress()?;
    ledger.note(&context, What::Began { node, seen });
    let _ends = Ends(ledger.clone(), context.clone());
    let mut done = seen.unwrap_or(0);
    for _ in 0..draw.small(0, 6) {
        runtime.sleep_until(runtime.now().after(draw.millis(1, 1_500))).await;
        if draw.chance(30) {
            let cost = draw.below(1_000_000);
            ledger.note(&context, What::Cost(cost));
            context.report_cost(cost);
        }
        done += 1;
        ledger.note(&context, What::Beat);
        if draw.chance(80) { context.heartbeat(done)? } else { context.beat() }
    }
    match draw.below(10) {
        0..=2 if context.attempt() < 6 => Err(Failure::http(503, "busy")),
        3 if context.attempt() < 6 => std::future::pending().await,
        _ => Ok(done),
    }
}

fn registry(seed: u64, node: usize, runtime: &SimRuntime, ledger: &Ledger) -> Registry {
    let mut registry = Registry::new();
    for name in NODES[node] {
        let (before, after) = (ledger.clone(), ledger.clone());
        let runtime = runtime.clone();
        registry
            .action(name)
            .precondition(move |context: Context| {
                before.note(&context, What::Before);
                std::future::ready(Ok::<_, Failure>(()))
            })
            .run(move |context: Context| act(seed, node, runtime.clone(), after.clone(), context))
            .postcondition(|context: Context, done: Arc<u64>| {
                let broken = *done == 0 && context.attempt() < 3;
                std::future::ready(if broken { Err("nothing was done") } else { Ok(()) })
            })
            .register();
    }
    registry
}

fn workflow() -> Arc<Workflow> {
    let policy = || {
        let backoff = Backoff::exponential(Nanos::from_millis(200));
        Policy::builder().attempts(12).backoff(backoff).build().unwrap()
    };
    let step = |id: &str, after: Vec<StepIx>| Step {
        after,
        for_each: Some(Template::try_from(json!([1, 2, 3])).unwrap()),
        heartbeat_timeout: Some(LIMIT),
        ..Step::new(id, id, policy())
    };
    let steps = vec![step("a", vec![]), step("b", vec![]), step("c", vec![StepIx(0)])];
    let parts = WorkflowParts { name: "w".into(), steps, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

/// What a seed left behind.
struct Left {
    ledger: Vec<Entry>,
    events: Vec<Recorded>,
    state: RunState,
    /// The progress in each task's row, as somebody outside saw it, with the time.
    rows: Vec<(Mono, TaskId, u64)>,
    crashes: Vec<Mono>,
}

fn live(seed: u64) -> Left {
    let ran = run_seed(seed, Nanos::from_secs(3_600), move || async move {
        let records = Records::new(false, 100_000_000);
        let ledger = Ledger::default();
        let shared: Arc<Mutex<Option<Arc<MemoryStore<SimRuntime>>>>> = Arc::default();
        let host = start_store(&records, &shared);
        madsim::time::sleep(Nanos::from_millis(5).into()).await;
        let store = shared.lock().unwrap().clone().expect("the store is there");
        let mut draw = Draw::new(seed, "crashes");
        let mut crashes = Vec::new();
        let mut nodes = vec![host];
        for number in 0..NODES.len() {
            let (store, ledger) = (Arc::clone(&store), ledger.clone());
            let plan = RuntimePlan { chance: seed * 8 + number as u64, ..RuntimePlan::default() };
            let parts = NodeParts { name: format!("n{number}"), ip: None, plan, disk: None };
            let node = SimNode::start(parts, &records, move |runtime, _| {
                let (store, ledger) = (Arc::clone(&store), ledger.clone());
                engine(seed, number, runtime, store, ledger)
            });
            // The last node, which has every function, stays.
            for _ in 0..if number + 1 < NODES.len() { draw.small(0, 3) } else { 0 } {
                let at = Mono::default().after(draw.millis(500, 12_000));
                crashes.push(at);
                let (outcome, down) = (CrashOutcome::LoseAll, draw.millis(10, 5_000));
                node.plan_crash(Crash { at: CrashAt::Time(at), outcome, down });
            }
            nodes.push(node);
        }
        let id = RunId::from_random(seed, 1);
        let rows = watchdog(&store, id).await;
        for node in &nodes {
            node.stop().await;
        }
        let loaded = store.load(id, Some(Version::START)).await.unwrap().unwrap();
        let events: Vec<_> = loaded.tail.events.iter().map(|b| run::decode(b).unwrap()).collect();
        let state = RunState::replay(id, &events).unwrap();
        crashes.sort();
        Left { ledger: ledger.entries(), events, state, rows, crashes }
    });
    ran.unwrap_or_else(|panic| panic!("{panic}"))
}

/// A node that only gives the store a clock.
fn start_store(
    records: &Records,
    shared: &Arc<Mutex<Option<Arc<MemoryStore<SimRuntime>>>>>,
) -> SimNode {
    let parts =
        NodeParts { name: "store".into(), ip: None, plan: RuntimePlan::default(), disk: None };
    let shared = Arc::clone(shared);
    SimNode::start(parts, records, move |runtime, _| {
        *shared.lock().unwrap() = Some(Arc::new(MemoryStore::new(runtime)));
        std::future::ready(())
    })
}

async fn engine(
    seed: u64,
    number: usize,
    runtime: SimRuntime,
    store: Arc<MemoryStore<SimRuntime>>,
    ledger: Ledger,
) {
    let actions = registry(seed, number, &runtime, &ledger);
    let config = Config { sole_owner: false, lease: LEASE, ..Config::default() };
    let engine = Engine::<Simulated>::start(runtime, store, actions, config, Vec::new()).await;
    if number + 1 == NODES.len() {
        let id = Some((RunId::from_random(seed, 1), seed));
        let submission = Submission { id, ..Submission::new(workflow()) };
        engine.submit(submission).await.unwrap();
    }
    std::future::pending::<()>().await;
    drop(engine);
}

/// Looks at the run's rows until it has ended.
async fn watchdog(store: &MemoryStore<SimRuntime>, run: RunId) -> Vec<(Mono, TaskId, u64)> {
    let mut rows = Vec::new();
    loop {
        madsim::time::sleep(Nanos::from_millis(20).into()).await;
        for row in store.queue(run).await.unwrap() {
            let progress = row.progress.and_then(|p| p.json).and_then(|json| json.parse().ok());
            rows.extend(progress.map(|number: u64| (true_now(), row.task, number)));
        }
        let heads = store.heads(None, 9).await.unwrap().runs;
        if heads.iter().any(|h| h.run == run && h.phase != RunPhase::Running) {
            return rows;
        }
    }
}

type Attempts = BTreeMap<(TaskId, u32), Vec<Entry>>;

fn attempts(left: &Left) -> Attempts {
    let mut found = Attempts::new();
    for entry in &left.ledger {
        assert_eq!(entry.run, left.state.id());
        found.entry((entry.task, entry.attempt)).or_default().push(entry.clone());
    }
    found
}

fn codes(left: &Left) -> BTreeMap<(TaskId, u32), String> {
    let failed = left.events.iter().filter_map(|r| match &r.event {
        Event::AttemptFailed { task, attempt, failure, .. } => {
            Some(((*task, *attempt), failure.code().as_str().to_owned()))
        }
        _ => None,
    });
    failed.collect()
}

/// What was judged, so that a sweep that judged nothing fails.
#[derive(Default)]
struct Judged {
    seen: usize,
    missed: usize,
    lost: usize,
    costs: usize,
    unchecked: usize,
    broken: usize,
}

fn judge(seed: u64, left: &Left, judged: &mut Judged) {
    let (attempts, codes) = (attempts(left), codes(left));
    assert!(codes.values().all(|code| code != "UNKNOWN_ACTION"), "seed {seed}: {codes:?}");
    for ((task, attempt), entries) in &attempts {
        let label = format!("seed {seed} task {task} attempt {attempt}: {entries:?}");
        let Some(began) = entries.iter().find(|e| matches!(e.what, What::Began { .. })) else {
            continue;
        };
        let What::Began { node, seen } = began.what else { unreachable!() };
        let action = left.state.workflow().step(task.step).unwrap().action.as_str();
        assert!(NODES[node].contains(&action), "x12 {label}");

        // X1: what was in the row before the attempt began is what it sees, or newer.
        let before = left.rows.iter().filter(|(at, of, _)| of == task && *at < began.at);
        let newest = before.map(|(_, _, number)| *number).max();
        assert!(seen >= newest, "x1 the row had {newest:?}: {label}");
        judged.seen += usize::from(newest.is_some());

        // X1: nobody goes on without a heartbeat.
        let mut last = began.at;
        for entry in entries.iter().filter(|e| matches!(e.what, What::Beat | What::Over)) {
            let gap = entry.at.since(last);
            assert!(gap <= LIMIT.saturating_add(SLACK), "x1 {gap} without a heartbeat: {label}");
            last = entry.at;
        }
        let code = codes.get(&(*task, *attempt)).map(String::as_str);
        judged.missed += usize::from(code == Some("HEARTBEAT_TIMEOUT"));
        judged.lost += usize::from(code == Some("LEASE_LOST"));
    }
    conditions(seed, &attempts, &codes, judged);
    costs(seed, left, &attempts, judged);
    for recorded in &left.events {
        let Event::TaskSucceeded { task, attempt, .. } = recorded.event else { continue };
        let beats = attempts[&(task, attempt)]
            .iter()
            .any(|e| matches!(e.what, What::Beat | What::Began { seen: Some(1..), .. }));
        assert!(beats || attempt >= 3, "h10 seed {seed} task {task} attempt {attempt} did nothing");
    }
}

/// H10: looked at before the function, and not again once an attempt that went past it has said so.
fn conditions(
    seed: u64,
    attempts: &Attempts,
    codes: &BTreeMap<(TaskId, u32), String>,
    judged: &mut Judged,
) {
    let mut held: BTreeMap<TaskId, bool> = BTreeMap::new();
    for ((task, attempt), entries) in attempts {
        let held = held.entry(*task).or_default();
        let looked = entries.iter().position(|e| e.what == What::Before);
        let began = entries.iter().position(|e| matches!(e.what, What::Began { .. }));
        let label = format!("h10 seed {seed} task {task} attempt {attempt}: {entries:?}");
        assert!(looked.is_none() || !*held, "looked at again: {label}");
        if *attempt == 1 {
            assert!(looked < began || began.is_none(), "{label}");
        }
        judged.unchecked += usize::from(looked.is_none());
        let code = codes.get(&(*task, *attempt)).map(String::as_str);
        judged.broken += usize::from(code == Some("POSTCONDITION_FAILED"));
        *held |= began.is_some() && matches!(code, Some("503" | "POSTCONDITION_FAILED"));
    }
}

/// H17: the sums are those of the events, and each event says what the attempt said.
fn costs(seed: u64, left: &Left, attempts: &Attempts, judged: &mut Judged) {
    let mut sum = Cost::ZERO;
    for recorded in &left.events {
        let Event::CostReported { task, attempt, cost } = recorded.event else { continue };
        sum = sum.plus(cost);
        let said = attempts[&(task, attempt)].iter().filter_map(|e| match e.what {
            What::Cost(n) => Some(n),
            _ => None,
        });
        assert_eq!(said.sum::<u64>(), cost.millionths(), "h17 seed {seed} task {task} #{attempt}");
        judged.costs += 1;
    }
    assert_eq!(left.state.cost(), sum, "h17 seed {seed}");
}

#[test]
fn x1_x12_h10_h17_registered_actions_keep_their_promises_while_nodes_crash() {
    let mut judged = Judged::default();
    let mut crashes = 0;
    for seed in 0..SEEDS {
        let left = live(seed);
        crashes += left.crashes.len();
        judge(seed, &left, &mut judged);
    }
    let Judged { seen, missed, lost, costs, unchecked, broken } = judged;
    for (what, count) in [
        ("crashes", crashes),
        ("progress", seen),
        ("missed heartbeats", missed),
        ("lost leases or heartbeats", lost + missed),
        ("costs", costs),
        ("preconditions that held before", unchecked),
        ("postconditions that did not hold", broken),
    ] {
        assert!(count > 3, "{what} were judged {count} times");
    }
}
