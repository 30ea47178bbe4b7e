//! The lines before guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::due_index::Place;

/// Tasks that guards hold back, by action, first come first.
#[derive(Debug, Default)]
pub(super) struct HoldQueue {
    /// No line is empty.
    of: BTreeMap<Arc<str>, BTreeMap<u64, Place>>,
    joined: u64,
    /// How many stand in a line behind those that a store has brought here.
    beyond: BTreeMap<Arc<str>, u64>,
}

/// A place in a line.
pub(super) type InLine = (Arc<str>, u64);

impl HoldQueue {
    /// A place at the end of `action`'s line.
    pub(super) fn join(&mut self, action: &str, task: Place) -> InLine {
        self.joined += 1;
        let known = self.of.get_key_value(action).map(|(name, _)| Arc::clone(name));
        let action = known.unwrap_or_else(|| action.into());
        self.of.entry(Arc::clone(&action)).or_default().insert(self.joined, task);
        (action, self.joined)
    }

    /// Gives a place up.
    pub(super) fn leave(&mut self, place: Option<InLine>) {
        let Some((action, place)) = place else { return };
        let Some(line) = self.of.get_mut(&action) else { return };
        line.remove(&place);
        if line.is_empty() {
            self.of.remove(&action);
        }
    }

    /// How many stand in `action`'s line.
    pub(super) fn length(&self, action: &str) -> u64 {
        let here = self.of.get(action).map_or(0, |line| line.len() as u64);
        here + self.beyond.get(action).copied().unwrap_or_default()
    }

    /// So many more stand in `action`'s line.
    #[cfg(feature = "postgres")]
    pub(super) fn beyond(&mut self, action: &str, more: u64) {
        self.beyond.insert(action.into(), more);
    }

    /// The first `most` in `action`'s line.
    pub(super) fn first(&self, action: &str, most: usize) -> Vec<Place> {
        let line = self.of.get(action).into_iter().flatten();
        line.map(|(_, task)| *task).take(most).collect()
    }
}
