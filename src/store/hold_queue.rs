//! The tasks that guards hold back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::due_index::Place;

/// Tasks that guards hold back, by action, first come first.
#[derive(Debug, Default)]
pub(super) struct HoldQueue {
    /// An action without held tasks is absent.
    by_action: BTreeMap<Arc<str>, BTreeMap<u64, Place>>,
    last_number: u64,
    /// How many more tasks an action's guard holds back that were not loaded.
    not_loaded: BTreeMap<Arc<str>, u64>,
}

/// The place of a held task: the action and a number that grows.
pub(super) type HoldPlace = (Arc<str>, u64);

impl HoldQueue {
    /// Adds a task behind the others that `action`'s guard holds back.
    pub(super) fn push(&mut self, action: &str, task: Place) -> HoldPlace {
        self.last_number += 1;
        let same = self.by_action.get_key_value(action).map(|(name, _)| Arc::clone(name));
        let action = same.unwrap_or_else(|| action.into());
        self.by_action.entry(Arc::clone(&action)).or_default().insert(self.last_number, task);
        (action, self.last_number)
    }

    /// Removes a task, if it is held back.
    pub(super) fn remove(&mut self, place: Option<HoldPlace>) {
        let Some((action, place)) = place else { return };
        let Some(tasks) = self.by_action.get_mut(&action) else { return };
        tasks.remove(&place);
        if tasks.is_empty() {
            self.by_action.remove(&action);
        }
    }

    /// How many tasks `action`'s guard holds back.
    pub(super) fn count(&self, action: &str) -> u64 {
        let here = self.by_action.get(action).map_or(0, |tasks| tasks.len() as u64);
        here + self.not_loaded.get(action).copied().unwrap_or_default()
    }

    /// Sets how many tasks that `action`'s guard holds back were not loaded.
    #[cfg(feature = "postgres")]
    pub(super) fn set_not_loaded(&mut self, action: &str, tasks: u64) {
        self.not_loaded.insert(action.into(), tasks);
    }

    /// The first `most` tasks that `action`'s guard holds back.
    pub(super) fn first(&self, action: &str, most: usize) -> Vec<Place> {
        let tasks = self.by_action.get(action).into_iter().flatten();
        tasks.map(|(_, task)| *task).take(most).collect()
    }
}
