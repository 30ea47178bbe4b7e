//! Collects what is wrong with a text.

use super::tree::{Data, Entry, Fields, Node};
use super::{Diagnostic, Diagnostics, Place};

/// The most diagnostics about one text.
const MOST: usize = 100;

/// How many mistakes of a table are passed over because they may come of others.
const DOUBTFUL: usize = 20;

/// What is wrong with a text, as it is being read. Once it is full, no more is read: each diagnostic
/// takes time and memory.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    found: Vec<Diagnostic>,
    /// Whether a key that seems to be missing may only be misspelt.
    misspelt: bool,
}

impl Errors {
    /// Whether there are so many that no more are looked for.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= MOST
    }

    pub(crate) fn push(&mut self, error: Diagnostic) {
        if !self.is_full() {
            self.found.push(error);
        }
    }

    /// Keeps the value, or collects what is wrong.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(missing) if missing.is_of_missing() && self.misspelt => {}
            Err(error) => self.push(error),
        }
        None
    }

    /// The fields of a table; collects each key that is not in `known`.
    pub(crate) fn fields<'n>(
        &mut self,
        node: &'n Node,
        known: &[&str],
    ) -> Result<Fields<'n>, Diagnostic> {
        for unknown in node.unknown_keys(known).take(MOST) {
            self.misspelt = true;
            self.push(unknown);
        }
        node.any_fields()
    }

    /// What `read` makes of `node`, or all that is wrong with it.
    pub(crate) fn of<T>(
        node: &Node,
        read: impl Fn(&Node) -> Result<T, Diagnostic>,
    ) -> Result<T, Diagnostics> {
        read(node).map_err(|first| {
            let mut errors = Self::default();
            errors.rest(node, first, |rest| read(rest).map(drop));
            errors.sorted()
        })
    }

    /// What `read` makes of `node`; collects all that is wrong with it.
    pub(crate) fn read<T>(
        &mut self,
        node: &Node,
        read: impl Fn(&Node) -> Result<T, Diagnostic>,
    ) -> Option<T> {
        read(node).map_err(|first| self.rest(node, first, |rest| read(rest).map(drop))).ok()
    }

    /// Collects the `first` mistake of `node` and those that `read` finds after it. A reader ends at
    /// the first mistake. So the entry at fault is corrected or taken out, and the rest is read again.
    /// What is found then counts only if it stands alone, since the entry may be missed.
    pub(crate) fn rest(
        &mut self,
        node: &Node,
        first: Diagnostic,
        read: impl Fn(&Node) -> Result<(), Diagnostic>,
    ) {
        let mut rest = node.clone();
        let mut mended = mend(&mut rest, &first);
        self.push(first);
        let mut doubtful = 0;
        while mended && doubtful < DOUBTFUL && !self.is_full() {
            let Err(next) = read(&rest) else { return };
            mended = mend(&mut rest, &next);
            if next.stands_alone() {
                self.push(next);
            } else {
                doubtful += 1;
            }
        }
    }

    /// `value` if nothing is wrong, else all that is, in text order.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.found.is_empty() { Ok(value) } else { Err(self.sorted()) }
    }

    fn sorted(mut self) -> Diagnostics {
        self.found.sort_by_key(|e| e.span().start);
        if let Some(last) = self.found.last().filter(|_| self.is_full()) {
            let message = format!("there may be more errors: reading ended after {MOST}");
            let more = Place::whole(last.source()).error(message);
            self.found.push(more.help_with("correct these first"));
        }
        self.found.into()
    }
}

/// Takes the entry or the item that `fault` is about out of `node`, or gives the entry the key that is
/// meant. `false` if the fault is not in one of them.
fn mend(node: &mut Node, fault: &Diagnostic) -> bool {
    let span = fault.span();
    let holds = |place: &Place| {
        let own = place.span();
        own.start <= span.start && span.end <= own.end
    };
    match &mut node.data {
        Data::Table(entries) => {
            let at_fault = |e: &Entry| e.place.span() == span || holds(&e.node.place);
            let Some(at) = entries.iter().position(at_fault) else {
                // The place of a table may be its head alone.
                return entries.iter_mut().any(|e| mend(&mut e.node, fault));
            };
            let free = |key: &&str| !entries.iter().any(|e| e.key == **key);
            let is_key = entries[at].place.span() == span;
            match fault.meant_key().filter(|_| is_key).filter(free) {
                Some(meant) => entries[at].key = meant.to_owned(),
                None if !is_key && mend(&mut entries[at].node, fault) => {}
                None => *entries = without(entries, at),
            }
            true
        }
        Data::List(items) => {
            let Some(at) = items.iter().position(|item| holds(&item.place)) else {
                return items.iter_mut().any(|item| mend(item, fault));
            };
            if !mend(&mut items[at], fault) {
                *items = without(items, at);
            }
            true
        }
        _ => false,
    }
}

fn without<T>(all: &mut Box<[T]>, at: usize) -> Box<[T]> {
    let mut left = std::mem::take(all).into_vec();
    left.remove(at);
    left.into()
}
