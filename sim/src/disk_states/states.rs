//! Which states a power failure may leave.

use std::fmt;
use std::ops::Range;

use crate::disk::{Change, SECTOR, Unsynced};

/// Which of the changes that are not durable survive. The window is the newest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surviving {
    /// Of the window any subset is kept.
    Subset {
        /// A bit a change of the window, its oldest lowest: whether it is kept.
        kept: u64,
        /// Whether all changes before the window are kept, or none.
        before: bool,
    },
    /// One write of the window is torn.
    Torn {
        /// Its place among all changes that are not durable, the oldest 0.
        write: usize,
        /// The disk's sector before which it is torn.
        at: u64,
        /// Which part of it is kept.
        kept: Part,
        /// Which of the others survive.
        others: Others,
    },
}

/// A part of a torn write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The part before the tear.
    Head,
    /// The part after it.
    Tail,
}

/// Which of the other changes survive where a write is torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// All are kept.
    Kept,
    /// All are lost.
    Lost,
    /// Those before the torn one are kept, those after it are lost: the disk keeps an order.
    InOrder,
}

const PARTS: [Part; 2] = [Part::Head, Part::Tail];
const OTHERS: [Others; 3] = [Others::Kept, Others::Lost, Others::InOrder];

/// Every state that a power failure may leave of these changes, with a window of `window`. All of
/// them are lost in the first, and kept in the last subset.
pub fn all(changes: &[Unsynced], window: usize) -> Vec<Surviving> {
    let in_window = changes.len().min(window);
    let before: &[bool] = if changes.len() > window { &[false, true] } else { &[false] };
    let subsets = (0..1_u64 << in_window)
        .flat_map(|kept| before.iter().map(move |&before| Surviving::Subset { kept, before }));
    let first = changes.len() - in_window;
    let torn = changes.iter().enumerate().skip(first).flat_map(|(write, unsynced)| {
        tears(&unsynced.change).flat_map(move |at| {
            PARTS.into_iter().flat_map(move |kept| {
                OTHERS.into_iter().map(move |others| Surviving::Torn { write, at, kept, others })
            })
        })
    });
    subsets.chain(torn).collect()
}

/// The sectors before which a change may be torn.
fn tears(change: &Change) -> Range<u64> {
    let sectors = touched(change);
    sectors.start + 1..sectors.end
}

/// The sectors that a write touches; none where only the length changes.
pub(super) fn touched(change: &Change) -> Range<u64> {
    match change {
        Change::SetLen(_) => 0..0,
        Change::Write(offset, bytes) => {
            offset / SECTOR..(offset + bytes.len() as u64).div_ceil(SECTOR)
        }
    }
}

impl Surviving {
    /// Whether the sector with this number of the `index`-th oldest of `count` changes is kept.
    #[must_use]
    pub fn keeps(self, index: usize, count: usize, window: usize, sector: u64) -> bool {
        let first = count - count.min(window);
        match self {
            Self::Subset { before, .. } if index < first => before,
            Self::Subset { kept, .. } => kept >> (index - first) & 1 == 1,
            Self::Torn { write, at, kept, .. } if index == write => match kept {
                Part::Head => sector < at,
                Part::Tail => sector >= at,
            },
            Self::Torn { write, others, .. } => match others {
                Others::Kept => true,
                Others::Lost => false,
                Others::InOrder => index < write,
            },
        }
    }
}

/// In words for a reader.
impl fmt::Display for Surviving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subset { kept, before } => {
                let places = (0..u64::BITS).filter(|place| kept >> place & 1 == 1);
                let places: Vec<String> = places.map(|place| place.to_string()).collect();
                let older = if *before { "kept" } else { "lost" };
                write!(
                    f,
                    "of the window [{}] kept, 0 its oldest; older ones {older}",
                    places.join(" ")
                )
            }
            Self::Torn { write, at, kept, others } => {
                let kept = if *kept == Part::Head { "head" } else { "tail" };
                let others = match others {
                    Others::Kept => "all others kept",
                    Others::Lost => "all others lost",
                    Others::InOrder => "those before it kept, those after it lost",
                };
                write!(f, "change {write} torn before sector {at}, its {kept} kept; {others}")
            }
        }
    }
}
