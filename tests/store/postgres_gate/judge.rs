//! Judges requests that were in flight together: their answers must be those of the naive store to the
//! same requests one after the other, in some order that nobody could tell from the true one.

use std::collections::BTreeSet;

use retrial::store::{Answer, Request, StoreError};
use retrial::time::Timestamp;

use super::turns::Done;
use crate::store_model::naive::{Locked, Naive};
use crate::store_model::script::{Answered, Refused};

/// What was in flight together.
#[derive(Default)]
pub(super) struct Round {
    items: Vec<Item>,
}

struct Item {
    what: What,
    /// The first decision before which it can have happened, and the last.
    begun: usize,
    ended: usize,
}

enum What {
    Asked(Box<Asked>),
    Tick(u64),
}

struct Asked {
    request: Request,
    /// The latest time that it can have seen.
    latest: Timestamp,
    end: End,
    /// What the others may have locked.
    locked: Locked,
}

/// How a request ended.
#[derive(Clone, Debug)]
enum End {
    Answered(Answered),
    /// It did not happen.
    NotDone,
    /// It may have happened; what a repetition was answered, if it was repeated.
    Unknown(Option<Answered>),
}

/// An answer as models give it. `None` where it is unknown.
pub(super) fn answered(answer: &Result<Answer, StoreError>) -> Option<Answered> {
    match answer {
        Ok(answer) => Some(Ok(answer.clone())),
        Err(StoreError::Broken(_)) => Some(Err(Refused::Broken)),
        Err(StoreError::NotDone(_)) => Some(Err(Refused::NotDone)),
        Err(StoreError::Unknown(_)) => None,
    }
}

impl Round {
    /// The clock went on by `by` nanoseconds.
    pub(super) fn tick(&mut self, by: u64, decision: usize) {
        self.items.push(Item { what: What::Tick(by), begun: decision, ended: decision });
    }

    /// A request from the first decision on, and what its repetition was answered after the last.
    pub(super) fn ask(&mut self, done: &Done, again: Option<&Answered>, is_troubled: bool) {
        let end = match answered(&done.answer) {
            // Without trouble a refusal is the model's too.
            Some(Err(Refused::NotDone)) if is_troubled => End::NotDone,
            Some(answer) => End::Answered(answer),
            None => End::Unknown(again.cloned()),
        };
        let (request, locked) = (done.request.clone(), Locked::default());
        let what =
            What::Asked(Box::new(Asked { request, latest: Timestamp::default(), end, locked }));
        self.items.push(Item { what, begun: 0, ended: done.ended });
    }

    /// A request after all others.
    pub(super) fn ask_last(&mut self, request: Request, answer: Answered) {
        let (end, locked) = (End::Answered(answer), Locked::default());
        let what =
            What::Asked(Box::new(Asked { request, latest: Timestamp::default(), end, locked }));
        self.items.push(Item { what, begun: usize::MAX, ended: usize::MAX });
    }

    /// The states that `candidates` may have become; none where no order explains the answers.
    pub(super) fn explain(mut self, candidates: &[Naive]) -> Vec<Naive> {
        let since = candidates.first().map_or_else(Timestamp::default, |state| state.now);
        for place in 0..self.items.len() {
            let (locked, latest) = (self.locked_beside(place), self.latest(place, since));
            if let What::Asked(asked) = &mut self.items[place].what {
                (asked.locked, asked.latest) = (locked, latest);
            }
        }
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for candidate in candidates {
            let left = (0..self.items.len()).collect();
            self.walk(candidate.clone(), candidate.now, left, &mut |state| {
                if seen.insert(state.without_turns()) {
                    found.push(state);
                }
            });
        }
        found
    }

    /// The clock when the item ended.
    fn latest(&self, place: usize, since: Timestamp) -> Timestamp {
        let before = |item: &&Item| item.begun <= self.items[place].ended;
        let ticks = self.items.iter().filter(before).map(|item| match item.what {
            What::Tick(by) => by,
            What::Asked(_) => 0,
        });
        Timestamp::from_nanos(since.as_nanos() + ticks.sum::<u64>())
    }

    fn locked_beside(&self, place: usize) -> Locked {
        let mut locked = Locked::default();
        let is_last = self.items[place].begun == usize::MAX;
        for (other, item) in self.items.iter().enumerate() {
            if other == place || is_last || item.begun == usize::MAX {
                continue;
            }
            if let What::Asked(asked) = &item.what {
                let known = match &asked.end {
                    End::Answered(answer) => Some(answer),
                    End::NotDone | End::Unknown(_) => None,
                };
                locked.add(&asked.request, known);
            }
        }
        locked
    }

    /// Every order of what is left, as far as it agrees with the answers.
    fn walk(
        &self,
        state: Naive,
        since: Timestamp,
        left: Vec<usize>,
        found: &mut impl FnMut(Naive),
    ) {
        if left.is_empty() {
            return found(state);
        }
        for next in &left {
            let item = &self.items[*next];
            if left.iter().any(|other| self.items[*other].ended < item.begun) {
                continue;
            }
            for after in item.what.happens(&state, since) {
                let left = left.iter().copied().filter(|other| other != next).collect();
                self.walk(after, since, left, found);
            }
        }
    }
}

impl What {
    /// The states after it; none where it would have been answered otherwise.
    fn happens(&self, state: &Naive, since: Timestamp) -> Vec<Naive> {
        let mut after = state.clone();
        let asked = match self {
            Self::Tick(by) => {
                after.now = Timestamp::from_nanos(after.now.as_nanos() + by);
                return vec![after];
            }
            Self::Asked(asked) => asked,
        };
        let holds = match &asked.end {
            End::NotDone => true,
            End::Answered(answer) => asked.agrees(&mut after, answer, since),
            End::Unknown(again) => {
                let mut states = vec![state.clone()];
                if let Request::Prune(prune) = &asked.request {
                    states = state.may_prune(prune);
                } else if asked.is_done(&mut after, again.as_ref(), since) {
                    states.push(after);
                }
                return states;
            }
        };
        if holds { vec![after] } else { vec![] }
    }
}

impl Asked {
    /// Whether the naive store answers the same.
    fn agrees(&self, state: &mut Naive, answer: &Answered, since: Timestamp) -> bool {
        let Some(at) = time_of(answer) else { return self.agrees_then(state, answer) };
        if at < since || at > self.latest {
            return false;
        }
        let now = std::mem::replace(&mut state.now, at);
        let agrees = self.agrees_then(state, answer);
        state.now = now;
        agrees
    }

    fn agrees_then(&self, state: &mut Naive, answer: &Answered) -> bool {
        match (&self.request, answer) {
            (Request::Claim(claim), Ok(Answer::Claim(theirs))) => {
                state.claims(claim, theirs, &self.locked)
            }
            (Request::Claim(_), _) => false,
            (Request::Prune(prune), Ok(Answer::Prune(theirs))) => {
                state.prunes(prune, theirs, &self.locked)
            }
            // It passes over rows that others lock. Whoever acts on it asks anew.
            (Request::Expired { .. }, Ok(_)) if !self.locked.is_nothing() => true,
            (request, _) => state.ask(request, answer) == *answer,
        }
    }

    /// The request takes effect, though nobody heard the answer. A claim takes what its repetition was
    /// answered.
    fn is_done(&self, state: &mut Naive, again: Option<&Answered>, since: Timestamp) -> bool {
        match (&self.request, again) {
            (Request::Claim(_), Some(answer)) => self.agrees(state, answer, since),
            (Request::Claim(_), None) => false,
            (request, _) => state.ask(request, &Err(Refused::NotDone)).is_ok(),
        }
    }
}

/// When a request that waits for no lock read the clock: what it then sees may be of a later instant,
/// and what is committed later may be of an earlier one.
fn time_of(answer: &Answered) -> Option<Timestamp> {
    match answer.as_ref().ok()? {
        Answer::Claim(claimed) => Some(claimed.at),
        Answer::Expired(expired) => Some(expired.at),
        Answer::Load(loaded) => loaded.as_ref().map(|loaded| loaded.at),
        Answer::Heads(heads) => Some(heads.at),
        Answer::Letters(letters) => Some(letters.at),
        Answer::List(listed) => Some(listed.at),
        Answer::Tally(tally) => Some(tally.at),
        _ => None,
    }
}
