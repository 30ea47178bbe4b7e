//! The world as a user's services and faults see it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use retrial::time::{Mono, Nanos};
use serde::Serialize;
use serde_json::Value;

use super::UserEvidence;
use crate::clock::true_now;
use crate::disk::CrashOutcome;
use crate::net::Net;
use crate::node::{Crash, CrashAt, SimNode};
use crate::runtime::{SplitMix64, mix};
use crate::scenario::{ENDPOINTS, STORE};
use crate::sync::lock;
use crate::trace::{Kind, Trace};

/// One simulated world, seen from outside its nodes. Clones are the same one.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    trace: Trace,
    chance: Mutex<SplitMix64>,
    values: Mutex<BTreeMap<String, Value>>,
    facts: Mutex<Vec<Fact>>,
    struck: Mutex<BTreeMap<String, u64>>,
    built: OnceLock<(Net, Vec<SimNode>)>,
}

/// A fact recorded with [`World::record`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// True time since the world began.
    pub at: Mono,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The peer of an engine's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// All services and scripted endpoints.
    Services,
    /// The store, where it has its own node: with one engine it has none.
    Store,
}

impl World {
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        Self(Arc::new(Inner {
            trace,
            chance: Mutex::new(SplitMix64::new(mix(seed, 4_001))),
            values: Mutex::default(),
            facts: Mutex::default(),
            struck: Mutex::default(),
            built: OnceLock::new(),
        }))
    }

    /// The network and the engines' nodes, once they are there.
    pub(crate) fn built(&self, net: &Net, nodes: &[SimNode]) {
        // A world is built once.
        let _ = self.0.built.set((net.clone(), nodes.to_vec()));
    }

    pub(crate) fn write(&self, kind: Kind, text: &str) {
        self.0.trace.record(true_now(), "own", kind, text, &[]);
    }

    pub(crate) fn count_strike(&self, name: &str) {
        *lock(&self.0.struck).entry(name.to_owned()).or_default() += 1;
    }

    pub(crate) fn evidence(&self) -> UserEvidence {
        UserEvidence {
            facts: lock(&self.0.facts).clone(),
            struck: lock(&self.0.struck).clone(),
            ..UserEvidence::default()
        }
    }

    /// True time since the world began, which no node's clock disturbs.
    #[must_use]
    pub fn now(&self) -> Mono {
        true_now()
    }

    /// Waits for `length` of true time.
    pub async fn sleep(&self, length: Nanos) {
        madsim::time::sleep(length.into()).await;
    }

    /// 64 bits of the world's own chance, drawn from its seed.
    #[must_use]
    pub fn random(&self) -> u64 {
        lock(&self.0.chance).draw()
    }

    /// Records a fact for invariants and for the history.
    pub fn record(&self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        self.write(Kind::Note, &format!("{name} {value}"));
        let fact = Fact { at: true_now(), name: name.to_owned(), value };
        lock(&self.0.facts).push(fact);
    }

    /// The facts of this name so far, in order.
    #[must_use]
    pub fn facts(&self, name: &str) -> Vec<Fact> {
        lock(&self.0.facts).iter().filter(|fact| fact.name == name).cloned().collect()
    }

    /// Sets the value `name`, which faults and services share.
    pub fn set(&self, name: &str, value: impl Into<Value>) {
        lock(&self.0.values).insert(name.to_owned(), value.into());
    }

    /// The value under `name`; null if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Value {
        lock(&self.0.values).get(name).cloned().unwrap_or_default()
    }

    /// Whether `true` was set under `name`.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Value::Bool(true)
    }

    /// How many nodes run the engine.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.engines().len()
    }

    /// Crashes an engine's node, by number from 0, and starts it again after `down`. Unsynced
    /// writes of its disk are lost or torn, as drawn. Returns false if there is no such node or it
    /// is down.
    pub fn crash(&self, node: usize, down: Nanos) -> bool {
        let Some(node) = self.engines().get(node) else { return false };
        if node.incarnation().is_over() {
            return false;
        }
        let outcome = CrashOutcome::Drawn(self.random());
        node.plan_crash(Crash { at: CrashAt::Time(true_now()), outcome, down });
        true
    }

    /// Pauses an engine's node until [`World::resume`]. Returns false if there is no such node or
    /// it is down.
    pub fn pause(&self, node: usize) -> bool {
        let found = self.engines().get(node).filter(|node| !node.incarnation().is_over());
        found.inspect(|node| node.pause()).is_some()
    }

    /// Resumes a paused node.
    pub fn resume(&self, node: usize) {
        if let Some(node) = self.engines().get(node) {
            node.resume();
        }
    }

    /// Partitions an engine's node from this peer until [`World::join`]: no connection is made, no
    /// byte arrives. False where there is no such node or peer.
    pub fn part(&self, node: usize, from: Peer) -> bool {
        let Some((net, node, peer)) = self.link(node, from) else { return false };
        net.part(node, peer);
        true
    }

    /// Ends the partition.
    pub fn join(&self, node: usize, with: Peer) {
        if let Some((net, node, peer)) = self.link(node, with) {
            net.join(node, peer);
        }
    }

    fn link(&self, node: usize, peer: Peer) -> Option<(&Net, &str, &'static str)> {
        let (net, engines) = self.0.built.get()?;
        let is_there = peer != Peer::Store || engines.len() > 1;
        let node = engines.get(node).filter(|_| is_there)?;
        Some((net, node.name(), if peer == Peer::Store { STORE } else { ENDPOINTS }))
    }

    fn engines(&self) -> &[SimNode] {
        self.0.built.get().map_or(&[], |(_, nodes)| nodes)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("nodes", &self.nodes()).finish_non_exhaustive()
    }
}
