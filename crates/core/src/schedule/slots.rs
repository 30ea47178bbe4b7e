//! Where the items lie, and whether a key or an entry still names one.

/// Names an item in [`Slots`]. Once the item is taken out, no other item ever has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    slot: u32,
    turn: u32,
}

/// Items in slots that are used again.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// The slot that was emptied last, which knows the one emptied before it.
    free: Option<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// How many items the slot has held before. A slot whose count is used up stays empty.
    turn: u32,
    place: Place<T>,
}

#[derive(Debug)]
enum Place<T> {
    Taken(T),
    /// With the slot that was emptied before.
    Free(Option<u32>),
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: None, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn add(&mut self, item: T) -> Name {
        self.len += 1;
        let emptied = self.free.and_then(|at| Some((at, self.slots.get_mut(at as usize)?)));
        if let Some((slot, found)) = emptied {
            if let Place::Free(before) = found.place {
                self.free = before;
            }
            found.place = Place::Taken(item);
            return Name { slot, turn: found.turn };
        }
        let slot = self.slots.len() as u32;
        reserve(&mut self.slots);
        self.slots.push(Slot { turn: 0, place: Place::Taken(item) });
        Name { slot, turn: 0 }
    }

    pub(super) fn has(&self, name: Name) -> bool {
        let slot = self.slots.get(name.slot as usize);
        slot.is_some_and(|slot| slot.turn == name.turn && matches!(slot.place, Place::Taken(_)))
    }

    /// Takes the item out.
    pub(super) fn take(&mut self, name: Name) -> Option<T> {
        if !self.has(name) {
            return None;
        }
        let slot = self.slots.get_mut(name.slot as usize)?;
        let place = std::mem::replace(&mut slot.place, Place::Free(self.free));
        if let Some(turn) = slot.turn.checked_add(1) {
            slot.turn = turn;
            self.free = Some(name.slot);
        }
        self.len -= 1;
        match place {
            Place::Taken(item) => Some(item),
            Place::Free(_) => None,
        }
    }
}

/// Makes room for one more. A large vector grows by a quarter, not to twice its size, because its
/// room is the queue's memory.
pub(super) fn reserve<T>(all: &mut Vec<T>) {
    if all.len() == all.capacity() {
        all.reserve_exact((all.len() / 4).max(4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_under_another_name() {
        let mut slots = Slots::new();
        let first = slots.add('a');
        assert_eq!((slots.take(first), slots.take(first), slots.len()), (Some('a'), None, 0));
        let second = slots.add('b');
        assert_eq!((second.slot, slots.has(first), slots.has(second)), (first.slot, false, true));
    }

    /// After 2^32 items a slot would give the first one's name again.
    #[test]
    fn a_slot_whose_names_are_used_up_stays_empty() {
        let mut slots = Slots::new();
        let first = slots.add('a');
        slots.slots[0].turn = u32::MAX;
        let last = Name { turn: u32::MAX, ..first };
        assert_eq!(slots.take(last), Some('a'));
        assert_eq!(slots.add('b').slot, 1);
        assert!(!slots.has(first) && !slots.has(last));
    }

    /// The bytes of an entry in memory rest on this.
    #[test]
    fn a_slot_of_a_small_item_has_twelve_bytes() {
        assert_eq!(size_of::<Slot<u32>>(), 12);
    }
}
