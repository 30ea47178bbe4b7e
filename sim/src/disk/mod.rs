//! The simulated disk: one file of one node, with redb's `StorageBackend` on top.
//!
//! Decides which unsynced bytes survive a crash or an EIO, and how long calls take. Makes sure that
//! a dead incarnation changes nothing. Must never know what the bytes mean. To add a fault, add it
//! to [`DiskPlan`] as data, apply it in `SimDisk::call` or `SimDisk::sync`, and count it in
//! `Strikes`.

mod handle;
mod image;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use retrial::time::Mono;

pub use self::handle::DiskHandle;
pub(crate) use self::image::apply;
pub use self::image::{Aftermath, Change, CrashOutcome, Image, SECTOR, Unsynced};
use self::plan::NumberedCall;
pub use self::plan::{DiskPlan, FailedSync, OpAt, OpKind, Rot, Slow};
use crate::clock::try_true_now;
use crate::fault::FaultKind;
use crate::incarnation::Incarnation;
use crate::records::Records;
use crate::runtime::{DiskLatency, mix};
use crate::sync::lock;
use crate::trace::Kind;

/// No disk grows beyond this many bytes.
const CAPACITY: u64 = 1 << 30;

/// Room on a disk is given out in blocks of this many bytes.
const BLOCK: u64 = 4_096;

/// A node's disk, over all its incarnations. Clones share it.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    lane: String,
    records: Records,
    disk_latency: DiskLatency,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: DiskPlan,
    image: Image,
    /// The blocks that were ever written, which need no more room.
    taken: BTreeSet<u64>,
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
    incarnation: Incarnation,
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
            disk_latency: DiskLatency::default(),
            state: Mutex::new(state),
        }))
    }

    /// A handle for `incarnation`, to give to `redb::Builder::create_with_backend`. Once the
    /// incarnation is over, its calls fail without effect.
    #[must_use]
    pub fn open(&self, incarnation: &Incarnation) -> DiskHandle {
        let mut state = lock(&self.0.state);
        state.handles += 1;
        DiskHandle::new(self.clone(), incarnation.clone(), state.handles)
    }

    /// The latency debt that its calls add to.
    #[must_use]
    pub fn disk_latency(&self) -> DiskLatency {
        self.0.disk_latency.clone()
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
    /// incarnation, the call fails.
    pub fn at_op(&self, number: u64, then: impl FnOnce() + Send + 'static) {
        lock(&self.0.state).planned.entry(number).or_default().push(Box::new(then));
    }

    /// Ends the planned faults and slowness; what has struck stays.
    pub fn heal(&self) {
        lock(&self.0.state).plan = DiskPlan::default();
    }

    /// The power fails: `outcome` decides which changes since the last sync are kept. Mark the
    /// incarnation of the node dead first.
    pub fn crash(&self, outcome: CrashOutcome) {
        let left = {
            let mut state = lock(&self.0.state);
            state.owner = None;
            self.settle(&mut state, outcome)
        };
        self.0.disk_latency.take();
        let text = format!("power failed: {} writes lost, {} torn", left.lost, left.torn);
        self.record(Kind::Fault, &text, &left.bytes);
    }

    /// Lets `outcome` decide over the changes since the last sync, and counts what that broke.
    fn settle(&self, state: &mut State, outcome: CrashOutcome) -> Aftermath {
        let left = state.image.after(outcome);
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

    /// One call of `incarnation` that reads or changes the image. The bytes that `effect` gives
    /// back go into the fingerprint. A fault planned for the call happens after it.
    fn call(
        &self,
        incarnation: &Incarnation,
        kind: OpKind,
        text: &str,
        effect: impl FnOnce(&mut Image, u64) -> io::Result<Arc<[u8]>>,
    ) -> io::Result<Arc<[u8]>> {
        self.call_over(incarnation, kind, text, 0..0, effect)
    }

    /// The same of a call that writes to `extent`, which may take room.
    fn call_over(
        &self,
        incarnation: &Incarnation,
        kind: OpKind,
        text: &str,
        extent: Range<u64>,
        effect: impl FnOnce(&mut Image, u64) -> io::Result<Arc<[u8]>>,
    ) -> io::Result<Arc<[u8]>> {
        alive(incarnation)?;
        let mut call = self.begin(kind, text);
        if call.failure.is_none() && !self.takes_room(extent) {
            call.failure = Some(FaultKind::DiskFull);
        }
        let done = match call.failure {
            None => Ok(effect(&mut lock(&self.0.state).image, call.op.number)),
            Some(kind) => Err(kind),
        };
        let bytes = done.as_ref().ok().and_then(|done| done.as_deref().ok());
        self.happen(incarnation, &mut call, bytes.unwrap_or_default())?;
        done.unwrap_or_else(|kind| Err(self.fail(kind, &call.text)))
    }

    /// Takes the room that a write to `extent` needs, unless the disk is full.
    fn takes_room(&self, extent: Range<u64>) -> bool {
        let now = self.time();
        let mut state = lock(&self.0.state);
        let blocks = extent.start / BLOCK..extent.end.div_ceil(BLOCK);
        let new: Vec<u64> = blocks.filter(|block| !state.taken.contains(block)).collect();
        let fits = new.is_empty() || !state.plan.is_full(now);
        if fits {
            state.taken.extend(new);
        }
        fits
    }

    /// A sync of `incarnation`. A fault planned for the call happens before anything is durable.
    fn sync(&self, incarnation: &Incarnation) -> io::Result<()> {
        alive(incarnation)?;
        let mut call = self.begin(OpKind::Sync, "sync");
        self.happen(incarnation, &mut call, &[])?;
        let mut state = lock(&self.0.state);
        let Some(kind) = call.failure else {
            state.image.sync();
            return Ok(());
        };
        if let FailedSync::Settled(outcome) = state.plan.failed_sync {
            self.settle(&mut state, outcome);
        }
        drop(state);
        Err(self.fail(kind, &call.text))
    }

    /// Counts a call, adds its latency, and takes what was planned for it.
    fn begin(&self, kind: OpKind, text: &str) -> Call {
        let mut state = lock(&self.0.state);
        let nth = state.by_kind.entry(kind).or_default();
        let nth = std::mem::replace(nth, *nth + 1);
        let op = NumberedCall { kind, number: state.ops, nth };
        state.ops += 1;
        let (takes, is_slow) = state.plan.latency(&op);
        self.0.disk_latency.add(takes);
        let then = state.planned.remove(&op.number).unwrap_or_default();
        let rotted = state.rot(&op);
        let failure = state.plan.fails(&op).then_some(FaultKind::Eio);
        drop(state);
        let text = format!("{text} #{}", op.number);
        for (byte, bit) in rotted {
            self.0.records.strikes.strike(FaultKind::BitRot);
            self.record(Kind::Fault, &format!("bit {bit} of byte {byte} flips"), &[]);
        }
        if is_slow {
            self.0.records.strikes.strike(FaultKind::SlowSync);
            self.record(Kind::Fault, &format!("{text} takes {takes}"), &[]);
        }
        Call { op, text, failure, then }
    }

    /// Records a call and lets what was planned for it happen, perhaps the end of `incarnation`.
    fn happen(&self, incarnation: &Incarnation, call: &mut Call, bytes: &[u8]) -> io::Result<()> {
        self.record(Kind::Disk, &call.text, bytes);
        std::mem::take(&mut call.then).into_iter().for_each(|then| then());
        alive(incarnation)
    }

    /// Makes a call fail of `kind`.
    fn fail(&self, kind: FaultKind, text: &str) -> io::Error {
        let (name, error) = match kind {
            FaultKind::DiskFull => ("ENOSPC", io::ErrorKind::StorageFull),
            _ => ("EIO", io::ErrorKind::Other),
        };
        self.0.records.strikes.strike(kind);
        self.record(Kind::Fault, &format!("{name} on {text}"), &[]);
        io::Error::new(error, format!("simulated {name} on {text}"))
    }
}

impl State {
    /// Flips the bits that rot before this call, and says which.
    fn rot(&mut self, op: &NumberedCall) -> Vec<(u64, u32)> {
        let drawn: Vec<u64> =
            self.plan.rot.iter().filter(|r| op.is(r.at)).map(|r| r.chance).collect();
        let mut flipped = Vec::new();
        for chance in drawn {
            let nth = usize::try_from(chance % (self.taken.len().max(1) as u64)).unwrap_or(0);
            let Some(block) = self.taken.iter().nth(nth) else { continue };
            let byte = block * BLOCK + mix(chance, 1) % BLOCK;
            let bit = u32::try_from(mix(chance, 2) % 8).unwrap_or(0);
            if self.image.flip(byte, bit) {
                flipped.push((byte, bit));
            }
        }
        flipped
    }
}

/// A disk call in progress.
struct Call {
    op: NumberedCall,
    text: String,
    /// Of what it fails.
    failure: Option<FaultKind>,
    then: Vec<Then>,
}

fn alive(incarnation: &Incarnation) -> io::Result<()> {
    if incarnation.is_over() {
        let (node, incarnation) = (incarnation.node(), incarnation.number());
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
