//! The faults between a store and its callers, as plain data.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use retrial::store::Request;
use retrial::time::Nanos;
use serde::{Deserialize, Serialize};

use crate::clock::true_now;
use crate::fault::{FaultKind, Strikes};
use crate::net::{Which, Window};
use crate::trace::{Kind, Trace};

/// The faults of one store's requests and answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorePlan {
    /// The faults. The first one that covers a request takes effect.
    #[serde(default)]
    pub faults: Vec<StoreFault>,
}

/// One fault: when, of which caller, which requests, and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreFault {
    /// When it takes effect: the time at which the request arrives.
    pub window: Window,
    /// The node that asks; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The method; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<StoreOp>,
    /// Which arrival, counted from 0 for each node and method, or for each node when `op` is
    /// absent.
    #[serde(default)]
    pub which: Which,
    /// Its effect.
    pub effect: StoreEffect,
}

/// A method of [`Store`](retrial::store::Store).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named as its method")]
pub enum StoreOp {
    Clock,
    Create,
    Claim,
    Commit,
    Renew,
    Expired,
    Load,
    Heads,
    Queue,
    Trim,
    /// `letters` and `letter`.
    Letters,
    Discard,
    Archive,
    Prune,
    List,
    Tally,
    Guards,
    Define,
    /// `definitions` and `definition`.
    Definitions,
    /// `report` and `reports`.
    Reports,
}

impl StoreOp {
    pub(super) fn of(request: &Request) -> Self {
        match request {
            Request::Clock => Self::Clock,
            Request::Create(_) => Self::Create,
            Request::Claim(_) => Self::Claim,
            Request::Commit(_) => Self::Commit,
            Request::Renew(_) => Self::Renew,
            Request::Expired { .. } => Self::Expired,
            Request::Load { .. } => Self::Load,
            Request::Heads { .. } | Request::Stranded { .. } => Self::Heads,
            Request::Queue(_) | Request::Leases { .. } => Self::Queue,
            Request::Trim { .. } => Self::Trim,
            Request::Letters(_) | Request::Letter(_) => Self::Letters,
            Request::Discard { .. } => Self::Discard,
            Request::Archive(_) => Self::Archive,
            Request::Prune(_) => Self::Prune,
            Request::List(_) => Self::List,
            Request::Tally => Self::Tally,
            Request::Guards => Self::Guards,
            Request::Define(_) => Self::Define,
            Request::Definition(_) | Request::Definitions { .. } => Self::Definitions,
            Request::Report(_) | Request::Reports => Self::Reports,
        }
    }
}

/// The effect of a store fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreEffect {
    /// The request is lost before the store acts.
    LoseRequest,
    /// The store acts, its answer is lost.
    LoseAnswer,
    /// The request arrives again, so much later. The first answer is sent.
    Duplicate {
        /// How much later than the first was answered.
        after: Nanos,
    },
    /// The request arrives later. By then the caller may have given up and sent it again.
    Delay {
        /// How much.
        by: Nanos,
    },
}

impl StoreEffect {
    fn kind(self) -> FaultKind {
        match self {
            Self::LoseRequest => FaultKind::StoreRequestLost,
            Self::LoseAnswer => FaultKind::StoreAnswerLost,
            Self::Duplicate { .. } => FaultKind::StoreDuplicate,
            Self::Delay { .. } => FaultKind::Delay,
        }
    }
}

/// A plan at work. Clones share the counts.
#[derive(Clone, Debug)]
pub struct StoreFaults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: StorePlan,
    trace: Trace,
    strikes: Strikes,
    healed: AtomicBool,
    /// Arrivals by node and method; by node alone under `None`.
    arrivals: Mutex<BTreeMap<(String, Option<StoreOp>), u64>>,
}

impl StoreFaults {
    /// Puts `plan` to work.
    #[must_use]
    pub fn new(plan: StorePlan, trace: Trace, strikes: Strikes) -> Self {
        let (healed, arrivals) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Shared { plan, trace, strikes, healed, arrivals }))
    }

    /// Switches every fault off for good. Faults in progress still end as planned.
    pub fn heal(&self) {
        self.0.healed.store(true, Ordering::SeqCst);
        self.record("store", Kind::Input, "the way to the store heals");
    }

    /// Counts an arrival and returns what happens to it.
    pub(super) fn strike(&self, store: &str, node: &str, op: StoreOp) -> Option<StoreEffect> {
        let (of_op, of_node) = (self.count(node, Some(op)), self.count(node, None));
        let now = true_now();
        let covers = |f: &&StoreFault| {
            f.window.holds(now)
                && f.node.as_deref().is_none_or(|n| n == node)
                && f.op.is_none_or(|wanted| wanted == op)
                && f.which.is(if f.op.is_some() { of_op } else { of_node })
        };
        let healed = self.0.healed.load(Ordering::SeqCst);
        let effect = self.0.plan.faults.iter().filter(|_| !healed).find(covers)?.effect;
        self.0.strikes.strike(effect.kind());
        let text = format!("{}: {op:?} {of_op} of {node}", effect.kind());
        self.record(store, Kind::Fault, &text);
        Some(effect)
    }

    fn count(&self, node: &str, op: Option<StoreOp>) -> u64 {
        let mut arrivals = self.0.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let next = arrivals.entry((node.to_owned(), op)).or_default();
        *next += 1;
        *next - 1
    }

    fn record(&self, lane: &str, kind: Kind, text: &str) {
        self.0.trace.record(true_now(), lane, kind, text, &[]);
    }
}
