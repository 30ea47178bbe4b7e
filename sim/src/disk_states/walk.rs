//! Goes through a disk trace call by call and makes every state that a power failure may leave.

use super::digests::{SeenStates, StateBuilder};
use super::disk_trace::{DiskTrace, Effect, Op};
use super::judge::CrashState;
use super::report::Counts;
use super::states::{Surviving, all};
use crate::disk::Image;

/// A state that was not met before.
pub(super) struct State {
    pub(super) op: usize,
    pub(super) left: Surviving,
    pub(super) crash_state: CrashState,
}

/// Hands every distinct state to `each`, in order, and counts them all.
pub(super) fn walk(trace: &DiskTrace, window: usize, mut each: impl FnMut(State)) -> Counts {
    let mut counts = Counts::of(trace, window);
    let mut walker = Walker {
        window,
        builder: StateBuilder::new(&[]),
        image: Image::default(),
        seen: SeenStates::default(),
    };
    let end = Op { effect: Effect::Read, begun: trace.steps.len(), acked: trace.steps.len() };
    let mut before = None;
    for (number, op) in trace.ops.iter().chain([&end]).enumerate() {
        if let Effect::Change(change) = &op.effect {
            walker.image.change(number as u64, change.clone());
        }
        let lefts = all(walker.image.unsynced(), window);
        counts.add(&lefts, walker.image.unsynced().len());
        // A call that changes nothing leaves the states of the call before it.
        let is_same =
            !matches!(op.effect, Effect::Change(_)) && before == Some((op.begun, op.acked));
        if !is_same {
            counts.distinct += walker.each(number, op, &lefts, &mut each);
        }
        before = Some((op.begun, op.acked));
        if op.effect == Effect::Sync {
            walker.image.sync();
            walker.builder = StateBuilder::new(walker.image.durable());
            before = None;
        }
    }
    counts
}

struct Walker {
    window: usize,
    builder: StateBuilder,
    image: Image,
    seen: SeenStates,
}

impl Walker {
    fn each(
        &mut self,
        number: usize,
        op: &Op,
        lefts: &[Surviving],
        each: &mut impl FnMut(State),
    ) -> u64 {
        let (begun, acked) = (op.begun, op.acked);
        let mut new = 0;
        for &left in lefts {
            let (digest, bytes) = self.builder.make(&self.image, left, self.window);
            if self.seen.is_new(digest, begun, acked) {
                new += 1;
                let crash_state = CrashState { bytes: bytes.to_vec(), begun, acked };
                each(State { op: number, left, crash_state });
            }
        }
        new
    }
}
