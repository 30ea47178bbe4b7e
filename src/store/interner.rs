//! Values that many entries have in common, each kept once.

use std::collections::BTreeSet;
use std::sync::Arc;

/// How many values are kept before those that nothing else holds are dropped for the first time.
const FEW: usize = 64;

/// Values of which each is kept once, for as long as something holds it.
#[derive(Debug)]
pub(super) struct Interner<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    /// With so many, those that nothing else holds are dropped.
    most: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), most: FEW }
    }
}

impl<T: ?Sized + Ord> Interner<T> {
    /// The value that is equal to `value`: the one that is known, or else `new`.
    pub(super) fn get(&mut self, value: &T, new: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(value) {
            return Arc::clone(known);
        }
        if self.known.len() >= self.most {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.most = (2 * self.known.len()).max(FEW);
        }
        let new = new();
        self.known.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one() {
        let mut names = Interner::<str>::default();
        let first = names.get("a", || "a".into());
        let second = names.get("a", || "a".into());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &names.get("b", || "b".into())));
    }

    /// Names come from users, and there is no end of them.
    #[test]
    fn what_nothing_holds_is_dropped() {
        let mut names = Interner::<str>::default();
        let held = names.get("held", || "held".into());
        for n in 0..10_000 {
            let name = format!("name {n}");
            drop(names.get(&name, || name.as_str().into()));
        }
        assert!(names.known.len() <= 2 * FEW, "{} are kept", names.known.len());
        assert!(Arc::ptr_eq(&held, &names.get("held", || "another".into())));
    }
}
