//! The program of an engine's node: the real engine, and a queue from which it takes orders.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use retrial::action::HttpActions;
use retrial::engine::Config;
use retrial::observe::metrics::Metrics;
use retrial::observe::{JsonLines, Notice, Observer, Output as PrinterMode, Printer, json};
use retrial::run::Recorded;
use retrial::runtime::Runtime as _;
use retrial::store::{DynStore, Store as _};
use retrial::time::Nanos;
use tokio::sync::mpsc;

use super::action_network::ActionNetwork;
use super::counters::Counters;
use super::functions::{FunctionRecords, SimActions};
use super::order::{Asked, OrderQueue};
use super::recording_store::{Lost, Seen};
use super::release::{EngineParts, Orders, Releases};
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

/// The parts that an engine's node starts with in each incarnation.
#[derive(Clone)]
pub(super) struct EngineSetup {
    pub(super) lease: Nanos,
    pub(super) places: Option<Places>,
    pub(super) attempt_timeout: Option<Nanos>,
    pub(super) quarantine_after: Option<NonZeroU32>,
    pub(super) lane_idle: Option<Nanos>,
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
    /// What runs in each incarnation.
    pub(super) releases: Releases,
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
        lane_idle,
        sole_owner,
        secret,
        missing_functions,
        net,
        observed,
        records,
        order_queue,
        own,
        releases,
    } = setup;
    // Set even if no secret is planted, because a header may need it.
    let secret = secret.unwrap_or_else(|| "none".to_owned());
    let environment = secret.clone();
    let network = ActionNetwork::new(net.connector(incarnation.clone()), own.as_deref());
    let http = HttpActions::new(network.clone(), move |_| Some(secret.clone()));
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
        lane_idle: lane_idle.unwrap_or(defaults.lane_idle),
        functions,
        ..defaults
    };
    let observers = observers(&incarnation, &observed, &records);
    let parts = EngineParts {
        runtime: runtime.clone(),
        store: store.clone(),
        actions,
        network,
        environment,
        config,
        observers,
    };
    let engine = releases.of(&incarnation).start(parts).await;
    let (incarnation, mut inbox) = mpsc::channel(64);
    order_queue.lead_to(incarnation);
    while let Some(asked) = inbox.recv().await {
        let (engine, store) = (Arc::clone(&engine), store.clone());
        runtime.spawn(async move { answer(&*engine, &store, asked).await }).detach();
    }
}

async fn answer(engine: &dyn Orders, store: &DynStore, asked: Asked) {
    // The caller may be gone by then.
    match asked {
        Asked::Order(order) => engine.serve(order).await,
        Asked::Store(request, reply) => {
            let _ = reply.send(store.ask(request).await);
        }
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
