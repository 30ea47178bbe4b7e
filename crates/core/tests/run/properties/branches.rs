//! What branches hand on to joins and handlers (C18).

use std::collections::BTreeSet;

use retrial_core::workflow::{Quorum, Step};

use super::super::graphs::Ask;
use super::{Is, Oracle};

impl Oracle<'_> {
    /// How many of a step's tasks must succeed, and how many still may (C18).
    pub(super) fn is_decided(&self, at: usize) -> bool {
        let needed = needed(self.step(at).success, self.tasks[at] as usize);
        let live =
            self.tasks[at] as usize - self.ended.keys().filter(|t| t.step.index() == at).count();
        self.well[at] >= needed || self.well[at] + live < needed
    }

    pub(super) fn step(&self, at: usize) -> &Step {
        &self.case.graph.workflow.steps()[at]
    }

    /// What reaches the step of what went wrong before it (C18): of one that never starts, from
    /// every side.
    pub(super) fn inherits(&self, at: usize, never: bool) -> BTreeSet<usize> {
        let lost = |from: &usize| matches!(self.is[*from], Is::Failed | Is::Unreachable);
        let after = self.step(at).after.iter().map(|s| s.index());
        let edges = self.case.graph.edges.iter().filter(|e| e.to == at && never).map(|e| e.from);
        let from = after.chain(edges).chain(self.caught[at].iter().copied()).filter(lost);
        from.flat_map(|from| self.carries[from].clone()).collect()
    }

    /// The code of the first error in text order, then by item.
    pub(super) fn first_error(&self, at: usize, own: Option<&str>) -> Option<String> {
        let mut all = self.inherits(at, false);
        if own.is_some() {
            all.insert(at);
        }
        let first = *all.first()?;
        let task = self.ended.iter().find_map(|(task, error)| {
            error.as_ref().filter(|_| task.step.index() == first).map(|e| e.code.to_string())
        });
        let whole = self.errors.get(&first).map(|e| e.code.to_string());
        task.or(whole).or(own.map(str::to_owned))
    }

    /// Whether a join that can do without the step judges its failure.
    pub(super) fn is_taken_in(&self, at: usize) -> bool {
        (0..self.is.len()).any(|to| {
            let after = self.step(to).after.iter().any(|s| s.index() == at);
            let led = self.case.graph.edges.iter().any(|e| e.from == at && e.to == to);
            let joins = after && self.step(to).join != Quorum::All;
            match self.is[to] {
                Is::Waiting => joins || (after || led) && self.is_taken_in(to),
                Is::Unreachable => (after || led) && self.is_taken_in(to),
                Is::Active | Is::Succeeded | Is::Failed => joins,
                Is::Skipped => false,
            }
        })
    }

    pub(super) fn has_open_before(&self, at: usize) -> bool {
        let after = self.step(at).after.iter().map(|s| s.index());
        let edges = self.case.graph.edges.iter().filter(|e| e.to == at).map(|e| e.from);
        after.chain(edges).any(|from| {
            matches!(self.is[from], Is::Waiting | Is::Active) || self.has_open_before(from)
        })
    }

    pub(super) fn requirement_holds(&self, at: usize) -> bool {
        let joins = self.step(at).join != Quorum::All;
        let error = self.handles[at] || joins && !self.inherits(at, false).is_empty();
        match &self.case.graph.requires[at] {
            Some(Ask::Input(yes)) => self.case.yes == *yes,
            Some(Ask::Exists) => error,
            Some(Ask::Absent) => !error,
            _ => true,
        }
    }
}

/// H17: whether the code is an HTTP status that the name stands for, of the two that are drawn.
pub(super) fn among(code: &str, name: &str) -> bool {
    let Some(status) = code.parse::<u32>().ok().filter(|_| code.len() == 3) else { return false };
    match name {
        "4xx" => (400..500).contains(&status),
        "429-503" => (429..=503).contains(&status),
        _ => false,
    }
}

pub(super) fn needed(quorum: Quorum, count: usize) -> usize {
    match quorum {
        Quorum::All => count,
        Quorum::Any => 1,
        Quorum::AtLeast(k) => k.get() as usize,
    }
}
