//! The program of an engine's node: the real engine, and a queue from which it takes orders.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use retrial::action::HttpActions;
use retrial::engine::{
    CommandError, Config, DeadLetter, Engine, Retention, Submission, SubmitError,
};
use retrial::observe::metrics::Metrics;
use retrial::observe::{JsonLines, Notice, Observer, Output as PrinterMode, Printer, json};
use retrial::run::{LetterId, Recorded, RunId};
use retrial::runtime::Runtime as _;
use retrial::store::{
    AskLetters, DynStore, Heads, LetterFilter, Letters, Loaded, QueueRow, Store as _, StoreError,
};
use retrial::time::Nanos;
use tokio::sync::{mpsc, oneshot};

use super::action_network::ActionNetwork;
use super::counters::Counters;
use super::functions::{FunctionRecords, SimActions};
use super::recording_store::{Lost, Seen};
use crate::clock::true_now;
use crate::evidence::{JSON_LINES, ObservedEvent, Shutdown};
use crate::incarnation::Incarnation;
use crate::net::Net;
use crate::records::Records;
use crate::runtime::SimRuntime;
use crate::scenario::Places;
use crate::sync::lock;
use crate::trace::Kind;
use crate::user::UserCode;
use crate::workload;

/// A request to a node. The answer is lost when the node dies.
pub(super) enum Order {
    Submit(Submission, oneshot::Sender<Result<RunId, SubmitError>>),
    Cancel(RunId, oneshot::Sender<Result<(), CommandError>>),
    Rollback(RunId, oneshot::Sender<Result<(), CommandError>>),
    Deactivate(RunId, oneshot::Sender<()>),
    Activate(RunId, oneshot::Sender<()>),
    Pause(RunId, oneshot::Sender<()>),
    Resume(RunId, oneshot::Sender<()>),
    Fail(RunId, String, oneshot::Sender<Result<(), CommandError>>),
    Release(RunId, oneshot::Sender<Result<(), CommandError>>),
    Archive(RunId, oneshot::Sender<Result<(), CommandError>>),
    Letters(oneshot::Sender<Result<Letters, CommandError>>),
    Letter(LetterId, oneshot::Sender<Result<DeadLetter, CommandError>>),
    Redrive(LetterId, oneshot::Sender<Result<RunId, SubmitError>>),
    Discard(LetterId, oneshot::Sender<Result<(), CommandError>>),
    Prune(Retention, oneshot::Sender<Result<Vec<RunId>, CommandError>>),
    Heads(oneshot::Sender<Result<Heads, StoreError>>),
    Read(RunId, oneshot::Sender<Result<Reading, StoreError>>),
    Shutdown(oneshot::Sender<()>),
}

/// The records of a run in the store.
pub(super) struct Reading {
    pub(super) loaded: Option<Loaded>,
    pub(super) queue: Vec<QueueRow>,
}

/// The queue of orders to a node's current incarnation.
#[derive(Clone, Default)]
pub(super) struct OrderQueue(Arc<Mutex<Option<mpsc::Sender<Order>>>>);

impl OrderQueue {
    /// The sender to the current incarnation, if it takes orders yet.
    pub(super) fn open(&self) -> Option<mpsc::Sender<Order>> {
        lock(&self.0).clone()
    }
}

/// The records of all nodes of a world. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Observations {
    /// The events that observers received, in that order.
    pub(super) events: Arc<Mutex<Vec<ObservedEvent>>>,
    pub(super) seen: Seen,
    /// The output of observers, by source.
    pub(super) outputs: Outputs,
    /// The counters of all nodes.
    pub(super) metrics: Arc<Counters>,
    /// The calls of registered functions.
    pub(super) function_records: FunctionRecords,
    /// The shutdowns in good order.
    pub(super) shutdowns: Arc<Mutex<Vec<Shutdown>>>,
    /// Whether the store says that it is damaged as a whole.
    pub(super) lost: Lost,
}

/// Texts that were put out, by source.
pub(super) type Outputs = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// The world of the simulated engine.
type Simulated = (SimRuntime, DynStore, SimActions);

/// The parts that an engine's node starts with in each incarnation.
#[derive(Clone)]
pub(super) struct EngineSetup {
    pub(super) lease: Nanos,
    pub(super) places: Option<Places>,
    pub(super) attempt_timeout: Option<Nanos>,
    pub(super) quarantine_after: Option<NonZeroU32>,
    pub(super) sole_owner: bool,
    /// The value of every environment variable.
    pub(super) secret: Option<String>,
    /// The functions that it lacks.
    pub(super) missing_functions: BTreeSet<String>,
    pub(super) net: Net,
    pub(super) observed: Observations,
    pub(super) records: Records,
    pub(super) order_queue: OrderQueue,
    /// The code of a user.
    pub(super) own: Option<Arc<UserCode>>,
}

/// Runs the engine on `store` and takes orders until the incarnation ends.
pub(super) async fn run(
    runtime: SimRuntime,
    incarnation: Incarnation,
    store: DynStore,
    setup: EngineSetup,
) {
    let EngineSetup {
        lease,
        places,
        attempt_timeout,
        quarantine_after,
        sole_owner,
        secret,
        missing_functions,
        net,
        observed,
        records,
        order_queue,
        own,
    } = setup;
    // Set even if no secret is planted, because a header may need it.
    let secret = secret.unwrap_or_else(|| "none".to_owned());
    let environment = move |_: &str| Some(secret.clone());
    let wires = ActionNetwork::new(net.connector(incarnation.clone()), own.as_deref());
    let http = HttpActions::new(wires, environment);
    let function_records = Arc::clone(&observed.function_records);
    let (actions, functions) = match &own {
        Some(own) => (
            SimActions::own(own, incarnation.clone(), function_records, http),
            own.backoffs.clone(),
        ),
        None => {
            let drawn = SimActions::new(
                runtime.clone(),
                incarnation.clone(),
                function_records,
                http,
                &missing_functions,
            );
            (drawn, workload::functions())
        }
    };
    let poll = Config::default().poll.max(Nanos::new(lease.get() / 30));
    let defaults = Config::default();
    let (concurrency, action_share) =
        places.map_or((defaults.concurrency, defaults.action_share), |p| (p.all.into(), p.share));
    let config = Config {
        concurrency,
        action_share,
        attempt_timeout,
        quarantine_after,
        lease,
        poll,
        sole_owner,
        snapshot_tail: 2_048,
        functions,
        ..defaults
    };
    let observers = observers(&incarnation, &observed, &records);
    let engine =
        Engine::<Simulated>::start(runtime.clone(), store.clone(), actions, config, observers)
            .await;
    let (orders, mut inbox) = mpsc::channel(64);
    *lock(&order_queue.0) = Some(orders);
    while let Some(order) = inbox.recv().await {
        let (engine, store) = (engine.clone(), store.clone());
        runtime.spawn(serve(engine, store, order)).detach();
    }
}

/// Every kind of observer, each with its own output.
fn observers(
    incarnation: &Incarnation,
    observed: &Observations,
    records: &Records,
) -> Vec<Arc<dyn Observer>> {
    let printer = |source: &str, mode| -> Arc<dyn Observer> {
        Arc::new(Printer::new(OutputWriter::new(source.to_owned(), incarnation, observed), mode))
    };
    let lines = format!("{JSON_LINES} {}/{}", incarnation.node(), incarnation.number());
    let counted = metrics::with_local_recorder(&*observed.metrics, Metrics::new);
    vec![
        Arc::new(EventRecorder {
            incarnation: incarnation.clone(),
            observed: observed.clone(),
            records: records.clone(),
        }),
        printer("printer", PrinterMode::Detailed),
        printer("printer folding", PrinterMode::Auto { terminal: false }),
        printer("printer on a terminal", PrinterMode::Auto { terminal: true }),
        Arc::new(JsonLines::new(OutputWriter::new(lines, incarnation, observed))),
        Arc::new(MetricsRecorder {
            incarnation: incarnation.clone(),
            metrics: counted,
            observed: observed.clone(),
        }),
    ]
}

/// Counts through the world's own recorder.
struct MetricsRecorder {
    incarnation: Incarnation,
    metrics: Metrics,
    observed: Observations,
}

impl Observer for MetricsRecorder {
    fn tell(&self, notice: &Notice<'_>) {
        if !self.incarnation.is_over() {
            metrics::with_local_recorder(&*self.observed.metrics, || self.metrics.tell(notice));
        }
    }
}

async fn serve(engine: Engine<Simulated>, store: DynStore, order: Order) {
    // The caller may be gone by then.
    match order {
        Order::Submit(submission, reply) => {
            let _ = reply.send(engine.submit(submission).await.map(|s| s.run));
        }
        Order::Cancel(run, reply) => {
            let _ = reply.send(engine.cancel(run, "called off by its user").await);
        }
        Order::Rollback(run, reply) => {
            let _ = reply.send(engine.rollback(run, "rolled back by its user").await);
        }
        Order::Deactivate(run, reply) => {
            let _ = engine.deactivate(run).await;
            let _ = reply.send(());
        }
        Order::Activate(run, reply) => {
            let _ = engine.activate(run).await;
            let _ = reply.send(());
        }
        Order::Pause(run, reply) => {
            let _ = engine.pause(run, "somebody looks at it").await;
            let _ = reply.send(());
        }
        Order::Resume(run, reply) => {
            let _ = engine.resume(run).await;
            let _ = reply.send(());
        }
        Order::Fail(run, step, reply) => {
            let _ = reply.send(engine.fail(run, &step, None, "somebody gave it up").await);
        }
        Order::Release(run, reply) => {
            let _ = reply.send(engine.release(run, None, None, "somebody looked at it").await);
        }
        Order::Archive(run, reply) => {
            let _ = reply.send(engine.archive(run).await);
        }
        Order::Letters(reply) => {
            let filter = LetterFilter::default();
            let ask = AskLetters { after: None, limit: 10_000, filter };
            let _ = reply.send(engine.letters(ask).await);
        }
        Order::Letter(id, reply) => {
            let _ = reply.send(engine.letter(id).await);
        }
        Order::Redrive(id, reply) => {
            let _ = reply.send(engine.redrive(id).await.map(|new| new.run));
        }
        Order::Discard(id, reply) => {
            let _ = reply.send(engine.discard(id, "nobody wants it").await);
        }
        Order::Prune(retention, reply) => {
            let _ = reply.send(engine.prune(retention).await);
        }
        Order::Heads(reply) => {
            let _ = reply.send(store.heads(None, 10_000).await);
        }
        Order::Read(run, reply) => {
            let _ = reply.send(read(&store, run).await);
        }
        Order::Shutdown(reply) => {
            engine.shutdown().await;
            let _ = reply.send(());
        }
    }
}

async fn read(store: &DynStore, run: RunId) -> Result<Reading, StoreError> {
    let loaded = store.load(run, Some(retrial::run::Version::START)).await?;
    Ok(Reading { loaded, queue: store.queue(run).await? })
}

/// Records every event that the engine reports to its observers.
struct EventRecorder {
    incarnation: Incarnation,
    observed: Observations,
    records: Records,
}

impl Observer for EventRecorder {
    fn tell(&self, notice: &Notice<'_>) {
        if self.incarnation.is_over() {
            return;
        }
        let at = true_now();
        let shown = serde_json::Value::Object(json::object(notice)).to_string();
        self.records.trace.record(at, self.incarnation.node(), Kind::Event, &shown, &[]);
        lock(&self.observed.events).push(ObservedEvent {
            node: self.incarnation.node().to_owned(),
            incarnation: self.incarnation.number(),
            at,
            run: notice.run,
            number: notice.number,
            recorded: Recorded { at: notice.at, event: notice.event.clone() },
        });
    }
}

/// Collects what a printer writes.
struct OutputWriter {
    source: String,
    incarnation: Incarnation,
    observed: Observations,
}

impl OutputWriter {
    fn new(source: String, incarnation: &Incarnation, observed: &Observations) -> Self {
        Self { source, incarnation: incarnation.clone(), observed: observed.clone() }
    }
}

impl Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.incarnation.is_over() {
            let mut outputs = lock(&self.observed.outputs);
            outputs.entry(self.source.clone()).or_default().extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
