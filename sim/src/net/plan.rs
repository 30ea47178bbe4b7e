//! The network's faults as plain data.

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};

use crate::fault::FaultKind;

/// The faults of the network, and how it cuts a stream into pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetPlan {
    /// The faults. On one connection they are looked at in this order.
    #[serde(default)]
    pub faults: Vec<NetFault>,
    /// Whether reads and writes move fewer bytes than asked for now and then. It is no fault: a
    /// program must always bear it. On unless set.
    #[serde(default = "yes")]
    pub short: bool,
}

fn yes() -> bool {
    true
}

/// No faults; short reads and writes.
impl Default for NetPlan {
    fn default() -> Self {
        Self { faults: Vec::new(), short: true }
    }
}

/// One fault: when, between whom, on which connections, what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetFault {
    /// When it can take effect.
    pub window: Window,
    /// The node that connects, or for a one-way partition the one that sends; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node that listens, or for a one-way partition the one that receives; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Which connections from `from` to `to`. Partitions do not look at it.
    #[serde(default)]
    pub which: Which,
    /// Its effect.
    pub effect: Effect,
}

impl NetFault {
    /// A fault of every connection between any two nodes at any time.
    #[must_use]
    pub fn always(effect: Effect) -> Self {
        Self { window: Window::ALWAYS, from: None, to: None, which: Which::Every, effect }
    }

    /// Whether it is about the `number`-th connection from `from` to `to`, now.
    pub(super) fn covers(&self, from: &str, to: &str, number: u64, now: Mono) -> bool {
        self.window.holds(now)
            && self.which.is(number)
            && names(self.from.as_deref(), from)
            && names(self.to.as_deref(), to)
    }

    /// Whether it keeps bytes of `sender` from `receiver` now.
    pub(super) fn parts(&self, sender: &str, receiver: &str, now: Mono) -> bool {
        let (a, b) = (self.from.as_deref(), self.to.as_deref());
        let along = names(a, sender) && names(b, receiver);
        let against = names(a, receiver) && names(b, sender);
        let parted = match self.effect {
            Effect::Partition => along || against,
            Effect::OneWay => along,
            _ => false,
        };
        parted && sender != receiver && self.window.holds(now)
    }
}

fn names(wanted: Option<&str>, node: &str) -> bool {
    wanted.is_none_or(|w| w == node)
}

/// A stretch of true simulated time, the end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its first nanosecond.
    pub from: Mono,
    /// The first nanosecond after it.
    pub until: Mono,
}

impl Window {
    /// All time.
    pub const ALWAYS: Self = Self { from: Mono::from_nanos(0), until: Mono::from_nanos(u64::MAX) };

    /// Whether it contains `now`.
    #[must_use]
    pub fn holds(self, now: Mono) -> bool {
        self.from <= now && now < self.until
    }
}

/// Which of several things counted from 0 a fault is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// All of them.
    #[default]
    Every,
    /// The n-th, from 0.
    Nth(u64),
}

impl Which {
    /// Whether the `number`-th is meant.
    #[must_use]
    pub fn is(self, number: u64) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(n) => n == number,
        }
    }
}

/// One of a connection's two streams of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the node that connected.
    Request,
    /// From the node that listened.
    Response,
}

/// The effect of a fault. A fault at byte n takes effect when the sender offers the byte after the
/// n-th, so that exactly n bytes come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// The connection is refused.
    Refuse,
    /// The connection is not made until the window ends or the network heals.
    Hang,
    /// Both ends see a reset, the receiver after `byte` bytes.
    ResetAt {
        /// How many bytes of the direction pass before it.
        byte: u64,
        /// Which direction is counted.
        direction: Direction,
    },
    /// The connection is closed cleanly, the receiver sees the end after `byte` bytes.
    CutAt {
        /// How many bytes of the direction pass before it.
        byte: u64,
        /// Which direction is counted.
        direction: Direction,
    },
    /// Nothing passes beyond `byte` bytes for a while.
    Stall {
        /// How many bytes of the direction pass before it.
        byte: u64,
        /// Which direction is counted.
        direction: Direction,
        /// How long.
        lasts: Nanos,
    },
    /// Every piece arrives later, in both directions.
    Delay {
        /// How much.
        by: Nanos,
    },
    /// Pieces are lost and sent again: each arrives later by 200 ms, 600 ms, 1.4 s and so on, as
    /// often as it is lost, in both directions.
    Loss {
        /// How many of a hundred sendings are lost.
        percent: u8,
    },
    /// `from` and `to` can't reach each other. Connections hang and streams fall silent until the
    /// window ends or the network heals; then both go on and nothing is lost.
    Partition,
    /// Bytes from `from` don't reach `to`; otherwise as [`Effect::Partition`]. No connection is
    /// made between the two, since that takes both ways.
    OneWay,
}

impl Effect {
    /// The kind it is counted as.
    #[must_use]
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Refuse => FaultKind::Refuse,
            Self::Hang => FaultKind::ConnectHang,
            Self::ResetAt { .. } => FaultKind::Reset,
            Self::CutAt { .. } => FaultKind::Cut,
            Self::Stall { .. } => FaultKind::Stall,
            Self::Delay { .. } => FaultKind::Delay,
            Self::Loss { .. } => FaultKind::Loss,
            Self::Partition => FaultKind::Partition,
            Self::OneWay => FaultKind::OneWay,
        }
    }

    /// The place where it waits for a stream, if it waits for one.
    pub(super) fn place(self) -> Option<(Direction, u64)> {
        match self {
            Self::ResetAt { byte, direction }
            | Self::CutAt { byte, direction }
            | Self::Stall { byte, direction, .. } => Some((direction, byte)),
            _ => None,
        }
    }
}
