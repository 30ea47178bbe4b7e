//! A disk's faults and slowness, as data.

use std::fmt;

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};

use super::image::CrashOutcome;
use crate::net::Window;

/// The kind of a disk call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Asks for the length.
    Len,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Sets the length.
    SetLen,
    /// Makes everything before it durable.
    Sync,
}

/// The kind's name as its JSON spells it.
impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Names one disk call. Counts go over all incarnations and start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpAt {
    /// The call with this number among all.
    Number(u64),
    /// The call with this number among those of one kind.
    Nth(OpKind, u64),
}

/// The disk after a sync that fails with EIO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedSync {
    /// Reads go on seeing the writes; the next sync may still make them durable.
    #[default]
    StaysDirty,
    /// The writes that this fate keeps are durable; the rest is gone from the cache too.
    Settled(CrashOutcome),
}

/// A call that takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Which call.
    pub at: OpAt,
    /// How much longer.
    pub by: Nanos,
}

/// A bit that flips just before a call, in a block that was ever written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rot {
    /// Which call.
    pub at: OpAt,
    /// Which block, byte and bit are drawn from it.
    pub chance: u64,
}

/// The faults of a disk, and how slow it is. The default is a perfect disk that takes no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskPlan {
    /// Calls that fail with EIO. A failed write or change of length has no effect.
    pub eio: Vec<OpAt>,
    /// The disk after a failed sync.
    pub failed_sync: FailedSync,
    /// How long a read takes.
    pub read_latency: Nanos,
    /// How long a write or a change of length takes.
    pub write_latency: Nanos,
    /// How long a sync takes.
    pub sync_latency: Nanos,
    /// Calls that take longer than that.
    pub slow: Vec<Slow>,
    /// Bits that flip.
    pub rot: Vec<Rot>,
    /// When there is no room: a write to where nothing was ever written fails with ENOSPC and has
    /// no effect. A greater length alone takes no room.
    pub full: Vec<Window>,
}

impl DiskPlan {
    /// How long the call takes, and whether that is longer than usual.
    pub(super) fn latency(&self, op: &NumberedCall) -> (Nanos, bool) {
        let usual = match op.kind {
            OpKind::Len => Nanos::ZERO,
            OpKind::Read => self.read_latency,
            OpKind::Write | OpKind::SetLen => self.write_latency,
            OpKind::Sync => self.sync_latency,
        };
        let slow = self.slow.iter().filter(|slow| op.is(slow.at));
        let takes = slow.fold(usual, |sum, slow| sum.saturating_add(slow.by));
        (takes, takes > usual)
    }

    pub(super) fn fails(&self, op: &NumberedCall) -> bool {
        self.eio.iter().any(|at| op.is(*at))
    }

    pub(super) fn is_full(&self, now: Mono) -> bool {
        self.full.iter().any(|window| window.holds(now))
    }
}

/// A disk call with its places in the two counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedCall {
    pub(super) kind: OpKind,
    pub(super) number: u64,
    pub(super) nth: u64,
}

impl NumberedCall {
    pub(super) fn is(&self, at: OpAt) -> bool {
        match at {
            OpAt::Number(number) => number == self.number,
            OpAt::Nth(kind, nth) => kind == self.kind && nth == self.nth,
        }
    }
}
