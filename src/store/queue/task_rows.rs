//! The rows of one run by task.

use std::collections::BTreeMap;

use super::row::Row;
use crate::run::TaskId;

/// Rows by task. Most runs have one, and a map has room for eleven.
#[derive(Debug)]
pub(super) enum TaskRows {
    One(TaskId, Row),
    Many(BTreeMap<TaskId, Row>),
}

impl Default for TaskRows {
    fn default() -> Self {
        Self::Many(BTreeMap::new())
    }
}

impl TaskRows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(..) => 1,
            Self::Many(rows) => rows.len(),
        }
    }

    pub(super) fn get(&self, task: &TaskId) -> Option<&Row> {
        match self {
            Self::One(only, row) => (only == task).then_some(row),
            Self::Many(rows) => rows.get(task),
        }
    }

    pub(super) fn get_mut(&mut self, task: &TaskId) -> Option<&mut Row> {
        match self {
            Self::One(only, row) => (only == task).then_some(row),
            Self::Many(rows) => rows.get_mut(task),
        }
    }

    /// Adds a row, or puts it in the place of the task's row.
    pub(super) fn insert(&mut self, task: TaskId, row: Row) {
        match std::mem::take(self) {
            Self::One(only, first) if only != task => {
                *self = Self::Many([(only, first), (task, row)].into());
            }
            Self::Many(mut rows) if !rows.is_empty() => {
                rows.insert(task, row);
                *self = Self::Many(rows);
            }
            Self::One(..) | Self::Many(_) => *self = Self::One(task, row),
        }
    }

    pub(super) fn remove(&mut self, task: &TaskId) -> Option<Row> {
        match self {
            Self::Many(rows) => rows.remove(task),
            Self::One(only, _) if only != task => None,
            Self::One(..) => match std::mem::take(self) {
                Self::One(_, row) => Some(row),
                Self::Many(_) => None,
            },
        }
    }

    /// The rows in the order of their tasks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TaskId, &Row)> {
        let (one, many) = match self {
            Self::One(task, row) => (Some((*task, row)), None),
            Self::Many(rows) => (None, Some(rows)),
        };
        let many = many.into_iter().flatten().map(|(task, row)| (*task, row));
        one.into_iter().chain(many)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (TaskId, &mut Row)> {
        let (one, many) = match self {
            Self::One(task, row) => (Some((*task, row)), None),
            Self::Many(rows) => (None, Some(rows)),
        };
        let many = many.into_iter().flatten().map(|(task, row)| (*task, row));
        one.into_iter().chain(many)
    }
}
