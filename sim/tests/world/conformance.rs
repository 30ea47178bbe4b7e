//! The suite that every store passes, in the simulated world: redb on the simulated disk, and the
//! same behind the simulated network, where requests and answers are lost and sent again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use madsim::runtime::Handle;
use retrial::runtime::Runtime as _;
use retrial::store::conformance::{Case, Doing, Harness, cases};
use retrial::store::{
    Answer, CommitId, Committed, DynStore, RedbStore, Request, Store, StoreError,
};
use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::disk::{CrashOutcome, DiskPlan, SimDisk};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::net::{Net, NetPlan, Which, Window};
use retrial_sim::unstable::node::{NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::remote::{
    RemoteStore, StoreEffect, StoreFault, StoreFaults, StoreOp, StorePlan, serve,
};
use retrial_sim::unstable::runtime::{DiskLatency, PollCounter, RuntimePlan, SimRuntime, run_seed};
use tokio::sync::oneshot;

const PORT: u16 = 7_000;
/// More than any case needs.
const POLLS: u64 = 10_000_000;

/// A disk that takes its time, so that waits and cancellations fall in the middle of calls.
fn slow() -> DiskPlan {
    let (read_latency, write_latency) = (Nanos::new(20_000), Nanos::new(50_000));
    DiskPlan {
        read_latency,
        write_latency,
        sync_latency: Nanos::new(300_000),
        ..DiskPlan::default()
    }
}

async fn open(runtime: &SimRuntime, disk: &SimDisk, incarnation: &Incarnation) -> RedbStore {
    let (disk, incarnation) = (disk.clone(), incarnation.clone());
    let backend = move || Ok(disk.open(&incarnation));
    RedbStore::open_with_backend(runtime.clone(), "the simulated disk", backend).await.unwrap()
}

/// A runtime on a node of its own.
fn runtime(name: &str, ip: IpAddr, disk_latency: &DiskLatency, records: &Records) -> SimRuntime {
    let node = Handle::current().create_node().name(name).ip(ip).build();
    let incarnation = Incarnation::new(name, 0);
    SimRuntime::new(
        &incarnation,
        node,
        &RuntimePlan::default(),
        &PollCounter::default(),
        disk_latency,
        records,
    )
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

/// Every case in a world of its own; what was wrong, by case.
fn failing<H: Harness + 'static, F: Future<Output = H>>(
    make: impl Fn() -> F + Send + Sync + Clone + 'static,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for number in 0..cases().len() {
        let make = make.clone();
        let ran = run_seed(number as u64, Nanos::from_secs(1_000_000), move || async move {
            let Case { name, run } = cases().swap_remove(number);
            let mut harness = make().await;
            run(&mut harness).await.map_err(|why| format!("{name}: {why}"))
        });
        wrong.extend(ran.unwrap_or_else(|panic| Err(panic.to_string())).err());
    }
    wrong
}

/// redb on the simulated disk, opened again after a clean close.
struct OnDisk {
    runtime: SimRuntime,
    disk: SimDisk,
    store: Option<Arc<RedbStore>>,
}

impl OnDisk {
    async fn make() -> Self {
        let records = Records::new(false, POLLS);
        let disk = SimDisk::new("n", slow(), &records);
        let runtime = runtime("n", ip(1), &disk.disk_latency(), &records);
        let store = Some(Arc::new(open(&runtime, &disk, runtime.incarnation()).await));
        Self { runtime, disk, store }
    }
}

impl Harness for OnDisk {
    fn store(&self) -> DynStore {
        DynStore::new(Arc::clone(self.store.as_ref().unwrap()))
    }

    fn sleep(&self, by: Nanos) -> Doing<'_, ()> {
        Box::pin(self.runtime.sleep_until(self.runtime.now().after(by)))
    }

    fn reopen(&mut self) -> Doing<'_, bool> {
        Box::pin(async {
            Arc::into_inner(self.store.take().unwrap()).unwrap().close().await;
            let opened = open(&self.runtime, &self.disk, self.runtime.incarnation()).await;
            self.store = Some(Arc::new(opened));
            true
        })
    }
}

#[test]
fn redb_on_the_simulated_disk_conforms() {
    assert_eq!(failing(OnDisk::make), Vec::<String>::new());
}

/// A store at another node. Each call is made on the caller's node, and again, as the seam asks,
/// until a definite answer comes.
struct Away {
    runtime: SimRuntime,
    store: Arc<RemoteStore<SimRuntime>>,
    /// The commits that were sent before, whether they were answered or not.
    sent: Mutex<BTreeSet<CommitId>>,
}

/// How often a call is repeated before its failure counts as the answer.
const PATIENCE: u32 = 40;

impl Away {
    async fn ask_until_definite(&self, request: Request) -> Result<Answer, StoreError> {
        let (answer, answered) = oneshot::channel();
        let (runtime, store) = (self.runtime.clone(), Arc::clone(&self.store));
        let asking = async move {
            let mut tried = 0;
            let definite = loop {
                tried += 1;
                match store.ask(request.clone()).await {
                    Err(StoreError::Unknown(_)) if tried < PATIENCE => {}
                    // The connection was not there; what the store itself refuses stays refused.
                    Err(StoreError::NotDone(why)) if tried < PATIENCE && is_away(&why) => {}
                    definite => break definite,
                }
                runtime.sleep_until(runtime.now().after(Nanos::from_millis(5))).await;
            };
            // The case has ended where nobody waits any more.
            let _ = answer.send(definite);
        };
        self.runtime.spawn(asking).detach();
        answered.await.unwrap()
    }
}

fn is_away(why: &str) -> bool {
    ["connect", "connection", "in time", "node", "refused"].iter().any(|word| why.contains(word))
}

impl Store for Away {
    /// To whoever sends a commit once, `Already` after a lost answer means that it landed just now.
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let is_new = match &request {
            Request::Commit(commit) => self.sent.lock().unwrap().insert(commit.id),
            _ => false,
        };
        Ok(match self.ask_until_definite(request).await? {
            Answer::Commit(Committed::Already { version, at }) if is_new => {
                Answer::Commit(Committed::Applied { version, at })
            }
            other => other,
        })
    }
}

/// redb on a node of its own; opened again by a crash of that node, unsynced writes lost.
struct OverTheNetwork {
    server: SimNode,
    store: DynStore,
}

impl OverTheNetwork {
    async fn make(faults: Vec<StoreFault>, records: Records) -> Self {
        let (trace, strikes) = (records.trace.clone(), records.strikes.clone());
        let net = Net::new(1, NetPlan::default(), trace.clone(), strikes.clone());
        let faults = StoreFaults::new(StorePlan { faults }, trace, strikes);
        net.add_node("store", ip(50));
        net.add_node("client", ip(1));
        let disk = SimDisk::new("store", slow(), &records);
        let (at, opened) = (net.clone(), disk.clone());
        let boot = move |runtime: SimRuntime, incarnation: Incarnation| {
            let (net, disk, faults) = (at.clone(), opened.clone(), faults.clone());
            async move {
                net.node_restarted("store");
                let store = Arc::new(open(&runtime, &disk, &incarnation).await);
                let listener = net.listen(incarnation, PORT).await.unwrap();
                // It ends only with the node.
                let _ = serve(store, listener, faults).await;
            }
        };
        let plan = RuntimePlan::default();
        let parts = NodeParts { name: "store".into(), ip: Some(ip(50)), plan, disk: Some(disk) };
        let server = SimNode::start(parts, &records, boot);
        let runtime = runtime("client", ip(1), &DiskLatency::default(), &records);
        let connector = net.connector(runtime.incarnation().clone());
        let remote = RemoteStore::new(runtime.clone(), connector, "store", PORT);
        let store = Arc::new(remote.with_patience(Nanos::from_millis(50)));
        let store = DynStore::new(Away { runtime, store, sent: Mutex::default() });
        let made = Self { server, store };
        made.store.clock().await.unwrap();
        made
    }
}

impl Harness for OverTheNetwork {
    fn store(&self) -> DynStore {
        self.store.clone()
    }

    fn sleep(&self, by: Nanos) -> Doing<'_, ()> {
        Box::pin(madsim::time::sleep(by.into()))
    }

    fn reopen(&mut self) -> Doing<'_, bool> {
        Box::pin(async {
            self.server.crash_and_restart(CrashOutcome::LoseAll, Nanos::from_millis(1)).await;
            self.store.clock().await.unwrap();
            true
        })
    }
}

#[test]
fn a_store_over_the_network_conforms() {
    let make = || OverTheNetwork::make(vec![], Records::new(false, POLLS));
    assert_eq!(failing(make), Vec::<String>::new());
}

/// Every second call of `op` meets `effect`; without `op`, of all calls together.
fn every_second(op: Option<StoreOp>, effect: StoreEffect) -> Vec<StoreFault> {
    let fault =
        |n| StoreFault { window: Window::ALWAYS, node: None, op, which: Which::Nth(n), effect };
    (0..200).step_by(2).map(fault).collect()
}

/// The cases that fail under these faults, which must have struck often.
fn under(faults: Vec<StoreFault>, wanted: FaultKind) -> Vec<String> {
    let records = Records::new(false, POLLS);
    let strikes = records.strikes.clone();
    let make = move || OverTheNetwork::make(faults.clone(), records.clone());
    let case = |wrong: String| wrong.split_once(':').map_or(wrong.clone(), |(name, _)| name.into());
    let wrong = failing(make).into_iter().map(case).collect();
    assert!(strikes.counts().get(&wanted).is_some_and(|n| *n >= 3), "{:?}", strikes.counts());
    wrong
}

const CHANGING: [StoreOp; 4] = [StoreOp::Create, StoreOp::Claim, StoreOp::Commit, StoreOp::Renew];

/// Lost before the store acts and sent again: nothing but time is lost.
#[test]
fn a_store_conforms_when_requests_are_lost_and_sent_again() {
    let lost = every_second(None, StoreEffect::LoseRequest);
    assert_eq!(under(lost, FaultKind::StoreRequestLost), Vec::<String>::new());
}

/// Lost after the store acted and sent again: the effect is there once.
#[test]
fn a_store_conforms_when_answers_are_lost_and_asked_for_again() {
    for op in CHANGING {
        // These count from the answer's time, which is now that of the second sending.
        let counting: &[&str] = match op {
            StoreOp::Create => &[
                "claims_come_earliest_first",
                "r6_a_lease_ends_at_the_earlier_of_lease_and_deadline",
                "nothing_is_claimed_before_it_is_due",
            ],
            StoreOp::Commit => &[
                "the_commit_of_the_start_is_the_lease",
                "renewing_extends_but_never_past_the_deadline",
                "guards_are_shown_as_they_stand",
            ],
            _ => &[],
        };
        let lost = every_second(Some(op), StoreEffect::LoseAnswer);
        assert_eq!(under(lost, FaultKind::StoreAnswerLost), counting, "{op:?}");
    }
}

/// Arrived twice: the second arrival changes nothing.
#[test]
fn a_store_conforms_when_requests_arrive_twice() {
    let after = Nanos::from_millis(1);
    for op in CHANGING {
        let twice = every_second(Some(op), StoreEffect::Duplicate { after });
        assert_eq!(under(twice, FaultKind::StoreDuplicate), Vec::<String>::new(), "{op:?}");
    }
}
