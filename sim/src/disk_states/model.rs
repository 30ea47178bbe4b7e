//! The required content of the store, by the documentation of its seam. Shares no code with any
//! store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use retrial::guard::GuardInput;
use retrial::run::{LetterId, RunId, TaskId, Token, Version};
use retrial::store::{
    Commit, Create, Fence, Holding, LetterHead, LetterRow, LetterStatus, Prune, QueueChange,
    QueueRow, QueueState, ResultRow, RunHead, Snapshot, StoredLetter, Tail,
};
use retrial::time::Timestamp;

/// Something that the store was asked and that changes what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `Store::create`, answered `New`.
    Create(Create),
    /// `Store::commit`, answered `Applied`.
    Commit(Commit),
    /// `Store::renew` of one lease, answered `Held`.
    Renew(Holding),
    /// `Store::trim`.
    Trim(RunId, Version),
    /// `Store::discard`, answered `Done`.
    Discard(LetterId, String),
    /// `Store::archive`, answered `Done`.
    Archive(RunId),
    /// `Store::prune`.
    Prune(Prune),
}

/// In words for a reader.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(create) => write!(f, "the creation of run {}", create.run),
            Self::Commit(commit) => {
                let (events, expect) = (commit.events.len(), commit.expect.0);
                write!(f, "the commit of {events} events after {expect} to run {}", commit.run)
            }
            Self::Renew(held) => write!(f, "the renewal of task {} of run {}", held.task, held.run),
            Self::Trim(run, below) => write!(f, "the trimming of run {run} below {}", below.0),
            Self::Discard(id, _) => write!(f, "the discarding of letter {id}"),
            Self::Archive(run) => write!(f, "the archiving of run {run}"),
            Self::Prune(_) => write!(f, "the pruning"),
        }
    }
}

/// A call that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredCall {
    /// The requests.
    pub call: Call,
    /// The store's time in the answer; zero where it has none.
    pub at: Timestamp,
}

/// The content of a store, as the seam shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Every run, by id.
    pub runs: Vec<ShownRun>,
    /// Every dead letter, by id.
    pub letters: Vec<StoredLetter>,
}

/// One run, as the seam shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownRun {
    /// Its head.
    pub head: RunHead,
    /// The answer when it is loaded.
    pub newest: (Option<Snapshot>, Tail),
    /// The answer when it is loaded from its first event.
    pub whole: (Option<Snapshot>, Tail),
    /// Its rows.
    pub rows: Vec<QueueRow>,
}

/// The required content of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    runs: BTreeMap<RunId, Page>,
    letters: BTreeMap<LetterId, StoredLetter>,
    /// By action, the attempts that its guards know to be in progress.
    running: BTreeMap<String, BTreeSet<(RunId, TaskId)>>,
}

#[derive(Clone, Debug)]
struct Page {
    head: RunHead,
    floor: Version,
    events: Vec<Bytes>,
    results: Vec<ResultRow>,
    snapshot: Option<Snapshot>,
    rows: BTreeMap<TaskId, QueueRow>,
}

impl Model {
    pub(super) fn take(&mut self, made: &AnsweredCall) {
        let at = made.at;
        match &made.call {
            Call::Create(create) => self.create(create, at),
            Call::Commit(commit) => self.commit(commit, at),
            Call::Renew(holding) => self.renew(holding, at),
            Call::Trim(run, below) => self.page(*run, |page| page.floor = *below),
            Call::Discard(id, reason) => {
                self.decide(*id, LetterStatus::Discarded { reason: reason.clone() });
            }
            Call::Archive(run) => {
                self.page(*run, |page| page.head.archived = page.head.archived.or(Some(at)));
            }
            Call::Prune(prune) => self.prune(prune, at),
        }
    }

    fn page(&mut self, run: RunId, change: impl FnOnce(&mut Page)) {
        if let Some(page) = self.runs.get_mut(&run) {
            change(page);
        }
    }

    fn create(&mut self, create: &Create, at: Timestamp) {
        let mut page = Page {
            head: RunHead {
                run: create.run,
                workflow: create.workflow.clone(),
                digest: create.digest,
                phase: create.phase,
                active: create.phase.is_active(),
                version: Version(create.events.len() as u64),
                created: at,
                ended: create.phase.is_terminal().then_some(at),
                archived: None,
                redrives: create.redrives,
                tasks: 0,
                letters: 0,
                key: create.key.clone(),
                code: None,
                fields: create.fields.clone(),
            },
            floor: Version::START,
            events: create.events.clone(),
            results: Vec::new(),
            snapshot: None,
            rows: BTreeMap::new(),
        };
        create.queue.iter().for_each(|change| page.change(change, at));
        self.runs.insert(create.run, page);
        if let Some(letter) = create.redrives {
            self.decide(letter, LetterStatus::Redriven { run: create.run });
        }
    }

    fn commit(&mut self, commit: &Commit, at: Timestamp) {
        let version = Version(commit.expect.0 + commit.events.len() as u64);
        self.page(commit.run, |page| {
            page.events.extend(commit.events.iter().cloned());
            page.results.extend(commit.results.iter().cloned());
            let state = commit.snapshot.clone();
            page.snapshot = state.map(|state| Snapshot { version, state }).or(page.snapshot.take());
            commit.queue.iter().for_each(|change| page.change(change, at));
            let head = &mut page.head;
            (head.version, head.phase, head.active) =
                (version, commit.phase, commit.phase.is_active());
            head.ended = head.ended.or(commit.phase.is_terminal().then_some(at));
            head.archived = head.archived.filter(|_| !head.active);
        });
        commit.letters.iter().for_each(|row| self.keep(commit.run, row, at));
        for guarding in &commit.guards {
            let running = self.running.entry(guarding.action.clone()).or_default();
            for input in &guarding.inputs {
                let holder = (input.attempt().run, input.attempt().task);
                match input {
                    GuardInput::Admit { .. } => drop(running.insert(holder)),
                    GuardInput::Ended { .. } => drop(running.remove(&holder)),
                    GuardInput::Withdraw { .. } => {}
                }
            }
        }
    }

    fn keep(&mut self, run: RunId, row: &LetterRow, at: Timestamp) {
        let id = LetterId { run, task: row.task };
        self.page(run, |page| {
            page.head.letters += 1;
            page.head.code = Some(row.code.clone());
        });
        let Some(page) = self.runs.get(&run) else { return };
        let head = LetterHead {
            id,
            workflow: page.head.workflow.clone(),
            action: row.action.clone(),
            code: row.code.clone(),
            message: row.message.clone(),
            at,
            redrives: page.head.redrives,
            status: LetterStatus::Waiting,
        };
        self.letters.insert(id, StoredLetter { head, body: row.body.clone() });
    }

    fn decide(&mut self, id: LetterId, status: LetterStatus) {
        self.letters.entry(id).and_modify(|letter| letter.head.status = status);
        self.page(id.run, |page| page.head.letters -= 1);
    }

    fn renew(&mut self, holding: &Holding, at: Timestamp) {
        self.page(holding.run, |page| {
            let row = page.rows.get_mut(&holding.task);
            if let Some(QueueState::Leased { until, .. }) = row.map(|row| &mut row.state) {
                *until = at.after(holding.lasts).max(*until);
            }
        });
    }

    fn prune(&mut self, prune: &Prune, at: Timestamp) {
        let goes = |page: &Page| {
            page.head.ended.is_some_and(|end| at.since(end) >= prune.older_than)
                && (page.head.archived.is_some() || !prune.archived_only)
                && (page.head.letters == 0 || prune.with_letters)
        };
        self.runs.retain(|_, page| !goes(page));
        let runs = &self.runs;
        self.letters.retain(|id, _| runs.contains_key(&id.run));
    }

    /// Whether an attempt of `action` is in progress.
    pub(super) fn is_busy(&self, action: &str) -> bool {
        self.running.get(action).is_some_and(|running| !running.is_empty())
    }

    /// Whether the token is a lease's. A reservation is no part of what is held.
    pub(super) fn leases(&self, run: RunId, fence: &Fence) -> bool {
        let (Fence::Held { task, token } | Fence::Lapsed { task, token }) = fence;
        let row = self.runs.get(&run).and_then(|page| page.rows.get(task));
        row.is_some_and(|row| token_of(row) == Some(*token))
    }

    /// The content that the seam must show.
    pub(super) fn shown(&self) -> Shown {
        let runs = self.runs.values().map(Page::shown).collect();
        Shown { runs, letters: self.letters.values().cloned().collect() }
    }
}

/// The token of a row's lease.
pub(super) fn token_of(row: &QueueRow) -> Option<Token> {
    match row.state {
        QueueState::Due { .. } => None,
        QueueState::Leased { token, .. } => Some(token),
    }
}

impl Page {
    fn change(&mut self, change: &QueueChange, now: Timestamp) {
        let row = match change {
            QueueChange::Due { task, attempt, after, need, progress } => {
                let state = QueueState::Due { at: now.after(*after), need: need.clone() };
                QueueRow { task: *task, attempt: *attempt, state, progress: progress.clone() }
            }
            QueueChange::Lease { task, attempt, token, lasts, timeout, heartbeat } => {
                let [deadline, beat_by] = [timeout, heartbeat].map(|t| t.map(|t| now.after(t)));
                let ends = [deadline, beat_by].into_iter().flatten();
                let until = ends.fold(now.after(*lasts), Timestamp::min);
                let state = QueueState::Leased { token: *token, until, deadline, beat_by };
                QueueRow { task: *task, attempt: *attempt, state, progress: None }
            }
            QueueChange::Remove { task } => {
                self.rows.remove(task);
                return;
            }
        };
        self.rows.insert(row.task, row);
    }

    fn shown(&self) -> ShownRun {
        let after = |version: Version| Tail {
            events: self.events.iter().skip(version.0 as usize).cloned().collect(),
            results: self.results.clone(),
        };
        let from = self.snapshot.as_ref().map_or(self.floor, |snapshot| snapshot.version);
        let newest = (self.snapshot.clone(), after(from));
        // The snapshot contains the trimmed events.
        let whole = match self.floor {
            Version::START => (None, after(Version::START)),
            _ => newest.clone(),
        };
        let rows = self.rows.values().cloned().collect();
        let head = RunHead { tasks: self.rows.len() as u64, ..self.head.clone() };
        ShownRun { head, newest, whole, rows }
    }
}
