//! Entries that are due after a horizon: buckets by the digits of their due times.

use super::slots::{Name, reserve};

const DIGIT: u32 = 6;
const BUCKETS: usize = 1 << DIGIT;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;
/// A bucket with at most so many entries is sorted instead of being spread over the level below.
const FEW: usize = 512;
/// A bucket keeps memory for so many entries.
const KEPT: usize = 64;

/// When an item is due, and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) due: u64,
    pub(super) name: Name,
}

/// 64 buckets to a level, each level 64 times coarser than the one below. An entry lies at the level
/// of the highest digit in which its due time differs from the horizon, in the bucket of that digit.
/// So entries due at the same instant always share a bucket, where they keep their order.
#[derive(Debug)]
pub(super) struct Wheel {
    /// Every entry is due later.
    horizon: u64,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    /// One bit a bucket that is not empty.
    occupied: u64,
    /// None until the level holds an entry.
    buckets: Vec<Vec<Entry>>,
}

impl Wheel {
    pub(super) fn new() -> Self {
        let level = || Level { occupied: 0, buckets: Vec::new() };
        Self { horizon: 0, levels: std::iter::repeat_with(level).take(LEVELS).collect() }
    }

    pub(super) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Adds an entry that is due after the horizon.
    pub(super) fn add(&mut self, entry: Entry) {
        invariant!(entry.due > self.horizon, "the wheel holds what is later");
        let at = level(entry.due ^ self.horizon);
        let bucket = digit(entry.due, at);
        let level = &mut self.levels[at];
        level.occupied |= 1 << bucket;
        if level.buckets.is_empty() {
            level.buckets.resize_with(BUCKETS, Vec::new);
        }
        reserve(&mut level.buckets[bucket]);
        level.buckets[bucket].push(entry);
    }

    /// Moves the horizon past the next entries and gives them to `out`, in the exact order of
    /// (due time, insertion). Returns whether there were any.
    pub(super) fn advance(&mut self, out: &mut impl Extend<Entry>) -> bool {
        let is_occupied = |level: &Level| level.occupied != 0;
        while let Some(at) = self.levels.iter().position(is_occupied) {
            let level = &mut self.levels[at];
            let bucket = level.occupied.trailing_zeros() as usize;
            level.occupied &= level.occupied - 1;
            let mut entries = std::mem::take(&mut level.buckets[bucket]);
            invariant!(!entries.is_empty(), "a level knows which of its buckets hold entries");
            let (start, end) = span(self.horizon, at, bucket);
            let few = entries.len() <= FEW;
            if few || at == 0 {
                self.horizon = end;
                // Stable: entries of one instant lie in the order of insertion.
                entries.sort_by_key(|entry| entry.due);
                out.extend(entries.drain(..));
                self.keep(at, bucket, entries);
                return true;
            }
            self.horizon = start;
            let mut found = false;
            for entry in entries {
                if entry.due == start {
                    out.extend([entry]);
                    found = true;
                } else {
                    self.add(entry);
                }
            }
            if found {
                return true;
            }
        }
        false
    }

    /// Keeps the memory of a small bucket, so that it need not ask for it each time.
    fn keep(&mut self, at: usize, bucket: usize, entries: Vec<Entry>) {
        if entries.capacity() <= KEPT {
            self.levels[at].buckets[bucket] = entries;
        }
    }

    /// Takes all entries out, those of one instant in the order of insertion, and sets the horizon.
    pub(super) fn restart(&mut self, horizon: u64) -> Vec<Vec<Entry>> {
        self.horizon = horizon;
        self.levels.iter_mut().for_each(|level| level.occupied = 0);
        let buckets = self.levels.iter_mut().flat_map(|level| &mut level.buckets);
        buckets.filter(|bucket| !bucket.is_empty()).map(std::mem::take).collect()
    }

    /// Every entry.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.levels.iter().flat_map(|level| &level.buckets).flatten()
    }
}

/// The place of the highest digit that is not zero. `difference` is not zero.
fn level(difference: u64) -> usize {
    (difference.ilog2() / DIGIT) as usize
}

/// The digit at `level`.
fn digit(due: u64, level: usize) -> usize {
    (due >> (level as u32 * DIGIT)) as usize % BUCKETS
}

/// The first and the last instant of a bucket.
fn span(horizon: u64, level: usize, bucket: usize) -> (u64, u64) {
    let below = u64::MAX.checked_shr(u64::BITS - level as u32 * DIGIT).unwrap_or(0);
    let own = ((BUCKETS as u64 - 1) << (level as u32 * DIGIT)) | below;
    let start = horizon & !own | (bucket as u64) << (level as u32 * DIGIT);
    (start, start | below)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each entry lies at the highest digit in which it differs from the horizon, and a level knows
    /// which of its buckets hold any: else the order still holds, but not the cost.
    #[test]
    fn entries_lie_where_they_should() {
        let mut wheel = Wheel::new();
        let mut names = crate::schedule::slots::Slots::new();
        let (mut chance, mut out) = (7_u64, Vec::new());
        for step in 0..5_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let far = chance >> (chance % 60);
            if let Some(due @ 1..) =
                wheel.horizon.checked_add(far).filter(|due| *due > wheel.horizon)
            {
                wheel.add(Entry { due, name: names.add(()) });
            }
            if step % 7 == 0 {
                let passed = out.len();
                wheel.advance(&mut out);
                assert!(out[passed..].iter().all(|entry| entry.due <= wheel.horizon));
            }
            check(&wheel);
        }
        assert!(out.is_sorted_by_key(|entry| entry.due) && out.len() > 1_000, "{}", out.len());
    }

    fn check(wheel: &Wheel) {
        let digits = |at: u64, from: usize| at.checked_shr(from as u32 * DIGIT).unwrap_or(0);
        for (place, level) in wheel.levels.iter().enumerate() {
            for (n, bucket) in level.buckets.iter().enumerate() {
                assert_eq!(level.occupied >> n & 1 == 1, !bucket.is_empty(), "{place}, {n}");
                for entry in bucket {
                    assert_eq!(digits(entry.due, place) % 64, n as u64);
                    let above = place + 1;
                    assert_eq!(digits(entry.due, above), digits(wheel.horizon, above));
                    assert!(digits(entry.due, place) > digits(wheel.horizon, place));
                }
            }
        }
    }

    #[test]
    fn a_bucket_spans_the_instants_of_its_digit() {
        assert_eq!(span(0, 0, 5), (5, 5));
        assert_eq!(span(64, 1, 2), (128, 191));
        assert_eq!(span(u64::MAX, 10, 15), (15 << 60, u64::MAX));
        assert_eq!(span(7 << 12 | 9, 2, 8), (8 << 12, (9 << 12) - 1));
    }
}
