//! The kinds of faults, and how often each struck.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A kind of fault. Each is drawn as data, counted when it strikes, and reported when it never did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A node was killed at an await and started again.
    Crash,
    /// A node stood still for a while.
    Pause,
    /// A node was slow: it stood still again and again, each time only briefly.
    SlowNode,
    /// A node was shut down in good order in the middle of its work, and started again.
    Shutdown,
    /// A connection was refused.
    Refuse,
    /// A connection attempt hung.
    ConnectHang,
    /// A stream was reset.
    Reset,
    /// A stream stalled.
    Stall,
    /// A stream ended after byte n.
    Cut,
    /// A stream was slowed.
    Delay,
    /// Two nodes could not reach each other.
    Partition,
    /// The bytes of one node did not reach another, while the other direction was open.
    OneWay,
    /// Packets were lost and sent again, later each time.
    Loss,
    /// The endpoint answered 5xx.
    ServerError,
    /// The endpoint answered 4xx.
    ClientError,
    /// The endpoint answered 429 with Retry-After.
    RateLimit,
    /// The endpoint answered slowly, byte by byte.
    SlowStream,
    /// The endpoint answered with a malformed body.
    Malformed,
    /// The endpoint never answered.
    EndpointHang,
    /// A request to the endpoint ended the process that made it.
    Poison,
    /// The endpoint did as it was asked after its caller had given up.
    LateSuccess,
    /// A write that was not synced was torn by a crash.
    TornWrite,
    /// A write that was not synced was lost by a crash.
    LostWrite,
    /// A disk call failed with EIO.
    Eio,
    /// A write found no room on the disk (ENOSPC).
    DiskFull,
    /// A sync took long.
    SlowSync,
    /// A bit on the disk flipped.
    BitRot,
    /// A node's wall clock is wrong from the beginning.
    Skew,
    /// A node's wall clock jumped, forward or back.
    Jump,
    /// A node's monotonic clock runs fast or slow.
    Drift,
    /// A request to the store was lost.
    StoreRequestLost,
    /// The store's answer was lost after it had acted.
    StoreAnswerLost,
    /// A request to the store arrived twice.
    StoreDuplicate,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 33] = [
        Self::Crash,
        Self::Pause,
        Self::SlowNode,
        Self::Shutdown,
        Self::Refuse,
        Self::ConnectHang,
        Self::Reset,
        Self::Stall,
        Self::Cut,
        Self::Delay,
        Self::Partition,
        Self::OneWay,
        Self::Loss,
        Self::ServerError,
        Self::ClientError,
        Self::RateLimit,
        Self::SlowStream,
        Self::Malformed,
        Self::EndpointHang,
        Self::Poison,
        Self::LateSuccess,
        Self::TornWrite,
        Self::LostWrite,
        Self::Eio,
        Self::DiskFull,
        Self::SlowSync,
        Self::BitRot,
        Self::Skew,
        Self::Jump,
        Self::Drift,
        Self::StoreRequestLost,
        Self::StoreAnswerLost,
        Self::StoreDuplicate,
    ];
}

/// The kind's name as its JSON spells it.
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// From the kind's name as its JSON spells it.
impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("`{text}` is no kind of fault"))
    }
}

/// Counts the faults that struck. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Strikes(Arc<Mutex<BTreeMap<FaultKind, u64>>>);

impl Strikes {
    /// Counts one strike.
    pub fn strike(&self, kind: FaultKind) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    }

    /// The counts so far; kinds that never struck are absent.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<FaultKind, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
