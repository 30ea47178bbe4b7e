//! A node of the simulated world: a program with a clock, perhaps a disk, and one incarnation after
//! another.
//!
//! A crash goes in this order: the incarnation is marked dead, the disk keeps or loses its unsynced
//! writes, madsim kills the node, 1 ms passes, every old task must be gone, and a new incarnation
//! starts. A kill alone would let the old program close its files cleanly, and let the new one open
//! them before that.

mod planned;

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use madsim::runtime::{Handle, NodeHandle};
use madsim::task::NodeId;
use madsim::time::TimeHandle;
use retrial::runtime::Runtime as _;
use retrial::time::{Mono, Nanos};

pub use planned::{Crash, CrashAt, Pause};

use crate::clock::{true_now, true_time};
use crate::disk::{CrashOutcome, SimDisk};
use crate::fault::FaultKind;
use crate::incarnation::{Incarnation, Lifespan};
use crate::records::Records;
use crate::runtime::{DiskLatency, LiveTasks, PollCounter, RuntimePlan, SimRuntime};
use crate::sync::lock;
use crate::trace::Kind;
use crate::watchdog::Finding;

/// How long a killed node's tasks have to go.
const CLEANUP_DELAY: Nanos = Nanos::from_millis(1);

type Program = Pin<Box<dyn Future<Output = ()> + Send>>;
type Boot = Box<dyn Fn(SimRuntime, Incarnation) -> Program + Send + Sync>;

/// A node. Clones are the same one. Its methods belong to the world outside every node.
#[derive(Clone)]
pub struct SimNode(Arc<Inner>);

struct Inner {
    name: String,
    id: NodeId,
    plan: RuntimePlan,
    records: Records,
    disk: Option<SimDisk>,
    boot: Boot,
    poll_counter: PollCounter,
    time: TimeHandle,
    state: Mutex<State>,
}

struct State {
    incarnation: Incarnation,
    live: LiveTasks,
    stopped: bool,
    healed: bool,
    past: Vec<Lifespan>,
    born: Mono,
}

/// The parts of a node.
#[derive(Clone, Debug)]
pub struct NodeParts {
    /// Its name, also its lane in the history.
    pub name: String,
    /// Its address in the simulated network.
    pub ip: Option<IpAddr>,
    /// Its clocks and random numbers.
    pub plan: RuntimePlan,
    /// Its disk. The program opens it through [`SimDisk::open`], anew in each incarnation.
    pub disk: Option<SimDisk>,
}

impl SimNode {
    /// Makes a node and starts its first incarnation. `boot` gives the program of an incarnation;
    /// when that ends, what it has spawned runs on.
    #[must_use]
    pub fn start<F>(
        parts: NodeParts,
        records: &Records,
        boot: impl Fn(SimRuntime, Incarnation) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = Handle::current();
        let builder = handle.create_node().name(&parts.name);
        let built = match parts.ip {
            Some(ip) => builder.ip(ip).build(),
            None => builder.build(),
        };
        let incarnation = Incarnation::new(&parts.name, 0);
        let state = State {
            incarnation,
            live: LiveTasks::default(),
            stopped: false,
            healed: false,
            past: Vec::new(),
            born: true_now(),
        };
        let node = Self(Arc::new(Inner {
            name: parts.name,
            id: built.id(),
            plan: parts.plan,
            records: records.clone(),
            disk: parts.disk,
            boot: Box::new(move |runtime, incarnation| Box::pin(boot(runtime, incarnation))),
            poll_counter: PollCounter::default(),
            time: TimeHandle::current(),
            state: Mutex::new(state),
        }));
        node.boot(built, 0);
        node
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its id in madsim, for the simulated network.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.0.id
    }

    /// Its present incarnation, or the last one while it is down.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        lock(&self.0.state).incarnation.clone()
    }

    /// How many lives it has ended.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.incarnation().number()
    }

    /// Its disk.
    #[must_use]
    pub fn disk(&self) -> Option<&SimDisk> {
        self.0.disk.as_ref()
    }

    /// How many polls its tasks have had, over all incarnations.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.0.poll_counter.polls()
    }

    /// How many tasks of the present incarnation exist.
    #[must_use]
    pub fn live_tasks(&self) -> u64 {
        lock(&self.0.state).live.count()
    }

    /// Crashes the node now and starts it again after `down`. Does nothing to a node that is down.
    /// Ends when the new incarnation has started.
    pub async fn crash_and_restart(&self, outcome: CrashOutcome, down: Nanos) {
        if self.0.die(outcome) {
            self.clean_up_and_restart(down).await;
        }
    }

    /// Ends planned crashes, pauses and disk faults that have not struck. A node that is down still
    /// comes back.
    pub fn heal(&self) {
        lock(&self.0.state).healed = true;
        self.resume();
        if let Some(disk) = &self.0.disk {
            disk.heal();
        }
    }

    /// Every incarnation so far.
    #[must_use]
    pub fn lifespans(&self) -> Vec<Lifespan> {
        let state = lock(&self.0.state);
        let mut spans = state.past.clone();
        if !state.incarnation.is_over() {
            spans.push(state.span(&self.0.name, None));
        }
        spans
    }

    /// Pauses the node: none of its tasks runs until it is resumed or crashes.
    pub fn pause(&self) {
        if !self.incarnation().is_over() {
            self.0.fault(FaultKind::Pause, "paused");
            self.freeze();
        }
    }

    /// Its program has ended in good order: the process ends, writes in the system's cache stay,
    /// and it starts again after `down`. Does nothing to a node that is down.
    pub async fn leave_and_return(&self, down: Nanos) {
        if self.0.end(FaultKind::Shutdown, "left in good order", CrashOutcome::KeepAll) {
            self.clean_up_and_restart(down).await;
        }
    }

    /// What it was doing ends its process: writes in the system's cache stay, and it starts again
    /// after `down`. Does nothing to a node that is down.
    pub async fn end_by_poison(&self, down: Nanos) {
        if self.0.end(FaultKind::Poison, "was ended by what it did", CrashOutcome::KeepAll) {
            self.clean_up_and_restart(down).await;
        }
    }

    fn freeze(&self) {
        self.incarnation().halt();
        Handle::current().pause(self.0.id);
    }

    /// Lets a paused node go on.
    pub fn resume(&self) {
        self.incarnation().halt();
        Handle::current().resume(self.0.id);
    }

    /// Ends the node for good, at the end of the world: no crash, no fault, but nothing of it runs
    /// or touches its disk after this.
    pub async fn stop(&self) {
        {
            let mut state = lock(&self.0.state);
            state.stopped = true;
            state.incarnation.end();
        }
        self.clean_up().await;
    }

    fn boot(&self, handle: NodeHandle, incarnation: u32) {
        let Inner { name, plan, records, disk, boot, poll_counter, state, .. } = &*self.0;
        let incarnation = Incarnation::new(name, incarnation);
        let disk_latency = disk.as_ref().map_or_else(DiskLatency::default, SimDisk::disk_latency);
        let runtime =
            SimRuntime::new(&incarnation, handle, plan, poll_counter, &disk_latency, records);
        {
            let mut state = lock(state);
            state.incarnation = incarnation.clone();
            state.live = runtime.live_tasks();
            state.born = true_now();
        }
        let program = boot(runtime.clone(), incarnation);
        runtime.spawn(program).detach();
    }

    async fn clean_up_and_restart(&self, down: Nanos) {
        self.clean_up().await;
        madsim::time::sleep(down.into()).await;
        if lock(&self.0.state).stopped {
            return;
        }
        let handle = Handle::current();
        handle.restart(self.0.id);
        let Some(reborn) = handle.get_node(self.0.id) else { return };
        let incarnation = self.number() + 1;
        self.0.record(Kind::Note, &format!("incarnation {incarnation} started"));
        self.boot(reborn, incarnation);
    }

    /// Kills what is left of a dead incarnation, and reports what doesn't go.
    async fn clean_up(&self) {
        let handle = Handle::current();
        // Killing a paused node can hang.
        handle.resume(self.0.id);
        handle.kill(self.0.id);
        madsim::time::sleep(CLEANUP_DELAY.into()).await;
        let tasks = self.live_tasks();
        if tasks > 0 {
            let (node, incarnation) = (self.0.name.clone(), self.number());
            let at = true_now();
            self.0.records.watchdog.report(Finding::Stragglers { node, incarnation, tasks, at });
        }
    }
}

impl State {
    fn span(&self, node: &str, died: Option<Mono>) -> Lifespan {
        let incarnation = self.incarnation.number();
        Lifespan { node: node.to_owned(), incarnation, born: self.born, died }
    }
}

impl Inner {
    /// Ends the present incarnation and lets `outcome` decide over its disk. False when it was over
    /// already. Needs nothing of madsim's context, so it may happen inside any poll, disk call or
    /// drop.
    fn die(&self, outcome: CrashOutcome) -> bool {
        self.end(FaultKind::Crash, "crashed", outcome)
    }

    fn end(&self, kind: FaultKind, how: &str, outcome: CrashOutcome) -> bool {
        let incarnation = lock(&self.state).incarnation.clone();
        if incarnation.is_over() {
            return false;
        }
        incarnation.end();
        {
            let mut state = lock(&self.state);
            let span = state.span(&self.name, Some(true_time(&self.time)));
            state.past.push(span);
        }
        self.fault(kind, &format!("incarnation {} {how}", incarnation.number()));
        if let Some(disk) = &self.disk {
            disk.crash(outcome);
        }
        true
    }

    fn fault(&self, kind: FaultKind, text: &str) {
        self.records.strikes.strike(kind);
        self.record(Kind::Fault, text);
    }

    fn record(&self, kind: Kind, text: &str) {
        self.records.trace.record(true_time(&self.time), &self.name, kind, text, &[]);
    }
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNode({}, incarnation {})", self.0.name, self.number())
    }
}
