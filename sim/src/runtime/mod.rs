//! The simulated `Runtime`: madsim's scheduler and timers seen through one node's wrong clocks.
//!
//! Decides which times and random numbers a node sees, and which of its ready tasks is polled first
//! where a scenario has priorities. Makes sure that no task of a dead incarnation continues. Must
//! never know runs, stores or actions, nor draw random numbers from madsim or the system. To make a
//! node's clock wrong in a new way, add a field to [`ClockPlan`] and apply it in [`NodeClock`]. To
//! make something happen at an await, plan it on the node's [`PollCounter`].

mod chance;
mod disk_latency;
mod node_clock;
mod node_task;
mod priorities;
mod seed;
mod timer_sleep;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use madsim::runtime::NodeHandle;
use madsim::time::TimeHandle;
use retrial::runtime::{Runtime, Task, WorkLost};
use retrial::time::{Mono, Nanos, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use self::chance::{SplitMix64, mix};
pub use self::disk_latency::DiskLatency;
pub use self::node_clock::{ClockPlan, Drift, DriftOutOfRange, Jump, NodeClock};
pub use self::node_task::PollCounter;
pub use self::priorities::Priorities;
pub use self::seed::{FunctionPanic, PanicReport, run_seed};

pub(crate) use self::seed::{function_panics, inside_function, quietly};

pub(crate) use self::node_task::LiveTasks;
use self::node_task::NodeTask;
use self::priorities::TaskOrder;
use self::timer_sleep::{TimerSleep, yield_once};
use crate::clock::true_time;
use crate::fault::FaultKind;
use crate::incarnation::Incarnation;
use crate::records::Records;
use crate::sync::lock;

/// The clocks and random numbers of a node, as data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimePlan {
    /// Its clocks.
    pub clock: ClockPlan,
    /// From which each incarnation's stream of chance is drawn.
    pub chance: u64,
    /// Which of its tasks are polled first; any where absent.
    pub priorities: Option<Priorities>,
}

/// One incarnation's runtime. Clones are the same one.
#[derive(Clone)]
pub struct SimRuntime(Arc<Process>);

struct Process {
    incarnation: Incarnation,
    node: NodeHandle,
    time: TimeHandle,
    clock: NodeClock,
    poll_counter: PollCounter,
    disk_latency: DiskLatency,
    records: Records,
    live: LiveTasks,
    order: Option<TaskOrder>,
    chance: Mutex<SplitMix64>,
    latency: Mutex<SplitMix64>,
    drifted: AtomicBool,
    skewed: AtomicBool,
    jumped: AtomicBool,
}

impl SimRuntime {
    /// The runtime of `incarnation` on `node`, starting now. `poll_counter` and `disk_latency` are
    /// the node's over all its incarnations; `disk_latency` is its disk's.
    #[must_use]
    pub fn new(
        incarnation: &Incarnation,
        node: NodeHandle,
        plan: &RuntimePlan,
        poll_counter: &PollCounter,
        disk_latency: &DiskLatency,
        records: &Records,
    ) -> Self {
        let time = TimeHandle::current();
        let stream = mix(plan.chance, u64::from(incarnation.number()));
        Self(Arc::new(Process {
            incarnation: incarnation.clone(),
            node,
            clock: NodeClock::new(plan.clock.clone(), true_time(&time)),
            time,
            poll_counter: poll_counter.clone(),
            disk_latency: disk_latency.clone(),
            records: records.clone(),
            live: LiveTasks::default(),
            order: plan.priorities.as_ref().map(|p| TaskOrder::new(p, incarnation.number())),
            chance: Mutex::new(SplitMix64::new(stream)),
            latency: Mutex::new(SplitMix64::new(mix(stream, 1))),
            drifted: AtomicBool::new(false),
            skewed: AtomicBool::new(false),
            jumped: AtomicBool::new(false),
        }))
    }

    /// The incarnation that this runtime belongs to.
    #[must_use]
    pub fn incarnation(&self) -> &Incarnation {
        &self.0.incarnation
    }

    /// The incarnation's clocks.
    #[must_use]
    pub fn clock(&self) -> &NodeClock {
        &self.0.clock
    }

    pub(crate) fn live_tasks(&self) -> LiveTasks {
        self.0.live.clone()
    }

    /// `drawn`, and after the world's fork another number in its place.
    pub(crate) fn redraw(&self, drawn: u64) -> u64 {
        self.0.records.trace.redraw(drawn)
    }

    fn strike_once(&self, struck: &AtomicBool, kind: FaultKind) {
        if !struck.swap(true, Ordering::SeqCst) {
            self.0.records.strikes.strike(kind);
        }
    }

    /// Lets `by` of true time pass.
    async fn pass(&self, by: Nanos) {
        if !by.is_zero() {
            TimerSleep::until(&self.0.time, true_time(&self.0.time).after(by)).await;
        }
    }

    /// Runs `work` inline, and sleeps the time that the disk took for it: a drawn part of the
    /// forecast before, the rest after. So a crash or a cancel can fall on either side of it.
    async fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let disk_latency = &self.0.disk_latency;
        let drawn = self.redraw(lock(&self.0.latency).draw());
        let early = drawn % disk_latency.forecast().get().saturating_add(1);
        self.pass(disk_latency.take().saturating_add(Nanos::new(early))).await;
        let done = work();
        self.pass(disk_latency.settle().saturating_sub(Nanos::new(early))).await;
        done
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Mono {
        if self.0.clock.drifts() {
            self.strike_once(&self.0.drifted, FaultKind::Drift);
        }
        self.0.clock.mono(true_time(&self.0.time))
    }

    fn wall(&self) -> Timestamp {
        let at = true_time(&self.0.time);
        if self.0.clock.is_skewed() {
            self.strike_once(&self.0.skewed, FaultKind::Skew);
        }
        if self.0.clock.has_jumped(at) {
            self.strike_once(&self.0.jumped, FaultKind::Jump);
        }
        self.0.clock.wall(at)
    }

    fn random(&self) -> u64 {
        self.redraw(lock(&self.0.chance).draw())
    }

    /// A time that has passed gives way once, so that a loop of such sleeps can be seen and ended.
    async fn sleep_until(&self, at: Mono) {
        let target = self.0.clock.true_at(at);
        if true_time(&self.0.time) >= target {
            yield_once().await;
        } else {
            TimerSleep::until(&self.0.time, target).await;
        }
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let Process { incarnation, node, poll_counter, records, live, order, .. } = &*self.0;
        if incarnation.is_over() {
            return Task::new(|| ());
        }
        let (watchdog, ordered) = (&records.watchdog, order.as_ref().map(TaskOrder::add));
        let node_task = NodeTask::new(future, incarnation, poll_counter, watchdog, live, ordered);
        let abort = node.spawn(node_task).abort_handle();
        Task::new(move || abort.abort())
    }

    /// The work runs inline in a separate task: dropping the future doesn't stop it, a crash
    /// does. A panic in it is the seed's verdict and never a [`WorkLost`].
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        let (answer, asked) = oneshot::channel();
        let runtime = self.clone();
        self.spawn(async move {
            // The caller may be gone; the work was still done.
            let _ = answer.send(runtime.work(work).await);
        })
        .detach();
        asked.await.map_err(|_| WorkLost)
    }
}
