//! Whether an incarnation of a node is still alive. A crash marks it dead first; from then on its
//! disk calls fail without effect, its streams fall silent and its spawns are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use retrial::time::Mono;

/// One incarnation of one node. Clones share it.
#[derive(Clone, Debug)]
pub struct Incarnation {
    node: Arc<str>,
    incarnation: u32,
    dead: Arc<AtomicBool>,
    halts: Arc<AtomicU64>,
}

impl Incarnation {
    /// Incarnation number `incarnation` of `node`, from 0.
    #[must_use]
    pub fn new(node: &str, incarnation: u32) -> Self {
        Self { node: node.into(), incarnation, dead: Arc::default(), halts: Arc::default() }
    }

    /// The node's name, also its lane in the history.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Which incarnation it is, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.incarnation
    }

    /// Ends this incarnation.
    pub fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// It stands still from now on, or goes on again.
    pub fn halt(&self) {
        self.halts.fetch_add(1, Ordering::SeqCst);
    }

    /// A number that is another whenever it has stood still.
    #[must_use]
    pub fn halts(&self) -> u64 {
        self.halts.load(Ordering::SeqCst)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

/// When one incarnation of one node began and ended.
#[derive(Clone, Debug)]
pub struct Lifespan {
    /// The node.
    pub node: String,
    /// Which incarnation, from 0.
    pub incarnation: u32,
    /// True time of its start.
    pub born: Mono,
    /// True time of its end; `None` while it lives.
    pub died: Option<Mono>,
}
