//! A store that records what the oracles need, in front of the real one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use retrial::run::{self, Recorded, RunId, TaskId, Token, Version};
use retrial::store::{
    Answer, Commit, CommitId, Committed, Created, Hold, Request, Snapshot, Store, StoreError,
};
use retrial::time::{Mono, Timestamp};
use tokio::sync::Notify;

use super::changes::Changes;
use super::seen_leases::SeenLeases;
use super::underway::Weight;
use crate::clock::true_now;
use crate::evidence::{CommitRecord, LeaseEvidence, StoreAnswer, VainReservation};
use crate::incarnation::Incarnation;
use crate::sync::lock;

/// The record of all stores of a world. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    snapshots: Vec<(RunId, Snapshot)>,
    fenced: u64,
    /// The claims and starts of each process that wait for their answers.
    unanswered: BTreeMap<(String, u32), u32>,
    leases: SeenLeases,
    answers: Vec<RecordedAnswer>,
    /// How many of `answers` there were when the store was last unsure.
    unsure: usize,
    /// The commits that were sent and not answered before the store was unsure, in that order, each
    /// with how many answers there were.
    in_doubt: BTreeMap<u64, (usize, Encoded)>,
    /// How many commits were sent.
    commits: u64,
    /// When each commit first asked the store to write an event of this number. One that is refused
    /// does not count.
    asked: BTreeMap<(RunId, Version), BTreeMap<CommitId, Mono>>,
    /// Every write that was sent, landed or not; recorded only after [`Seen::keep_sent`].
    sent: Option<Vec<Encoded>>,
    /// The commits in `answers`, by whether they landed.
    recorded: BTreeSet<((RunId, CommitId), bool)>,
}

/// A claim or a start that waits for its answer.
pub(super) struct Waiting {
    seen: Seen,
    by: (String, u32),
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(waiting) = lock(&self.seen.0).unanswered.get_mut(&self.by) {
            *waiting -= 1;
        }
    }
}

/// An answer of the store. Its events are decoded when an oracle asks.
#[derive(Debug)]
enum RecordedAnswer {
    Unsure,
    Landed(Encoded),
    Held(Encoded, Vec<Hold>),
}

#[derive(Debug)]
struct Encoded {
    at: Timestamp,
    writer: u64,
    run: RunId,
    first: Version,
    events: Vec<Bytes>,
}

impl Encoded {
    /// `None` if an event can't be decoded: the run's own bytes show that too.
    fn read(&self) -> Option<CommitRecord> {
        let Self { at, writer, run, first, .. } = *self;
        let events: Result<Vec<Recorded>, _> = self.events.iter().map(|b| run::decode(b)).collect();
        Some(CommitRecord { at, writer, run, first, events: events.ok()? })
    }
}

impl Seen {
    /// Records every write that is sent from now on.
    pub(super) fn keep_sent(&self) {
        lock(&self.0).sent = Some(Vec::new());
    }

    pub(super) fn sent(&self) -> Vec<CommitRecord> {
        lock(&self.0).sent.iter().flatten().filter_map(Encoded::read).collect()
    }

    fn record_sent(&self, writer: u64, run: RunId, first: Version, events: &[Bytes]) {
        if let Some(sent) = &mut lock(&self.0).sent {
            let (at, events) = (Timestamp::default(), events.to_vec());
            sent.push(Encoded { at, writer, run, first, events });
        }
    }

    pub(super) fn snapshots_of(&self, run: RunId) -> Vec<Snapshot> {
        let inner = lock(&self.0);
        inner.snapshots.iter().filter(|(of, _)| *of == run).map(|(_, s)| s.clone()).collect()
    }

    pub(super) fn fenced(&self) -> u64 {
        lock(&self.0).fenced
    }

    /// A node sends a claim or the start of an attempt, and waits for the answer until this is dropped.
    pub(super) fn begin_wait(&self, by: &Incarnation) -> Waiting {
        let by = (by.node().to_owned(), by.number());
        *lock(&self.0).unanswered.entry(by.clone()).or_default() += 1;
        Waiting { seen: self.clone(), by }
    }

    pub(super) fn unanswered(&self, node: &str, incarnation: u32) -> u32 {
        let inner = lock(&self.0);
        inner.unanswered.get(&(node.to_owned(), incarnation)).copied().unwrap_or_default()
    }

    /// A node is about to ask for the lease of an attempt that it starts.
    pub(super) fn starts(&self, run: RunId, token: Token, by: &Incarnation) {
        lock(&self.0).leases.starts(run, token, by);
    }

    /// A lease ended with a commit of the node that held it, which had renewed it or left it out.
    pub(super) fn outlived(&self, (run, task): (RunId, TaskId), at: Timestamp, was_renewed: bool) {
        lock(&self.0).leases.outlived((run, task), at, was_renewed);
    }

    /// A node had the answer to a claim. Whether it has asked for the ones before it until they had theirs.
    pub(super) fn claim_answered(&self, at: Timestamp, has_asked_on: bool) {
        lock(&self.0).leases.claim_answered(at, has_asked_on);
    }

    pub(super) fn reserved_in_vain(&self, reservation: VainReservation) {
        lock(&self.0).leases.reserved_in_vain(reservation);
    }

    pub(super) fn leases(&self) -> LeaseEvidence {
        lock(&self.0).leases.evidence()
    }

    pub(super) fn answers(&self) -> Vec<StoreAnswer> {
        let read = |answer: &RecordedAnswer| match answer {
            RecordedAnswer::Unsure => Some(StoreAnswer::Unsure),
            RecordedAnswer::Landed(ask) => ask.read().map(StoreAnswer::Landed),
            RecordedAnswer::Held(ask, holds) => Some(StoreAnswer::Held(ask.read()?, holds.clone())),
        };
        let inner = lock(&self.0);
        let mut in_doubt = inner.in_doubt.values().peekable();
        let mut found = Vec::new();
        for before in 0..=inner.answers.len() {
            while let Some((_, ask)) = in_doubt.next_if(|(at, _)| *at == before) {
                found.extend(ask.read().map(StoreAnswer::Asked));
            }
            found.extend(inner.answers.get(before).and_then(read));
        }
        found
    }

    pub(super) fn asked(&self) -> BTreeMap<(RunId, Version), Mono> {
        let inner = lock(&self.0);
        let first = |by: &BTreeMap<CommitId, Mono>| by.values().min().copied();
        inner.asked.iter().filter_map(|(event, by)| Some((*event, first(by)?))).collect()
    }

    /// The number of the call.
    fn ask(&self, commit: &Commit) -> u64 {
        let (id, run, first) = (commit.id, commit.run, commit.expect);
        self.record_sent(id.writer, run, first, &commit.events);
        for birth in &commit.creates {
            lock(&self.0).leases.sends(birth.run);
            self.record_sent(id.writer, birth.run, Version::START, &birth.events);
        }
        let (at, writer, events) = (Timestamp::default(), id.writer, commit.events.clone());
        let mut inner = lock(&self.0);
        for n in 0..events.len() {
            let by = inner.asked.entry((run, first.after(n))).or_default();
            by.entry(id).or_insert_with(true_now);
        }
        let before = inner.answers.len();
        inner.commits += 1;
        let call = inner.commits;
        inner.in_doubt.insert(call, (before, Encoded { at, writer, run, first, events }));
        call
    }
}

impl Inner {
    /// Records the answer to a commit. A repeated answer to the same commit is recorded once.
    fn record(
        &mut self,
        key: (RunId, CommitId),
        ask: impl FnOnce(Timestamp) -> Encoded,
        answer: &Result<Committed, StoreError>,
    ) {
        match answer {
            Ok(Committed::Applied { at, .. }) => {
                if self.recorded.insert((key, true)) {
                    self.answers.push(RecordedAnswer::Landed(ask(*at)));
                }
            }
            Ok(Committed::Held { at, holds }) => {
                if self.recorded.insert((key, false)) {
                    self.answers.push(RecordedAnswer::Held(ask(*at), holds.clone()));
                }
            }
            Ok(Committed::Fenced { .. }) => self.fenced += 1,
            Ok(_) => {}
            Err(_) => self.unsure(),
        }
    }

    /// The call has its answer.
    fn answered(&mut self, call: u64) {
        if self.in_doubt.get(&call).is_some_and(|(before, _)| *before >= self.unsure) {
            self.in_doubt.remove(&call);
        }
    }

    fn unsure(&mut self) {
        self.answers.push(RecordedAnswer::Unsure);
        self.unsure = self.answers.len();
        self.leases.forget();
    }
}

/// The store.
#[derive(Debug)]
pub(super) struct RecordingStore<S> {
    store: S,
    seen: Seen,
    incarnation: Incarnation,
    lost: Lost,
}

impl<S> RecordingStore<S> {
    pub(super) fn new(store: S, seen: Seen, lost: Lost, incarnation: Incarnation) -> Self {
        let mut inner = lock(&seen.0);
        inner.unsure();
        inner.leases.restart();
        drop(inner);
        Self { store, seen, incarnation, lost }
    }
}

impl<S: Store> RecordingStore<S> {
    async fn commit_and_record(&self, commit: Commit) -> Result<Committed, StoreError> {
        let (id, run, state) = (commit.id, commit.run, commit.snapshot.clone());
        let (first, events) = (commit.expect, commit.events.clone());
        let changes = Changes::of(&commit);
        let call = self.seen.ask(&commit);
        let request = lock(&self.seen.0).leases.begin(Some(run));
        let answer = self.store.commit(commit).await;
        if self.incarnation.is_over() {
            return answer;
        }
        let mut seen = lock(&self.seen.0);
        let weight = seen.leases.end(&request);
        let ask = |at| Encoded { at, writer: id.writer, run, first, events };
        seen.record((run, id), ask, &answer);
        if let Ok(answer) = &answer {
            seen.leases.committed(&changes, answer, weight);
            if !matches!(answer, Committed::Applied { .. } | Committed::Already { .. }) {
                seen.asked.values_mut().for_each(|by| _ = by.remove(&id));
            }
        }
        seen.answered(call);
        if let (
            Ok(Committed::Applied { version, .. } | Committed::Already { version, .. }),
            Some(state),
        ) = (&answer, state)
        {
            seen.snapshots.push((run, Snapshot { version: *version, state }));
        }
        answer
    }

    /// Asks, and holds what is said of leases and reservations against what was said before.
    async fn ask_and_compare(&self, request: Request) -> Result<Answer, StoreError> {
        let underway = lock(&self.seen.0).leases.begin(None);
        let about = match &request {
            Request::Create(_)
            | Request::Renew(_)
            | Request::Claim(_)
            | Request::Expired { .. } => Some(request.clone()),
            _ => None,
        };
        let answer = self.store.ask(request).await;
        if self.incarnation.is_over() {
            return answer;
        }
        let leases = &mut lock(&self.seen.0).leases;
        let weight = leases.end(&underway);
        match (&about, &answer) {
            (_, Err(_)) => leases.forget(),
            (Some(Request::Create(create)), Ok(Answer::Create(Created::New { at }))) => {
                leases.created(create.run, &create.queue, *at, weight == Weight::Alone);
            }
            (Some(Request::Renew(held)), Ok(Answer::Renew(renewed))) => {
                leases.renewed(held, renewed, weight);
            }
            (Some(Request::Claim(claim)), Ok(Answer::Claim(claimed))) => {
                leases.claimed(claim, claimed, weight);
            }
            (Some(Request::Expired { limit }), Ok(Answer::Expired(expired))) => {
                leases.expired(*limit, expired, weight);
            }
            _ => {}
        }
        answer
    }
}

/// That the store can't be opened any more. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost(Arc<(AtomicBool, Notify)>);

impl Lost {
    pub(super) fn say(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.0.1.notify_waiters();
    }

    pub(super) fn is_said(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }

    /// Ends when it is said.
    pub(super) async fn said(&self) {
        // Registered before the check, so that a notice between the two is not missed.
        let said = self.0.1.notified();
        if !self.is_said() {
            said.await;
        }
    }
}

impl<S: Store> Store for RecordingStore<S> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        match request {
            Request::Clock => {
                let answer = self.ask_and_compare(Request::Clock).await;
                // No run's damage keeps a store from answering its time.
                if matches!(answer, Err(StoreError::Broken(_))) {
                    self.lost.say();
                }
                answer
            }
            Request::Create(create) => {
                lock(&self.seen.0).leases.sends(create.run);
                self.seen.record_sent(create.id.writer, create.run, Version::START, &create.events);
                self.ask_and_compare(Request::Create(create)).await
            }
            Request::Commit(commit) => self.commit_and_record(commit).await.map(Answer::Commit),
            other => self.ask_and_compare(other).await,
        }
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}
