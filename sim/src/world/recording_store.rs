//! The store, with a witness beside it that writes down what the oracles need.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use retrial::run::{self, Recorded, RunId, Version};
use retrial::store::{
    Commit, CommitId, Committed, Create, Created, Hold, Layer, Snapshot, Store, StoreError,
};
use retrial::time::Timestamp;

use super::program::{Lost, Notes};
use crate::evidence::{Ask, StoreAnswer};
use crate::incarnation::Incarnation;
use crate::sync::lock;

/// What was seen of all stores of a world. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    snapshots: Vec<(RunId, Snapshot)>,
    fenced: u64,
    answers: Vec<Answer>,
    /// What was to be kept, whatever became of it; only where somebody asks for it.
    sent: Option<Vec<Encoded>>,
    /// The commits of `answers`, by whether they landed.
    known: BTreeSet<(RunId, CommitId, bool)>,
}

/// An answer as it was given: its events are read when somebody asks.
#[derive(Debug)]
enum Answer {
    Unsure,
    Landed(Encoded),
    Held(Encoded, Vec<Hold>),
}

#[derive(Debug)]
struct Encoded {
    at: Timestamp,
    run: RunId,
    first: Version,
    events: Vec<Bytes>,
}

impl Encoded {
    /// Nothing where an event can't be read: the run's own bytes say so too.
    fn read(&self) -> Option<Ask> {
        let Self { at, run, first, .. } = *self;
        let events: Result<Vec<Recorded>, _> = self.events.iter().map(|b| run::decode(b)).collect();
        Some(Ask { at, run, first, events: events.ok()? })
    }
}

impl Seen {
    /// Keeps all that is sent from now on.
    pub(super) fn keep_sent(&self) {
        lock(&self.0).sent = Some(Vec::new());
    }

    pub(super) fn sent(&self) -> Vec<Ask> {
        lock(&self.0).sent.iter().flatten().filter_map(Encoded::read).collect()
    }

    fn send(&self, run: RunId, first: Version, events: &[Bytes]) {
        if let Some(sent) = &mut lock(&self.0).sent {
            let (at, events) = (Timestamp::default(), events.to_vec());
            sent.push(Encoded { at, run, first, events });
        }
    }

    pub(super) fn snapshots_of(&self, run: RunId) -> Vec<Snapshot> {
        let inner = lock(&self.0);
        inner.snapshots.iter().filter(|(of, _)| *of == run).map(|(_, s)| s.clone()).collect()
    }

    pub(super) fn fenced(&self) -> u64 {
        lock(&self.0).fenced
    }

    pub(super) fn answers(&self) -> Vec<StoreAnswer> {
        let read = |answer: &Answer| match answer {
            Answer::Unsure => Some(StoreAnswer::Unsure),
            Answer::Landed(ask) => ask.read().map(StoreAnswer::Landed),
            Answer::Held(ask, holds) => Some(StoreAnswer::Held(ask.read()?, holds.clone())),
        };
        lock(&self.0).answers.iter().filter_map(read).collect()
    }
}

impl Inner {
    /// Notes an answer. One that says again what was said before, or that it was said, is none.
    fn note(
        &mut self,
        id: CommitId,
        ask: impl FnOnce(Timestamp) -> Encoded,
        answer: &Result<Committed, StoreError>,
    ) {
        match answer {
            Ok(Committed::Applied { at, .. }) => {
                let ask = ask(*at);
                if self.known.insert((ask.run, id, true)) {
                    self.answers.push(Answer::Landed(ask));
                }
            }
            Ok(Committed::Held { at, holds }) => {
                let ask = ask(*at);
                if self.known.insert((ask.run, id, false)) {
                    self.answers.push(Answer::Held(ask, holds.clone()));
                }
            }
            Ok(Committed::Fenced { .. }) => self.fenced += 1,
            Ok(_) => {}
            Err(_) => self.answers.push(Answer::Unsure),
        }
    }
}

/// A store that is watched.
#[derive(Debug)]
pub(super) struct RecordingStore<S> {
    store: S,
    seen: Seen,
    incarnation: Incarnation,
    lost: Lost,
}

impl<S> RecordingStore<S> {
    pub(super) fn new(store: S, notes: &Notes, incarnation: Incarnation) -> Self {
        let (seen, lost) = (notes.seen.clone(), notes.lost.clone());
        lock(&seen.0).answers.push(Answer::Unsure);
        Self { store, seen, incarnation, lost }
    }
}

impl<S: Store> Layer for RecordingStore<S> {
    type Under = S;

    fn under(&self) -> &S {
        &self.store
    }

    async fn clock(&self) -> Result<Timestamp, StoreError> {
        let answer = self.store.clock().await;
        // No run's damage keeps a store from saying its time.
        if matches!(answer, Err(StoreError::Broken(_))) {
            self.lost.say();
        }
        answer
    }

    async fn create(&self, create: Create) -> Result<Created, StoreError> {
        self.seen.send(create.run, Version::START, &create.events);
        self.store.create(create).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let (id, run, state) = (commit.id, commit.run, commit.snapshot.clone());
        let (first, events) = (commit.expect, commit.events.clone());
        self.seen.send(run, first, &events);
        for birth in &commit.creates {
            self.seen.send(birth.run, Version::START, &birth.events);
        }
        let answer = self.store.commit(commit).await;
        if self.incarnation.is_over() {
            return answer;
        }
        let mut seen = lock(&self.seen.0);
        seen.note(id, |at| Encoded { at, run, first, events }, &answer);
        if let (
            Ok(Committed::Applied { version, .. } | Committed::Already { version, .. }),
            Some(state),
        ) = (&answer, state)
        {
            seen.snapshots.push((run, Snapshot { version: *version, state }));
        }
        answer
    }
}
