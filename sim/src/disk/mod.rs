//! The simulated disk: one file of one node, with redb's `StorageBackend` on top.
//!
//! Decides what a crash or an EIO makes of bytes that are not synced, how long calls take, and that
//! a dead incarnation changes nothing. Must never know what the bytes mean. To add a fault, add it
//! to [`DiskPlan`] as data, let it strike in `SimDisk::call` or
//! `SimDisk::sync`, and count it in `Strikes`.

mod handle;
mod image;
mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use retrial::time::Mono;

pub use self::handle::DiskHandle;
pub use self::image::{Aftermath, Change, Fate, Image, SECTOR, Unsynced};
use self::plan::Numbered;
pub use self::plan::{DiskPlan, FailedSync, OpAt, OpKind, Slow};
use crate::clock::try_true_now;
use crate::fault::FaultKind;
use crate::life::Life;
use crate::runtime::Debt;
use crate::sync::lock;
use crate::trace::Kind;
use crate::watch::Records;

/// No disk grows beyond this many bytes.
const CAPACITY: u64 = 1 << 30;

/// A node's disk, over all its lives. Clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    lane: String,
    records: Records,
    debt: Debt,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: DiskPlan,
    image: Image,
    ops: u64,
    by_kind: BTreeMap<OpKind, u64>,
    planned: BTreeMap<u64, Vec<Then>>,
    owner: Option<Owner>,
    handles: u64,
    last: Mono,
}

/// Who holds the lock on the whole file.
struct Owner {
    handle: u64,
    life: Life,
}

type Then = Box<dyn FnOnce() + Send>;

impl SimDisk {
    /// An empty disk of `node`.
    #[must_use]
    pub fn new(node: &str, plan: DiskPlan, records: &Records) -> Self {
        Self::holding(Vec::new(), node, plan, records)
    }

    /// A disk of `node` that already holds `bytes`.
    #[must_use]
    pub fn holding(bytes: Vec<u8>, node: &str, plan: DiskPlan, records: &Records) -> Self {
        let state = State { plan, image: Image::holding(bytes), ..State::default() };
        Self(Arc::new(Shared {
            lane: node.to_owned(),
            records: records.clone(),
            debt: Debt::default(),
            state: Mutex::new(state),
        }))
    }

    /// A handle for `life`, to give to `redb::Builder::create_with_backend`. Once the life is over,
    /// its calls fail without effect.
    #[must_use]
    pub fn open(&self, life: &Life) -> DiskHandle {
        let mut state = lock(&self.0.state);
        state.handles += 1;
        DiskHandle::new(self.clone(), life.clone(), state.handles)
    }

    /// The latency debt that its calls add to.
    #[must_use]
    pub fn debt(&self) -> Debt {
        self.0.debt.clone()
    }

    /// How many calls there were, of all kinds.
    #[must_use]
    pub fn ops(&self) -> u64 {
        lock(&self.0.state).ops
    }

    /// How many calls there were of each kind.
    #[must_use]
    pub fn ops_by_kind(&self) -> BTreeMap<OpKind, u64> {
        lock(&self.0.state).by_kind.clone()
    }

    /// Its bytes now.
    #[must_use]
    pub fn image(&self) -> Image {
        lock(&self.0.state).image.clone()
    }

    /// Calls `then` in the middle of the disk call with this number, from 0: after a write or a
    /// change of length was made, before a sync makes anything durable. If `then` ends the caller's
    /// life, the call fails.
    pub fn at_op(&self, number: u64, then: impl FnOnce() + Send + 'static) {
        lock(&self.0.state).planned.entry(number).or_default().push(Box::new(then));
    }

    /// Ends the planned faults and slowness; what has struck stays.
    pub fn heal(&self) {
        lock(&self.0.state).plan = DiskPlan::default();
    }

    /// The power fails: `fate` decides over every change since the last sync. Mark the life of the
    /// node dead first.
    pub fn crash(&self, fate: Fate) {
        let left = {
            let mut state = lock(&self.0.state);
            state.owner = None;
            self.settle(&mut state, fate)
        };
        self.0.debt.take();
        let text = format!("power failed: {} writes lost, {} torn", left.lost, left.torn);
        self.record(Kind::Fault, &text, &left.bytes);
    }

    /// Lets `fate` decide over the changes since the last sync, and counts what that broke.
    fn settle(&self, state: &mut State, fate: Fate) -> Aftermath {
        let left = state.image.after(fate);
        for (kind, times) in [(FaultKind::LostWrite, left.lost), (FaultKind::TornWrite, left.torn)]
        {
            (0..times).for_each(|_| self.0.records.strikes.strike(kind));
        }
        state.image = Image::holding(left.bytes.clone());
        left
    }

    fn record(&self, kind: Kind, text: &str, detail: &[u8]) {
        let at = self.time();
        self.0.records.trace.record(at, &self.0.lane, kind, text, detail);
    }

    /// True time, also when a drop calls the disk after the world has ended.
    fn time(&self) -> Mono {
        let mut state = lock(&self.0.state);
        state.last = try_true_now().unwrap_or(state.last);
        state.last
    }

    /// One call of `life` that reads or changes the image. The bytes that `effect` gives back go
    /// into the fingerprint. What is planned for the call happens after it.
    fn call(
        &self,
        life: &Life,
        kind: OpKind,
        text: &str,
        effect: impl FnOnce(&mut Image, u64) -> io::Result<Arc<[u8]>>,
    ) -> io::Result<Arc<[u8]>> {
        alive(life)?;
        let mut call = self.begin(kind, text);
        let done = (!call.fails).then(|| effect(&mut lock(&self.0.state).image, call.op.number));
        let bytes = done.as_ref().and_then(|done| done.as_deref().ok());
        self.happen(life, &mut call, bytes.unwrap_or_default())?;
        done.unwrap_or_else(|| Err(self.fail(&call.text)))
    }

    /// A sync of `life`. What is planned for the call happens before anything is durable.
    fn sync(&self, life: &Life) -> io::Result<()> {
        alive(life)?;
        let mut call = self.begin(OpKind::Sync, "sync");
        self.happen(life, &mut call, &[])?;
        let mut state = lock(&self.0.state);
        if !call.fails {
            state.image.sync();
            return Ok(());
        }
        if let FailedSync::Settled(fate) = state.plan.failed_sync {
            self.settle(&mut state, fate);
        }
        drop(state);
        Err(self.fail(&call.text))
    }

    /// Counts a call, adds its latency, and takes what was planned for it.
    fn begin(&self, kind: OpKind, text: &str) -> Call {
        let mut state = lock(&self.0.state);
        let nth = state.by_kind.entry(kind).or_default();
        let nth = std::mem::replace(nth, *nth + 1);
        let op = Numbered { kind, number: state.ops, nth };
        state.ops += 1;
        self.0.debt.add(state.plan.latency(&op));
        let then = state.planned.remove(&op.number).unwrap_or_default();
        Call { op, text: format!("{text} #{}", op.number), fails: state.plan.fails(&op), then }
    }

    /// Records a call and lets what was planned for it happen, perhaps the end of `life`.
    fn happen(&self, life: &Life, call: &mut Call, bytes: &[u8]) -> io::Result<()> {
        self.record(Kind::Disk, &call.text, bytes);
        std::mem::take(&mut call.then).into_iter().for_each(|then| then());
        alive(life)
    }

    /// Makes a call fail with EIO.
    fn fail(&self, text: &str) -> io::Error {
        self.0.records.strikes.strike(FaultKind::Eio);
        self.record(Kind::Fault, &format!("EIO on {text}"), &[]);
        io::Error::other(format!("simulated EIO on {text}"))
    }
}

/// A disk call in progress.
struct Call {
    op: Numbered,
    text: String,
    fails: bool,
    then: Vec<Then>,
}

fn alive(life: &Life) -> io::Result<()> {
    if life.is_over() {
        let (node, incarnation) = (life.node(), life.incarnation());
        return Err(io::Error::other(format!("incarnation {incarnation} of {node} is dead")));
    }
    Ok(())
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.0.state);
        let len = state.image.seen().len();
        write!(f, "SimDisk({}, {len} bytes, {} calls)", self.0.lane, state.ops)
    }
}
