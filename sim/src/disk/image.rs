//! The bytes of a disk: durable ones, unsynced ones, and how a crash changes both.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::runtime::mix;

/// A write is torn only between sectors of this many bytes.
pub const SECTOR: u64 = 512;

/// How a crash changes the writes since the last sync. A pure function of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashOutcome {
    /// All are kept.
    KeepAll,
    /// All are lost.
    LoseAll,
    /// The n oldest are kept.
    KeepFirst(usize),
    /// Only the n-th oldest, from 0, is kept.
    KeepOnly(usize),
    /// Only the n-th oldest, from 0, is lost.
    LoseOnly(usize),
    /// Each is kept, lost or torn, as drawn from this seed. So a later one may be kept where an
    /// earlier one is lost.
    Drawn(u64),
}

impl CrashOutcome {
    /// Whether the sector with this number of the change that is `index`-th oldest and has disk
    /// call number `op` is kept.
    #[must_use]
    pub fn keeps(self, index: usize, op: u64, sector: u64) -> bool {
        match self {
            Self::KeepAll => true,
            Self::LoseAll => false,
            Self::KeepFirst(n) => index < n,
            Self::KeepOnly(n) => index == n,
            Self::LoseOnly(n) => index != n,
            Self::Drawn(seed) => {
                let drawn = mix(seed, op);
                match drawn % 4 {
                    0 => true,
                    1 => false,
                    _ => mix(drawn, sector) & 1 == 0,
                }
            }
        }
    }
}

/// A change of a disk's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These bytes at this offset; a write beyond the end lengthens the disk.
    Write(u64, Arc<[u8]>),
    /// A new length; new bytes are zero.
    SetLen(u64),
}

/// A change that is not durable yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsynced {
    /// The number of the disk call that made it.
    pub op: u64,
    /// The change.
    pub change: Change,
}

/// The disk after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// The disk's bytes.
    pub bytes: Vec<u8>,
    /// How many changes were lost so that it shows.
    pub lost: u64,
    /// How many writes were torn so that it shows.
    pub torn: u64,
}

/// A disk's bytes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    durable: Vec<u8>,
    seen: Vec<u8>,
    unsynced: Vec<Unsynced>,
}

impl Image {
    /// A disk that holds `bytes`, all durable.
    #[must_use]
    pub fn holding(bytes: Vec<u8>) -> Self {
        Self { seen: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }

    /// The durable bytes.
    #[must_use]
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// The bytes that reads see.
    #[must_use]
    pub fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// The changes since the last sync, oldest first.
    #[must_use]
    pub fn unsynced(&self) -> &[Unsynced] {
        &self.unsynced
    }

    /// Makes `change`, not durable yet.
    pub fn change(&mut self, op: u64, change: Change) {
        apply(&mut self.seen, &change, |_| true);
        self.unsynced.push(Unsynced { op, change });
    }

    /// Flips a bit of the durable bytes and of the bytes that reads see. Returns whether there is
    /// such a byte.
    pub fn flip(&mut self, byte: u64, bit: u32) -> bool {
        let at = usize::try_from(byte).unwrap_or(usize::MAX);
        let Some(durable) = self.durable.get_mut(at) else { return false };
        *durable ^= 1 << (bit % 8);
        if let Some(seen) = self.seen.get_mut(at) {
            *seen ^= 1 << (bit % 8);
        }
        true
    }

    /// Makes every change durable.
    pub fn sync(&mut self) {
        for Unsynced { change, .. } in self.unsynced.drain(..) {
            apply(&mut self.durable, &change, |_| true);
        }
    }

    /// The disk after a crash with this fate.
    #[must_use]
    pub fn after(&self, outcome: CrashOutcome) -> Aftermath {
        let mut bytes = self.durable.clone();
        let mut kept = Vec::with_capacity(self.unsynced.len());
        for (index, Unsynced { op, change }) in self.unsynced.iter().enumerate() {
            kept.push(apply(&mut bytes, change, |sector| outcome.keeps(index, *op, sector)));
        }
        let mut left = Aftermath { bytes, lost: 0, torn: 0 };
        for (Unsynced { change, .. }, kept_some) in self.unsynced.iter().zip(kept) {
            match (self.is_missed(change, &left.bytes), kept_some) {
                (false, _) => {}
                (true, true) => left.torn += 1,
                (true, false) => left.lost += 1,
            }
        }
        left
    }

    /// Whether `left` differs from what reads saw, where `change` made a difference.
    fn is_missed(&self, change: &Change, left: &[u8]) -> bool {
        match change {
            Change::Write(offset, bytes) => {
                let range = *offset as usize..*offset as usize + bytes.len();
                left.get(range.clone()) != self.seen.get(range)
            }
            Change::SetLen(_) => left.len() != self.seen.len(),
        }
    }
}

/// Makes the sectors of `change` that `keep` keeps, and says whether that changed anything. A
/// change of length counts as sector 0.
pub(crate) fn apply(bytes: &mut Vec<u8>, change: &Change, keep: impl Fn(u64) -> bool) -> bool {
    match change {
        Change::SetLen(len) => {
            let changes = keep(0) && bytes.len() as u64 != *len;
            if changes {
                bytes.resize(*len as usize, 0);
            }
            changes
        }
        Change::Write(offset, data) => {
            let kept = sectors(*offset, data).filter(|(at, _)| keep(at / SECTOR));
            kept.fold(false, |changed, (at, piece)| put(bytes, at as usize, piece) || changed)
        }
    }
}

/// `data` cut at the disk's sectors, each piece with its offset on the disk.
fn sectors(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let head = ((SECTOR - offset % SECTOR) as usize).min(data.len());
    let (head, rest) = data.split_at(head);
    let pieces = std::iter::once(head).chain(rest.chunks(SECTOR as usize));
    pieces.scan(offset, |at, piece| {
        let here = *at;
        *at += piece.len() as u64;
        Some((here, piece))
    })
}

fn put(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) -> bool {
    let end = at + piece.len();
    let longer = end > bytes.len();
    if longer {
        bytes.resize(end, 0);
    }
    let changed = longer || bytes[at..end] != *piece;
    bytes[at..end].copy_from_slice(piece);
    changed
}
