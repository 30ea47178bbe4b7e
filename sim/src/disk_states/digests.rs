//! Digests of disk contents, to recognise equal contents without keeping them.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::states::{Surviving, touched};
use crate::disk::{Change, Image, SECTOR, apply};

/// A disk's contents in 128 bits: the sum of its sectors' hashes and its length's. Equal contents
/// have equal digests, whatever led to them; that others do is as unlikely as two equal hashes.
pub(super) type Digest = u128;

/// Makes the states of one image one after another in the same bytes, each with its digest.
pub(super) struct StateBuilder {
    base: Vec<u8>,
    /// Of each sector of `base`.
    digests: Vec<Digest>,
    sum: Digest,
    bytes: Vec<u8>,
}

impl StateBuilder {
    /// For images whose durable bytes are these.
    pub(super) fn new(base: &[u8]) -> Self {
        let sectors = base.chunks(SECTOR as usize).enumerate();
        let digests: Vec<Digest> = sectors.map(|(at, bytes)| digest(at as u64, bytes)).collect();
        let sum = digests.iter().fold(0, |sum: Digest, digest| sum.wrapping_add(*digest));
        Self { base: base.to_vec(), digests, sum, bytes: base.to_vec() }
    }

    /// Makes what `left` leaves of `image`, and returns its digest.
    pub(super) fn make(
        &mut self,
        image: &Image,
        left: Surviving,
        window: usize,
    ) -> (Digest, &[u8]) {
        self.undo(image);
        let changes = image.unsynced();
        for (index, unsynced) in changes.iter().enumerate() {
            let keeps = |sector| left.keeps(index, changes.len(), window, sector);
            apply(&mut self.bytes, &unsynced.change, keeps);
        }
        (self.digest(image), &self.bytes)
    }

    /// Puts the durable bytes back wherever `image` may have changed them.
    fn undo(&mut self, image: &Image) {
        self.bytes.resize(self.base.len(), 0);
        for sector in sectors_of(image, self.base.len(), self.bytes.len()) {
            let range = range_of(sector, self.base.len());
            self.bytes[range.clone()].copy_from_slice(&self.base[range]);
        }
    }

    fn digest(&self, image: &Image) -> Digest {
        let mut sum = self.sum;
        for sector in sectors_of(image, self.base.len(), self.bytes.len()) {
            let before = self.digests.get(sector as usize).copied().unwrap_or_default();
            let bytes = &self.bytes[range_of(sector, self.bytes.len())];
            sum = sum.wrapping_sub(before).wrapping_add(digest(sector, bytes));
        }
        sum.wrapping_add(digest(u64::MAX, &(self.bytes.len() as u64).to_be_bytes()))
    }
}

/// The sectors in which a state of `image` may differ from its durable bytes.
fn sectors_of(image: &Image, base: usize, len: usize) -> BTreeSet<u64> {
    let shortest =
        image.unsynced().iter().fold(base.min(len), |least, unsynced| match unsynced.change {
            Change::SetLen(len) => least.min(usize::try_from(len).unwrap_or(least)),
            Change::Write(..) => least,
        });
    let ends = shortest as u64 / SECTOR..(base.max(len) as u64).div_ceil(SECTOR);
    let written = image.unsynced().iter().flat_map(|unsynced| touched(&unsynced.change));
    written.chain(ends).collect()
}

fn range_of(sector: u64, len: usize) -> std::ops::Range<usize> {
    let start = ((sector * SECTOR) as usize).min(len);
    start..(start + SECTOR as usize).min(len)
}

/// One sector's part of a digest. Zeros have none: what they add to a longer disk is its length.
fn digest(sector: u64, bytes: &[u8]) -> Digest {
    if *bytes == [0; SECTOR as usize][..bytes.len()] {
        return 0;
    }
    let hash = Sha256::new().chain_update(sector.to_be_bytes()).chain_update(bytes).finalize();
    hash.iter().take(16).fold(0, |digest, byte| digest << 8 | Digest::from(*byte))
}

/// The states that were met, by contents and by what had been asked and answered.
#[derive(Debug, Default)]
pub(super) struct SeenStates(BTreeMap<Digest, BTreeSet<(usize, usize)>>);

impl SeenStates {
    /// Whether it was not met before.
    pub(super) fn is_new(&mut self, digest: Digest, begun: usize, acked: usize) -> bool {
        self.0.entry(digest).or_default().insert((begun, acked))
    }
}
