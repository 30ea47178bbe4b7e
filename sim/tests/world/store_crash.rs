//! The redb store under the real engine on the simulated disk: a crash at every disk call of a
//! workload, with several fates at every sync, and EIO at every disk call. Promise 5, W12: what was
//! acknowledged is there, what was not is there whole or not at all, the queue's rows follow from
//! the events, and what succeeded is restored and never run again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use retrial::action::{Actions, Call, Outcome};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Policy};
use retrial::run::{self, Event, Phase, Recorded, RunId, RunState, TaskId, Version, Waits};
use retrial::runtime::Runtime as _;
use retrial::store::{
    Answer, Commit, Committed, Create, Created, Loaded, QueueRow, QueueState, RedbStore, Request,
    ResultRow, RunPhase, Store, StoreError,
};
use retrial::time::Nanos;
use retrial::workflow::{Step, StepIx, Template, Workflow, WorkflowParts};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::disk::{CrashOutcome, DiskPlan, FailedSync, OpAt, SimDisk};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::node::{Crash, CrashAt, NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{RuntimePlan, SimRuntime, run_seed};
use serde_json::{Value, json};

const RUNS: u64 = 3;

fn run_id(n: u64) -> RunId {
    RunId::from_random(n, n)
}

/// What everybody outside the store remembers of it, over all lives of its node.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    runs: BTreeMap<RunId, Page>,
    succeeded: BTreeSet<(RunId, TaskId)>,
    wrong: Vec<String>,
    /// How often a life began with something that was there though nobody had acknowledged it, and
    /// with something gone that nobody had.
    unheard: u32,
    gone: u32,
}

/// One run.
#[derive(Default)]
struct Page {
    /// Creations that may have landed.
    asked: Vec<Vec<Bytes>>,
    /// What was acknowledged: events, and results by the version after their commit.
    events: Vec<Bytes>,
    results: Vec<(Version, ResultRow)>,
    /// The commit that may have landed. A lane has one in flight.
    pending: Option<Commit>,
}

impl Page {
    /// The creation landed, now or by an earlier sending: all sendings of one life are the same.
    fn created(&mut self) {
        if self.events.is_empty() {
            self.events = self.asked.last().cloned().unwrap_or_default();
        }
    }

    fn land(&mut self, commit: &Commit) {
        // After EIO a run may be worked on before its creation is acknowledged.
        self.created();
        self.events.truncate(usize::try_from(commit.expect.0).unwrap());
        self.events.extend(commit.events.iter().cloned());
        let version = commit.expect.after(commit.events.len());
        self.results.extend(commit.results.iter().map(|row| (version, row.clone())));
        self.pending = None;
    }

    fn last(&self) -> Option<Recorded> {
        self.events.last().map(|bytes| run::decode(bytes).unwrap())
    }
}

impl Book {
    fn pages<T>(&self, act: impl FnOnce(&mut Pages) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    fn page<T>(&self, run: RunId, act: impl FnOnce(&mut Page) -> T) -> T {
        self.pages(|pages| act(pages.runs.entry(run).or_default()))
    }

    fn wrong(&self, what: String) {
        self.pages(|pages| pages.wrong.push(what));
    }

    fn all_ended(&self) -> bool {
        let ended = |page: &Page| {
            page.pending.is_none()
                && page.last().is_some_and(|r| matches!(r.event, Event::RunEnded { .. }))
        };
        self.pages(|pages| pages.runs.len() as u64 == RUNS && pages.runs.values().all(ended))
    }
}

/// The store, with the book kept beside it.
struct Booked {
    store: RedbStore,
    book: Book,
    incarnation: Incarnation,
}

impl Booked {
    async fn create_and_book(&self, create: Create) -> Result<Created, StoreError> {
        let run = create.run;
        self.book.page(run, |page| page.asked.push(create.events.clone()));
        let answer = self.store.create(create).await;
        if !self.incarnation.is_over() && matches!(answer, Ok(Created::New { .. })) {
            self.book.page(run, Page::created);
        }
        answer
    }

    async fn commit_and_book(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.book.page(commit.run, |page| page.pending = Some(commit.clone()));
        let answer = self.store.commit(commit.clone()).await;
        if self.incarnation.is_over() {
            return answer;
        }
        match &answer {
            Ok(Committed::Applied { .. } | Committed::Already { .. }) => {
                self.book.page(commit.run, |page| page.land(&commit));
                let succeeded = commit.results.iter().map(|row| (commit.run, row.task));
                self.book.pages(|pages| pages.succeeded.extend(succeeded));
            }
            // A failed commit opens the store again, which forgets reservations.
            Ok(Committed::Fenced { .. }) => {
                self.book.page(commit.run, |page| page.pending = None);
            }
            Ok(refused) => self.book.wrong(format!("one writer was refused: {refused:?}")),
            Err(_) => {}
        }
        answer
    }
}

impl Store for Booked {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        Ok(match request {
            Request::Create(create) => Answer::Create(self.create_and_book(create).await?),
            Request::Commit(commit) => Answer::Commit(self.commit_and_book(commit).await?),
            other => self.store.ask(other).await?,
        })
    }
}

/// Compares the store with the book, before anything is asked of the store in this life. What turns
/// out to have landed counts as known from now on.
async fn compare(store: &RedbStore, book: &Book) -> Result<(), StoreError> {
    let heads = store.heads(None, 99).await?;
    for n in 0..RUNS {
        let run = run_id(n);
        let whole = store.load(run, Some(Version::START)).await?;
        let newest = store.load(run, None).await?;
        let rows = store.queue(run).await?;
        let phase = heads.runs.iter().find(|head| head.run == run).map(|head| head.phase);
        let judged = judge(book, run, whole, newest, &rows, phase);
        if let Err(what) = judged {
            book.wrong(format!("run {n}: {what}"));
        }
    }
    Ok(())
}

fn judge(
    book: &Book,
    run: RunId,
    whole: Option<Loaded>,
    newest: Option<Loaded>,
    rows: &[QueueRow],
    phase: Option<RunPhase>,
) -> Result<(), String> {
    let (Some(whole), Some(newest), Some(phase)) = (whole, newest, phase) else {
        let acked = book.page(run, |page| page.events.len());
        let asked = book.page(run, |page| std::mem::take(&mut page.asked).len() as u32);
        book.pages(|pages| pages.gone += asked);
        return if acked == 0 { Ok(()) } else { Err(format!("{acked} events are gone")) };
    };
    settle(book, run, &whole.tail.events)?;
    book.page(run, |page| {
        if page.events != whole.tail.events {
            return Err(format!("{} events, known {}", whole.tail.events.len(), page.events.len()));
        }
        let known: Vec<_> = page.results.iter().map(|(_, row)| row.clone()).collect();
        if whole.tail.results != known || newest.tail.results != known {
            return Err(format!("results {:?}, known {known:?}", whole.tail.results));
        }
        Ok(())
    })?;
    let events: Vec<Recorded> =
        whole.tail.events.iter().map(|bytes| run::decode(bytes).unwrap()).collect();
    let state = RunState::replay(run, &events).map_err(|e| e.to_string())?;
    same("the rows", shape(rows), owed(&state))?;
    same("the phase", phase, phase_of(&state))?;
    let Some(snapshot) = &newest.snapshot else { return Ok(()) };
    let mut folded = run::decode_snapshot(&snapshot.state).map_err(|e| e.to_string())?;
    for event in &events[usize::try_from(snapshot.version.0).unwrap()..] {
        folded.apply(event).map_err(|e| e.to_string())?;
    }
    same("snapshot and tail", run::encode_snapshot(&folded), run::encode_snapshot(&state))
}

/// Takes what landed without an answer into the book.
fn settle(book: &Book, run: RunId, found: &[Bytes]) -> Result<(), String> {
    let (unheard, succeeded) = book.page(run, |page| {
        let asked = std::mem::take(&mut page.asked);
        let is_first = page.events.is_empty();
        if is_first {
            page.events = asked.into_iter().find(|events| events[..] == *found).unwrap_or_default();
        }
        let Some(commit) = page.pending.take() else { return (u32::from(is_first), None) };
        let landed = found.len() as u64 == commit.expect.after(commit.events.len()).0;
        if landed && found.len() > page.events.len() {
            page.land(&commit);
            return (1, Some(commit));
        }
        (0, None)
    });
    book.pages(|pages| {
        pages.unheard += unheard;
        let rows = succeeded.iter().flat_map(|c| c.results.iter().map(|row| (run, row.task)));
        pages.succeeded.extend(rows);
    });
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, and should be {expected:?}"))
}

type Row = (TaskId, u32, Option<run::Token>);

fn shape(rows: &[QueueRow]) -> Vec<Row> {
    let token = |row: &QueueRow| match row.state {
        QueueState::Due { .. } => None,
        QueueState::Leased { token, .. } => Some(token),
    };
    rows.iter().map(|row| (row.task, row.attempt, token(row))).collect()
}

fn owed(state: &RunState) -> Vec<Row> {
    let row = |(task, attempt, waits)| match waits {
        Waits::Due => (task, attempt, None),
        Waits::Leased(token) => (task, attempt, Some(token)),
    };
    run::queue_of(state).into_iter().map(row).collect()
}

fn phase_of(state: &RunState) -> RunPhase {
    match state.phase() {
        Phase::Running => RunPhase::Running,
        Phase::Deactivated => RunPhase::Deactivated,
        Phase::Ended(run::Outcome::Completed) => RunPhase::Completed,
        Phase::Ended(run::Outcome::Failed { .. }) => RunPhase::Failed,
        Phase::Ended(run::Outcome::Cancelled { .. }) => RunPhase::Cancelled,
    }
}

/// Every third task of a fan-out fails once; the step `bad` always fails.
struct Acts(Book);

impl Actions for Acts {
    async fn invoke(&self, call: Call) -> Outcome {
        let again = self.0.pages(|pages| pages.succeeded.contains(&(call.run, call.task)));
        if again {
            self.0.wrong(format!("task {} has succeeded and is run again", call.task));
        }
        let fan = call.args.get("fan").and_then(Value::as_array);
        if fan.is_some_and(|results| results.iter().any(|r| r["item"].is_null())) {
            self.0.wrong(format!("a result was not restored: {}", call.args));
        }
        match call.step == "bad" || (call.attempt == 1 && call.task.item % 3 == 1) {
            true => Err(Failure::http(503, "busy")),
            false => Ok(json!({ "item": call.task.item, "text": "x".repeat(400) })),
        }
    }
}

fn step(id: &str, after: &[u16]) -> Step {
    let backoff = Backoff::exponential(Nanos::from_millis(40));
    // A crash uses up an attempt; the workload has two of its own at most.
    let attempts = if id == "bad" { 2 } else { 6 };
    Step {
        args: Template::try_from(json!({ "item": "${input.n}" })).unwrap(),
        after: after.iter().map(|n| StepIx(*n)).collect(),
        ..Step::new(
            id,
            "act",
            Policy::builder().attempts(attempts).backoff(backoff).build().unwrap(),
        )
    }
}

/// A fan-out and what follows it; in the last run a failure.
fn workflow(n: u64) -> Arc<Workflow> {
    let for_each = Some(Template::try_from(json!("${input.items}")).unwrap());
    let fan = Step { for_each, ..step("fan", &[]) };
    let args = Template::try_from(json!({ "fan": "${steps.fan.result}" })).unwrap();
    let last = Step { args, ..step(if n + 1 == RUNS { "bad" } else { "last" }, &[0]) };
    let input = json!({ "items": [1, 2, 3], "n": n }).as_object().cloned().unwrap();
    let steps = vec![fan, last];
    let parts = WorkflowParts { name: format!("w{n}"), input, steps, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).unwrap())
}

type OnDisk = (SimRuntime, Arc<Booked>, Acts);

/// One life: opens, compares, and lets the engine work until everything has ended.
async fn live(runtime: SimRuntime, incarnation: Incarnation, disk: SimDisk, book: Book) {
    let store = loop {
        let (disk, of) = (disk.clone(), incarnation.clone());
        let backend = move || Ok(disk.open(&of));
        let opened = RedbStore::open_with_backend(runtime.clone(), "the disk", backend).await;
        let Ok(store) = opened else {
            runtime.sleep_until(runtime.now().after(Nanos::from_millis(20))).await;
            continue;
        };
        // A disk that fails while it is read is read again.
        if compare(&store, &book).await.is_ok() {
            break store;
        }
        store.close().await;
    };
    let store = Arc::new(Booked { store, book: book.clone(), incarnation });
    let lease = Nanos::from_secs(2);
    let config = Config { lease, snapshot_tail: 1_500, ..Config::default() };
    let (clock, acts) = (runtime.clone(), Acts(book.clone()));
    let engine = Engine::<OnDisk>::start(runtime, store, acts, config, vec![]).await;
    for n in 0..RUNS {
        let asked = Submission { id: Some((run_id(n), n)), ..Submission::new(workflow(n)) };
        engine.submit(asked.with_key(format!("key {n}"))).await.unwrap();
    }
    while !book.all_ended() {
        clock.sleep_until(clock.now().after(Nanos::from_millis(20))).await;
    }
}

/// What came of a workload.
struct Done {
    ops: u64,
    /// Which disk calls were syncs.
    syncs: Vec<u64>,
    lives: u32,
    eio: bool,
    unheard: u32,
    gone: u32,
}

/// Runs the workload on a disk with this plan, with these crashes, to its end; then cuts the power
/// once more and opens the store for a last look.
fn worked(plan: DiskPlan, crashes: Vec<Crash>) -> Result<Done, String> {
    let ran = run_seed(7, Nanos::from_secs(3_600), move || async move {
        let records = Records::new(crashes.is_empty() && plan.eio.is_empty(), 2_000_000);
        let (disk, book) = (SimDisk::new("n", plan, &records), Book::default());
        let (opened, kept) = (disk.clone(), book.clone());
        let boot =
            move |runtime, incarnation| live(runtime, incarnation, opened.clone(), kept.clone());
        let plan = RuntimePlan::default();
        let parts = NodeParts { name: "n".into(), ip: None, plan, disk: Some(disk.clone()) };
        let node = SimNode::start(parts, &records, boot);
        crashes.into_iter().for_each(|crash| node.plan_crash(crash));
        for _ in 0..600 {
            if book.all_ended() && !node.incarnation().is_over() {
                break;
            }
            madsim::time::sleep(Nanos::from_millis(100).into()).await;
        }
        let (ops, ended) = (disk.ops(), book.all_ended());
        disk.heal();
        node.crash_and_restart(CrashOutcome::LoseAll, Nanos::ZERO).await;
        madsim::time::sleep(Nanos::from_secs(1).into()).await;
        node.stop().await;
        book.pages(|pages| {
            if !ended {
                pages.wrong.push("the workload did not end".to_owned());
            }
            pages.wrong.extend(outcomes(pages));
            pages.wrong.extend(records.watchdog.findings().iter().map(ToString::to_string));
            if !pages.wrong.is_empty() {
                return Err(pages.wrong.join("\n  "));
            }
            Ok(Done {
                ops,
                syncs: syncs_of(&records, ops),
                lives: node.number(),
                eio: records.strikes.counts().contains_key(&FaultKind::Eio),
                unheard: pages.unheard,
                gone: pages.gone,
            })
        })
    });
    ran.map_err(|panic| panic.to_string())?
}

/// The numbers of the syncs among a disk's first `ops` calls.
fn syncs_of(records: &Records, ops: u64) -> Vec<u64> {
    let lines = records.trace.lines();
    let syncs = lines.iter().filter_map(|line| line.text.strip_prefix("sync #"));
    syncs.map(|number| number.parse().unwrap()).filter(|number| *number < ops).collect()
}

/// What is wrong with how the runs ended: each fan-out whole, the last run failed.
fn outcomes(pages: &Pages) -> Vec<String> {
    let wrong = (0..RUNS).filter_map(|n| {
        let page = pages.runs.get(&run_id(n))?;
        let results: Vec<TaskId> = page.results.iter().map(|(_, row)| row.task).collect();
        let tasks: BTreeSet<TaskId> = results.iter().copied().collect();
        let expected = if n + 1 == RUNS { 3 } else { 4 };
        if tasks.len() != results.len() || tasks.len() != expected {
            return Some(format!("run {n} has the results {results:?}"));
        }
        let Event::RunEnded { outcome } = page.last()?.event else { return None };
        let completed = outcome == run::Outcome::Completed;
        (completed == (n + 1 == RUNS)).then(|| format!("run {n} ended {outcome:?}"))
    });
    wrong.collect()
}

fn crash(op: u64, outcome: CrashOutcome) -> Crash {
    Crash { at: CrashAt::DiskOp(op), outcome, down: Nanos::from_millis(10) }
}

/// How long calls take, so that requests wait and go into one transaction.
fn slow() -> DiskPlan {
    let latency = Nanos::new(100_000);
    DiskPlan { write_latency: latency, sync_latency: latency, ..DiskPlan::default() }
}

/// The workload without a fault: how many disk calls it makes, and which of them are syncs.
fn undisturbed() -> Done {
    let done = worked(slow(), vec![]).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!((done.lives, done.unheard, done.gone, done.eio), (1, 0, 0, false));
    assert!(done.ops > 150 && done.syncs.len() > 10, "{} {:?}", done.ops, done.syncs);
    done
}

/// Adds up what came of several workloads; panics over those in which something was wrong.
fn all_right(tried: impl Iterator<Item = (String, Result<Done, String>)>) -> Vec<Done> {
    let (mut done, mut wrong) = (Vec::new(), Vec::new());
    for (name, came) in tried {
        match came {
            Ok(one) => done.push(one),
            Err(what) => wrong.push(format!("{name}:\n  {what}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    done
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn a_crash_at_any_disk_call_loses_nothing_acknowledged() {
    let calm = undisturbed();
    let outcomes = |op: u64| {
        let mut outcomes = vec![if op.is_multiple_of(2) {
            CrashOutcome::LoseAll
        } else {
            CrashOutcome::Drawn(op)
        }];
        if calm.syncs.contains(&op) {
            outcomes.extend([
                CrashOutcome::KeepAll,
                CrashOutcome::KeepFirst(1),
                CrashOutcome::KeepFirst(3),
            ]);
            outcomes.extend([
                CrashOutcome::LoseOnly(0),
                CrashOutcome::LoseOnly(2),
                CrashOutcome::Drawn(op + 1_000),
            ]);
        }
        outcomes
    };
    let crashes =
        (0..calm.ops).flat_map(|op| outcomes(op).into_iter().map(move |outcome| (op, outcome)));
    let tried = crashes.map(|(op, outcome)| {
        let came = worked(slow(), vec![crash(op, outcome)]);
        (format!("call {op}, {outcome:?}"), came)
    });
    let done = all_right(tried);
    // The last look is a life of its own.
    assert!(done.iter().all(|d| d.lives == 2), "every crash must come");
    let count = |of: fn(&Done) -> u32| done.iter().map(of).sum::<u32>();
    let (unheard, gone) = (count(|d| d.unheard), count(|d| d.gone));
    assert!(unheard >= 10 && gone >= 20, "{unheard} unheard and {gone} gone of {}", done.len());
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn a_crash_while_recovering_from_a_crash_loses_nothing_acknowledged() {
    let calm = undisturbed();
    let pairs = calm.syncs.iter().flat_map(|first| [2, 9, 17, 30].map(|later| (*first, later)));
    let tried = pairs.map(|(first, later)| {
        let outcome = CrashOutcome::Drawn(first ^ later);
        let crashes = vec![crash(first, outcome), crash(first + later, outcome)];
        (format!("calls {first} and {later} later"), worked(slow(), crashes))
    });
    let done = all_right(tried);
    assert!(done.iter().all(|d| d.lives == 3), "every crash must come");
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn eio_at_any_disk_call_loses_nothing_and_does_nothing_twice() {
    let calm = undisturbed();
    let after = |failed_sync, op| {
        let plan = DiskPlan { eio: vec![OpAt::Number(op)], failed_sync, ..slow() };
        (format!("call {op}, {failed_sync:?}"), worked(plan, vec![]))
    };
    let each = (0..calm.ops).map(|op| after(FailedSync::StaysDirty, op));
    let settled = [CrashOutcome::KeepAll, CrashOutcome::LoseAll, CrashOutcome::Drawn(3)]
        .map(FailedSync::Settled);
    let syncs = calm.syncs.iter().flat_map(|op| settled.map(|failed| after(failed, *op)));
    let done = all_right(each.chain(syncs));
    assert!(done.iter().all(|d| d.eio), "every fault must strike");
}
