/// Names an item of a [`Slab`]; the name of an item that was taken out names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    at: u32,
    life: u32,
}

impl Id {
    /// As one number, different for each item that is there.
    pub(super) fn number(self) -> u64 {
        (u64::from(self.life) << 32) | u64::from(self.at)
    }
}

/// Items by name, whose places are used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn add(&mut self, item: T) -> Id {
        if let Some(at) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(at as usize)
        {
            slot.1 = Some(item);
            return Id { at, life: slot.0 };
        }
        let at = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push((0, Some(item)));
        Id { at, life: 0 }
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.slots.get(id.at as usize).filter(|slot| slot.0 == id.life)?.1.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slots.get_mut(id.at as usize).filter(|slot| slot.0 == id.life)?.1.as_mut()
    }

    pub(super) fn take(&mut self, id: Id) -> Option<T> {
        let slot = self.slots.get_mut(id.at as usize).filter(|slot| slot.0 == id.life)?;
        let item = slot.1.take()?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(id.at);
        Some(item)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        let named = |(at, slot): (usize, &'_ (u32, Option<T>))| Id {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            life: slot.0,
        };
        let slots = self.slots.iter().enumerate();
        slots.filter_map(move |(at, slot)| Some((named((at, slot)), slot.1.as_ref()?)))
    }
}
