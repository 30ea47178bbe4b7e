//! A store over the simulated network: what callers get under each fault, and that sending the
//! same commit again after `Unknown` applies it once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use crate::net_world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use madsim::runtime::Handle;
use madsim::time::sleep;
use net_world::*;
use retrial::run::{Progress, RunId, TaskId, Token, Version};
use retrial::store::{
    Answer, Archived, AskRuns, Claim, ClaimId, Claimed, ClaimedTask, Commit, CommitId, Committed,
    Create, Created, Defined, Definition, Discarded, Expired, Fence, GuardRow, Heartbeat, Holding,
    LeasedTask, Letters, Listed, Loaded, Pruned, QueueChange, QueueRow, QueueState, Renewal,
    Renewed, Report, Request, ResultRow, RunCursor, RunFilter, RunPhase, Store, StoreError,
    StoredDefinition, StoredReport, Stranded, Tail, Tally,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Need, StepIx, Via};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::net::{Direction, Effect, NetPlan, Which, Window};
use retrial_sim::unstable::remote::{
    RemoteStore, StoreEffect, StoreFault, StoreFaults, StoreOp, StorePlan, serve,
};

/// A store of one counter: commits land once by their id, in order. Clones share it.
#[derive(Clone, Default)]
struct Stub(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    version: u64,
    receipts: BTreeMap<CommitId, Version>,
    /// Every call of `commit`, whatever came of it.
    calls: Vec<CommitId>,
}

const AT: Timestamp = Timestamp::from_nanos(77);
const TASK: TaskId = TaskId { step: StepIx(3), item: 1 };

fn need() -> Need {
    Need { action: "act".into(), via: Via::Http }
}

fn progress() -> Progress {
    Progress { number: 3, json: Some("{\"done\": 1}".into()), checked: true }
}

fn run_id() -> RunId {
    RunId::from_random(1, 2)
}

impl Stub {
    fn landed(&self) -> Vec<CommitId> {
        self.0.lock().unwrap().receipts.keys().copied().collect()
    }

    fn calls(&self) -> usize {
        self.0.lock().unwrap().calls.len()
    }
}

impl Stub {
    fn commit(&self, commit: Commit) -> Committed {
        let mut books = self.0.lock().unwrap();
        books.calls.push(commit.id);
        if let Some(version) = books.receipts.get(&commit.id) {
            return Committed::Already { version: *version, at: AT };
        }
        if commit.expect != Version(books.version) {
            let tail = Tail { events: commit.events, results: commit.results };
            return Committed::Conflict { tail, at: AT };
        }
        books.version += 1;
        let version = Version(books.version);
        books.receipts.insert(commit.id, version);
        Committed::Applied { version, at: AT }
    }

    fn claim(claim: &Claim) -> Claimed {
        let token = Token::from_random(claim.id.counter, claim.chance);
        let progress = Some(progress());
        let task =
            ClaimedTask { run: run_id(), task: TASK, attempt: 2, need: need(), token, progress };
        let tasks = vec![task; claim.limit];
        Claimed { at: AT, tasks, next_due: None, unable: vec![(need(), AT)] }
    }

    fn definition(name: String) -> StoredDefinition {
        let definition = Definition { name, format: "ir".into(), text: "x = @a()".into() };
        StoredDefinition { definition, revision: 7, at: AT }
    }
}

impl Store for Stub {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        Ok(match request {
            Request::Clock => Answer::Clock(AT),
            Request::Create(create) => {
                Answer::Create(Created::Existing { run: create.run, at: AT })
            }
            Request::Claim(claim) => Answer::Claim(Self::claim(&claim)),
            Request::Commit(commit) => Answer::Commit(self.commit(commit)),
            Request::Renew(held) => {
                Answer::Renew(Renewed { at: AT, answers: vec![Renewal::Lost; held.len()] })
            }
            Request::Expired { limit } => {
                let next = Some(Timestamp::from_nanos(limit as u64));
                Answer::Expired(Expired { at: AT, tasks: vec![], next })
            }
            Request::Leases { after, .. } => {
                let leased =
                    |(run, task)| LeasedTask { run, task, token: Token::from_random(1, 2) };
                Answer::Leases(after.map(leased).into_iter().collect())
            }
            Request::Load { run, .. } if run != run_id() => {
                return Err(StoreError::Broken(format!("run {run}")));
            }
            Request::Load { after, .. } => {
                let (version, tail) = (after.unwrap_or_default(), Tail::default());
                Answer::Load(Some(Loaded { at: AT, version, snapshot: None, tail }))
            }
            Request::Heads { .. } => return Err(StoreError::NotDone("full".to_owned())),
            Request::Stranded { after, .. } => {
                Answer::Stranded(Stranded { runs: vec![], next: after })
            }
            Request::Queue(_) => {
                let state = QueueState::Due { at: AT, need: need() };
                let progress = Some(progress());
                Answer::Queue(vec![QueueRow { task: TASK, attempt: 4, state, progress }])
            }
            Request::Trim { .. } => Answer::Trim,
            Request::Letters(ask) => {
                let damaged = ask.after.into_iter().collect();
                Answer::Letters(Letters { at: AT, letters: vec![], damaged })
            }
            Request::Letter(_) => Answer::Letter(None),
            Request::Discard { id, .. } => Answer::Discard(Discarded::Redriven { run: id.run }),
            Request::Archive(_) => Answer::Archive(Archived::Done { since: AT }),
            Request::Prune(prune) => {
                Answer::Prune(Pruned { at: AT, runs: vec![], next: prune.after })
            }
            Request::List(ask) => {
                let (next, damaged) = (ask.before, vec![run_id()]);
                Answer::List(Listed { at: AT, runs: vec![], next, damaged })
            }
            Request::Tally => {
                let phases = [(RunPhase::Paused, 3)].into();
                Answer::Tally(Tally { at: AT, phases, letters: 2 })
            }
            Request::Guards => {
                Answer::Guards(vec![GuardRow { action: "act".into(), standing: None }])
            }
            Request::Define(definition) => {
                Answer::Define(Defined { revision: definition.text.len() as u64, at: AT })
            }
            Request::Report(_) => Answer::Report,
            Request::Reports => {
                let report = Report { node: "a".to_owned(), body: Bytes::from_static(b"\xff") };
                Answer::Reports(vec![StoredReport { report, at: AT }])
            }
            Request::Definition(name) => Answer::Definition(Some(Self::definition(name))),
            Request::Definitions { after, limit } => {
                Answer::Definitions(vec![Self::definition(after.unwrap_or_default()); limit])
            }
        })
    }
}

/// The `n`-th commit of the test's one writer.
fn commit(n: u64) -> Commit {
    let token = Token::from_random(8, 9);
    Commit {
        id: CommitId { writer: 1, counter: n },
        run: run_id(),
        expect: Version(n),
        fences: vec![Fence::Held { task: TASK, token }],
        events: vec![Bytes::from_static(b"\x00event\xff")],
        queue: vec![QueueChange::Due {
            task: TASK,
            attempt: 2,
            after: Nanos::from_secs(1),
            need: need(),
            progress: None,
        }],
        results: vec![ResultRow { task: TASK, attempt: 1, result: Bytes::from_static(b"{}") }],
        phase: RunPhase::Running,
        snapshot: Some(Bytes::from_static(b"state")),
        guards: vec![],
        raised: vec![],
        creates: vec![],
        letters: vec![],
    }
}

/// The answer that a caller got, in a word.
fn word<T: std::fmt::Debug>(told: &Result<T, StoreError>) -> String {
    match told {
        Ok(answer) => format!("{answer:?}").split([' ', '{', '(']).next().unwrap().to_owned(),
        Err(StoreError::Unknown(_)) => "Unknown".to_owned(),
        Err(StoreError::NotDone(_)) => "NotDone".to_owned(),
        Err(StoreError::Broken(_)) => "Broken".to_owned(),
    }
}

/// Starts the store's node.
fn open(world: &World, stub: &Stub, faults: &StoreFaults, incarnation: Incarnation) {
    let (net, stub, faults) = (world.net.clone(), Arc::new(stub.clone()), faults.clone());
    let node = Handle::current().get_node("store").unwrap();
    node.spawn(async move {
        let listener = net.listen(incarnation, 5432).await.unwrap();
        serve(stub, listener, faults).await
    });
}

fn client(world: &World) -> RemoteStore<PlainRuntime> {
    RemoteStore::new(PlainRuntime, world.net.connector(incarnation("a")), "store", 5432)
}

/// Sends `count` commits one after the other, each again until a definite answer; returns every
/// answer in order.
async fn write(store: &impl Store, count: u64) -> Vec<String> {
    let mut told = Vec::new();
    for n in 0..count {
        loop {
            let answer = store.commit(commit(n)).await;
            told.push(word(&answer));
            match answer {
                Ok(Committed::Applied { .. } | Committed::Already { .. }) => break,
                Ok(refused) => panic!("{refused:?}"),
                Err(_) => sleep(millis(100)).await,
            }
        }
    }
    told
}

/// Three commits under these faults: the answer to the caller, and the store and world after them.
fn commits(net: NetPlan, faults: Vec<StoreFault>) -> (Vec<String>, Stub, World) {
    within(2, net, move |world| async move {
        let (a, _store) = (world.node("a", 1), world.node("store", 2));
        let stub = Stub::default();
        let plan = StorePlan { faults };
        let faults = StoreFaults::new(plan, world.trace.clone(), world.strikes.clone());
        open(&world, &stub, &faults, incarnation("store"));
        let remote = client(&world);
        let told = a.spawn(async move {
            sleep(millis(5)).await;
            write(&remote, 3).await
        });
        let told = told.await.unwrap();
        sleep(millis(20_000)).await;
        (told, stub, world)
    })
}

/// `effect` on the second commit: the answer to the caller, and how often the store is called.
#[track_caller]
fn check(effect: StoreEffect, told: &[&str], calls: usize, kind: FaultKind) {
    let fault = StoreFault {
        window: Window::ALWAYS,
        node: Some("a".to_owned()),
        op: Some(StoreOp::Commit),
        which: Which::Nth(1),
        effect,
    };
    let (answers, stub, world) = commits(plan([]), vec![fault]);
    assert_eq!(answers, told, "{effect:?}");
    assert_eq!(stub.landed(), [0, 1, 2].map(|n| commit(n).id));
    assert_eq!(stub.calls(), calls);
    assert_eq!(world.strikes.counts(), [(kind, 1)].into());
}

#[test]
fn a_commit_sent_again_after_unknown_lands_once() {
    use FaultKind::{Delay, StoreAnswerLost, StoreDuplicate, StoreRequestLost};
    let unknown = |then| ["Applied", "Unknown", then, "Applied"];
    check(StoreEffect::LoseRequest, &unknown("Applied"), 3, StoreRequestLost);
    check(StoreEffect::LoseAnswer, &unknown("Already"), 4, StoreAnswerLost);
    let late = StoreEffect::Delay { by: Nanos::from_secs(5) };
    check(late, &unknown("Applied"), 4, Delay);
    for after in [Nanos::ZERO, Nanos::from_secs(5)] {
        let twice = StoreEffect::Duplicate { after };
        check(twice, &["Applied", "Applied", "Applied"], 4, StoreDuplicate);
    }
    let soon = StoreEffect::Delay { by: Nanos::from_millis(500) };
    check(soon, &["Applied", "Applied", "Applied"], 3, Delay);
}

#[test]
fn a_connection_lost_at_any_byte_loses_no_commit() {
    let mut unknown = 0;
    for direction in [Direction::Request, Direction::Response] {
        for byte in (0..900).step_by(23) {
            let effect = if byte % 2 == 0 {
                Effect::ResetAt { byte, direction }
            } else {
                Effect::CutAt { byte, direction }
            };
            let (told, stub, world) = commits(plan([nth(0, effect)]), vec![]);
            assert_eq!(stub.landed().len(), 3, "{effect:?}: {told:?}");
            let struck = world.strikes.counts().values().sum::<u64>() as usize;
            assert_eq!(told.len(), 3 + struck, "{effect:?}: {told:?}");
            unknown += told.iter().filter(|t| *t == "Unknown").count();
        }
    }
    assert!(unknown > 30, "only {unknown}");
}

#[test]
fn what_never_left_is_not_done() {
    let (told, stub, _) = commits(plan([nth(0, Effect::Refuse)]), vec![]);
    assert_eq!(told, ["NotDone", "Applied", "Applied", "Applied"]);
    assert_eq!(stub.calls(), 3);
    let hang = Effect::Hang;
    let (told, stub, world) = commits(plan([nth(0, hang), nth(1, hang)]), vec![]);
    assert_eq!(told, ["NotDone", "NotDone", "Applied", "Applied", "Applied"]);
    assert_eq!((stub.calls(), world.struck(FaultKind::ConnectHang)), (3, 2));
}

#[test]
fn a_silent_connection_is_given_up_for_a_new_one() {
    let stall =
        Effect::Stall { byte: 10, direction: Direction::Response, lasts: Nanos::from_secs(3_600) };
    let (told, stub, _) = commits(plan([nth(0, stall)]), vec![]);
    assert_eq!(told, ["Unknown", "Already", "Applied", "Applied"]);
    assert_eq!(stub.calls(), 4);
}

#[test]
fn a_crashed_store_is_unknown_until_it_is_back() {
    let (told, landed) = within(6, plan([]), |world| async move {
        let (a, _store) = (world.node("a", 1), world.node("store", 2));
        let (stub, plan) = (Stub::default(), StorePlan::default());
        let faults = StoreFaults::new(plan, world.trace.clone(), world.strikes.clone());
        let first = Incarnation::new("store", 0);
        open(&world, &stub, &faults, first.clone());
        let remote = client(&world);
        let talks = a.spawn(async move {
            sleep(millis(5)).await;
            let mut told = write(&remote, 1).await;
            sleep(millis(1_000)).await;
            for n in 1..20 {
                told.push(word(&remote.commit(commit(n.min(1))).await));
                sleep(millis(500)).await;
            }
            told.dedup();
            told
        });
        sleep(millis(900)).await;
        first.end();
        Handle::current().kill("store");
        sleep(millis(5_000)).await;
        Handle::current().restart("store");
        world.net.node_restarted("store");
        open(&world, &stub, &faults, Incarnation::new("store", 1));
        (talks.await.unwrap(), stub.landed().len())
    });
    assert_eq!(told, ["Applied", "Unknown", "NotDone", "Applied", "Already"]);
    assert_eq!(landed, 2);
}

#[test]
fn calls_share_a_connection_and_get_their_own_answers() {
    let faults = [0, 2].map(|n| StoreFault {
        window: Window::ALWAYS,
        node: None,
        op: None,
        which: Which::Nth(n),
        effect: StoreEffect::Delay { by: Nanos::from_millis(900 - 300 * n) },
    });
    let (order, open) = within(8, plan([]), |world| async move {
        let (a, _store) = (world.node("a", 1), world.node("store", 2));
        let (stub, plan) = (Stub::default(), StorePlan { faults: faults.into() });
        let faults = StoreFaults::new(plan, world.trace.clone(), world.strikes.clone());
        open(&world, &stub, &faults, incarnation("store"));
        let remote = Arc::new(client(&world));
        let order = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&order);
        a.spawn(async move {
            sleep(millis(5)).await;
            let mut calls = Vec::new();
            for limit in 0..4 {
                let (remote, order) = (Arc::clone(&remote), Arc::clone(&order));
                calls.push(madsim::task::spawn(async move {
                    let answer = remote.expired(limit).await.unwrap();
                    assert_eq!(answer.next, Some(Timestamp::from_nanos(limit as u64)));
                    order.lock().unwrap().push(limit);
                }));
                sleep(millis(50)).await;
            }
            for call in calls {
                call.await.unwrap();
            }
        })
        .await
        .unwrap();
        settle().await;
        (kept.lock().unwrap().clone(), world.net.open())
    });
    assert_eq!(order, [1, 3, 2, 0]);
    assert_eq!(open, 0, "the client was dropped with its connection");
}

/// Calls each method on `store`.
async fn each_method(store: &impl Store) -> Vec<String> {
    let (run, token) = (run_id(), Token::from_random(4, 5));
    let create = Create {
        run,
        key: Some("key".to_owned()),
        digest: retrial::run::Digest::of(b"x"),
        id: Default::default(),
        workflow: "w".to_owned(),
        events: vec![Bytes::from_static(b"e")],
        queue: vec![QueueChange::Remove { task: TASK }],
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    };
    let id = ClaimId { writer: u64::MAX, counter: 1 };
    let claim = Claim {
        id,
        limit: 2,
        lasts: Nanos::from_secs(1),
        chance: 5,
        able: Able::Anything.into(),
        full: [].into(),
    };
    let beat = Heartbeat { within: Nanos::from_secs(2), progress: Some(progress()) };
    let held =
        vec![Holding { run, task: TASK, token, lasts: Nanos::MAX, heartbeat: Some(beat) }; 2];
    let other = RunId::from_random(7, 7);
    let before = Some(RunCursor { created: AT, run: other });
    let phase = Some(RunPhase::Paused);
    let filter = RunFilter { phase, text: Some("pay".to_owned()), ..RunFilter::default() };
    let list = AskRuns { before, limit: 3, filter };
    let text = Bytes::from_static(b"\x00\xff");
    let definition = Definition { name: "pay".to_owned(), format: "ir".to_owned(), text };
    vec![
        format!("{:?}", store.clock().await),
        format!("{:?}", store.create(create).await),
        format!("{:?}", store.claim(claim).await),
        format!("{:?}", store.commit(commit(0)).await),
        format!("{:?}", store.commit(commit(5)).await),
        format!("{:?}", store.renew(held).await),
        format!("{:?}", store.expired(6).await),
        format!("{:?}", store.leases(Some((run, TaskId::FIRST)), 2).await),
        format!("{:?}", store.load(run, Some(Version(4))).await),
        format!("{:?}", store.load(other, None).await),
        format!("{:?}", store.heads(Some(run), 3).await),
        format!("{:?}", store.queue(run).await),
        format!("{:?}", store.trim(run, Version(1)).await),
        format!("{:?}", store.list(list).await),
        format!("{:?}", store.tally().await),
        format!("{:?}", store.guards().await),
        format!("{:?}", store.define(definition).await),
        format!("{:?}", store.definition("pay".to_owned()).await),
        format!("{:?}", store.definitions(Some("pay".to_owned()), 2).await),
    ]
}

#[test]
fn every_method_gives_what_the_store_itself_gives() {
    let (remote, direct) = within(8, plan([]), |world| async move {
        let (a, _store) = (world.node("a", 1), world.node("store", 2));
        let stub = Stub::default();
        let plan = StorePlan::default();
        let faults = StoreFaults::new(plan, world.trace.clone(), world.strikes.clone());
        open(&world, &stub, &faults, incarnation("store"));
        let remote = client(&world);
        let told = a.spawn(async move {
            sleep(millis(5)).await;
            each_method(&remote).await
        });
        (told.await.unwrap(), each_method(&Stub::default()).await)
    });
    assert_eq!(remote, direct);
}

#[test]
fn healed_faults_strike_no_more_and_one_seed_is_one_history() {
    let run = || {
        within(2, plan([]), |world| async move {
            let (a, _store) = (world.node("a", 1), world.node("store", 2));
            let stub = Stub::default();
            let fault = r#"{"faults": [{"window": {"from": 0, "until": 18446744073709551615},
                "effect": "lose_answer"}]}"#;
            let plan: StorePlan = serde_json::from_str(fault).unwrap();
            let faults = StoreFaults::new(plan, world.trace.clone(), world.strikes.clone());
            open(&world, &stub, &faults, incarnation("store"));
            let remote = client(&world);
            let talks = a.spawn(async move {
                sleep(millis(5)).await;
                write(&remote, 2).await
            });
            sleep(millis(5_000)).await;
            faults.heal();
            (talks.await.unwrap(), stub.calls(), world.trace.fingerprint())
        })
    };
    let (told, calls, fingerprint) = run();
    assert_eq!(told, ["Unknown", "Unknown", "Unknown", "Already", "Applied"]);
    assert_eq!(calls, 5);
    assert_eq!(run().2, fingerprint);
}
