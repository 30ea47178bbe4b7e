//! The seam's words as plain lists, searched from end to end.

mod beside;
mod keeping;
mod listing;

use std::collections::BTreeMap;

use bytes::Bytes;
use retrial::guard::GuardState;
use retrial::run::{Digest, Lapse, LetterId, RunId, TaskId, Token, Version};
use retrial::store::{
    Answer, Claim, Claimed, ClaimedTask, Commit, CommitId, Committed, Create, Created, Expired,
    ExpiredTask, Fence, Hold, Holder, Holding, LeasedTask, LetterHead, LetterStatus, Loaded,
    QueueChange, QueueRow, QueueState, Raised, Renewal, Renewed, Request, ResultRow, RunPhase,
    Snapshot, StoredDefinition, StoredLetter, StoredReport, Tail,
};
use retrial::time::Timestamp;
use retrial::workflow::Need;

pub(crate) use beside::Locked;

use super::script::{Answered, Refused};

#[derive(Clone, Debug)]
pub(crate) struct Naive {
    pub(crate) now: Timestamp,
    runs: BTreeMap<RunId, Run>,
    keys: BTreeMap<String, RunId>,
    letters: BTreeMap<LetterId, StoredLetter>,
    definitions: Vec<StoredDefinition>,
    reports: BTreeMap<String, StoredReport>,
    pub(super) rows: Vec<Row>,
    claims: Vec<(Claim, Claimed)>,
    pub(super) waited: u64,
    /// Whose turn it was.
    last: Option<RunId>,
    pub(super) guards: BTreeMap<String, GuardState<Holder>>,
    /// Why the last commit of a writer to a run did not land.
    pub(super) told: BTreeMap<(RunId, u64), Told>,
}

/// Why a commit did not land, and until when that is known.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) id: CommitId,
    pub(super) why: Why,
    pub(super) until: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) enum Why {
    Held(Vec<Hold>),
    Untold(Vec<Raised>),
}

impl Why {
    fn answer(self, at: Timestamp) -> Committed {
        match self {
            Self::Held(holds) => Committed::Held { holds, at },
            Self::Untold(raised) => Committed::Untold { raised, at },
        }
    }
}

#[derive(Clone, Debug)]
struct Run {
    digest: Digest,
    creation: Vec<Bytes>,
    workflow: String,
    phase: RunPhase,
    created: Timestamp,
    ended: Option<Timestamp>,
    archived: Option<Timestamp>,
    redrives: Option<LetterId>,
    code: Option<String>,
    fields: BTreeMap<String, String>,
    events: Vec<Bytes>,
    floor: usize,
    results: Vec<(usize, ResultRow)>,
    snapshot: Option<(usize, Bytes)>,
    decided: Vec<(CommitId, Result<Version, TaskId>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) run: RunId,
    pub(super) shown: QueueRow,
    /// Since when it waits where it waits now, to tell rows apart that are due at once.
    pub(super) order: u64,
    pub(super) reserved: Option<(Token, Timestamp)>,
    /// The action whose guard holds it back; none once it was let through.
    pub(super) held: Option<String>,
    /// When it asks again.
    pub(super) asks: Option<Timestamp>,
}

impl Row {
    fn due(&self) -> Option<Timestamp> {
        match self.shown.state {
            QueueState::Due { at, .. } => {
                Some(self.reserved.map(|(_, until)| until).or(self.asks).unwrap_or(at))
            }
            QueueState::Leased { .. } => None,
        }
    }

    fn need(&self) -> Option<&Need> {
        match &self.shown.state {
            QueueState::Due { need, .. } => Some(need),
            QueueState::Leased { .. } => None,
        }
    }

    pub(super) fn end(&self) -> Option<Timestamp> {
        match self.shown.state {
            QueueState::Due { .. } => None,
            QueueState::Leased { until, deadline, beat_by, .. } => {
                [Some(until), deadline, beat_by].into_iter().flatten().min()
            }
        }
    }
}

impl Naive {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            now,
            runs: BTreeMap::new(),
            keys: BTreeMap::new(),
            letters: BTreeMap::new(),
            definitions: Vec::new(),
            reports: BTreeMap::new(),
            rows: Vec::new(),
            claims: Vec::new(),
            waited: 0,
            last: None,
            guards: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// The answer. Tokens can't be foretold, so a claim's are taken from the store's own.
    pub(crate) fn ask(&mut self, request: &Request, theirs: &Answered) -> Answered {
        Ok(match request {
            Request::Create(create) => Answer::Create(self.create(create)),
            Request::Claim(claim) => Answer::Claim(self.claim(claim, theirs)),
            Request::Commit(commit) => Answer::Commit(self.commit(commit)?),
            Request::Renew(held) => {
                let answers = held.iter().map(|holding| self.renew(holding)).collect();
                Answer::Renew(Renewed { at: self.now, answers })
            }
            Request::Expired { limit } => Answer::Expired(self.expired(*limit)),
            Request::Leases { after, limit } => Answer::Leases(self.leases(*after, *limit)),
            Request::Load { run, after } => Answer::Load(self.load(*run, *after)),
            Request::Heads { after, limit } => Answer::Heads(self.heads(*after, *limit)),
            Request::Stranded { after, limit } => Answer::Stranded(self.stranded(*after, *limit)),
            Request::Queue(run) => Answer::Queue(self.queue(*run)),
            Request::Trim { run, below } => {
                self.trim(*run, below.0 as usize)?;
                Answer::Trim
            }
            Request::Letters(ask) => Answer::Letters(self.letters(ask)),
            Request::Letter(id) => Answer::Letter(self.letters.get(id).cloned()),
            Request::Discard { id, reason } => Answer::Discard(self.discard(*id, reason)),
            Request::Archive(run) => Answer::Archive(self.archive(*run)),
            Request::Prune(prune) => Answer::Prune(self.prune(prune)),
            Request::List(ask) => Answer::List(self.list(ask)),
            Request::Tally => Answer::Tally(self.tally()),
            Request::Report(report) => {
                let stored = StoredReport { report: report.clone(), at: self.now };
                self.reports.insert(report.node.clone(), stored);
                Answer::Report
            }
            Request::Reports => Answer::Reports(self.reports.values().cloned().collect()),
            Request::Define(definition) => Answer::Define(self.define(definition)),
            Request::Definition(name) => Answer::Definition(self.definition(name)),
            Request::Definitions { after, limit } => {
                Answer::Definitions(self.definitions(after.as_deref(), *limit))
            }
            Request::Clock | Request::Guards => panic!("no script asks {request:?}"),
        })
    }

    fn create(&mut self, create: &Create) -> Created {
        let at = self.now;
        if let Some(run) = self.runs.get(&create.run) {
            let first = create.run;
            return match (run.digest == create.digest, run.creation == create.events) {
                (true, true) => Created::New { at },
                (true, false) => Created::Existing { run: first, at },
                (false, _) => Created::KeyConflict { run: first },
            };
        }
        if let Some(&run) = create.key.as_ref().and_then(|key| self.keys.get(key)) {
            return match self.runs[&run].digest == create.digest {
                true => Created::Existing { run, at },
                false => Created::KeyConflict { run },
            };
        }
        if let Some(id) = create.redrives {
            let Some(letter) = self.letters.get_mut(&id) else { return Created::UnknownLetter };
            match &letter.head.status {
                LetterStatus::Redriven { run } => return Created::AlreadyRedriven { run: *run },
                LetterStatus::Discarded { .. } => return Created::LetterDiscarded,
                LetterStatus::Waiting => {
                    letter.head.status = LetterStatus::Redriven { run: create.run };
                }
            }
        }
        self.keys.extend(create.key.clone().map(|key| (key, create.run)));
        let run = Run {
            digest: create.digest,
            creation: create.events.clone(),
            workflow: create.workflow.clone(),
            phase: create.phase,
            created: at,
            ended: create.phase.is_terminal().then_some(at),
            archived: None,
            redrives: create.redrives,
            code: None,
            fields: create.fields.clone(),
            events: create.events.clone(),
            floor: 0,
            results: vec![],
            snapshot: None,
            decided: vec![],
        };
        self.runs.insert(create.run, run);
        create.queue.iter().for_each(|change| self.change(create.run, change));
        Created::New { at }
    }

    fn change(&mut self, run: RunId, change: &QueueChange) {
        let now = self.now;
        let task = change.task();
        let before = self.rows.iter().find(|row| (row.run, row.shown.task) == (run, task));
        let before = before.and_then(|row| row.shown.progress.clone());
        let row = match change.clone() {
            QueueChange::Due { attempt, after, need, progress, .. } => {
                let progress = [before, progress].into_iter().flatten().max_by_key(|p| p.number);
                Some((attempt, QueueState::Due { at: now.after(after), need }, progress))
            }
            QueueChange::Lease { attempt, token, lasts, timeout, heartbeat, .. } => {
                let deadline = timeout.map(|t| now.after(t));
                let beat_by = heartbeat.map(|t| now.after(t));
                let ends = [Some(now.after(lasts)), deadline, beat_by];
                let until = ends.into_iter().flatten().min().unwrap();
                Some((attempt, QueueState::Leased { token, until, deadline, beat_by }, before))
            }
            QueueChange::Remove { .. } => None,
        };
        self.rows.retain(|row| (row.run, row.shown.task) != (run, task));
        if let Some((attempt, state, progress)) = row {
            self.waited += 1;
            let shown = QueueRow { task, attempt, state, progress };
            let order = self.waited;
            self.rows.push(Row { run, shown, order, reserved: None, held: None, asks: None });
        }
    }

    pub(super) fn is_running(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|r| awake(r.phase))
    }

    fn claim(&mut self, claim: &Claim, theirs: &Answered) -> Claimed {
        let last = self.claims.iter().filter(|(c, _)| c.id.writer == claim.id.writer);
        let last = last.max_by_key(|(c, _)| c.id.counter);
        match last {
            Some((c, answer)) if c.id == claim.id => return answer.clone(),
            Some((c, _)) if c.id.counter > claim.id.counter => {
                return self.claimed(claim, vec![]);
            }
            _ => {}
        }
        let tasks = self.reserve(claim, theirs);
        let answer = self.claimed(claim, tasks);
        self.remember_claim(claim, &answer);
        answer
    }

    fn reserve(&mut self, claim: &Claim, theirs: &Answered) -> Vec<ClaimedTask> {
        let Ok(Answer::Claim(theirs)) = theirs else { panic!("a claim is answered by {theirs:?}") };
        let mut tasks = vec![];
        let others = std::iter::repeat(Token::from_random(0, 0));
        let tokens = theirs.tasks.iter().map(|t| t.token).chain(others);
        for token in tokens.take(claim.limit) {
            // The runs take turns, each with its earliest first.
            let (last, rows) = (self.last, self.rows.iter().enumerate());
            let due = rows.filter(|(_, row)| self.can_take(row, claim));
            let key = |row: &Row| (Some(row.run) <= last, row.run, row.due(), row.order);
            let Some((place, _)) = due.min_by_key(|(_, row)| key(row)) else { break };
            self.last = Some(self.rows[place].run);
            tasks.push(self.reserve_row(place, token, claim));
        }
        tasks
    }

    fn can_take(&self, row: &Row, claim: &Claim) -> bool {
        let passed = |need: &Need| claim.full.contains(&need.action);
        self.is_running(row.run)
            && row.due().is_some_and(|due| due <= self.now)
            && row.need().is_some_and(|need| claim.able.can(need) && !passed(need))
    }

    fn reserve_row(&mut self, place: usize, token: Token, claim: &Claim) -> ClaimedTask {
        self.waited += 1;
        let row = &mut self.rows[place];
        row.order = self.waited;
        row.reserved = Some((token, self.now.after(claim.lasts)));
        (row.held, row.asks) = (None, None);
        let QueueRow { task, attempt, progress, .. } = row.shown.clone();
        let need = row.need().unwrap().clone();
        ClaimedTask { run: row.run, task, attempt, need, token, progress }
    }

    /// One claim a writer is remembered, and none that has lapsed.
    fn remember_claim(&mut self, claim: &Claim, answer: &Claimed) {
        let (at, others) = (self.now, |c: &Claim| c.id.writer != claim.id.writer);
        self.claims.retain(|(c, answer)| others(c) && answer.at.after(c.lasts) > at);
        self.claims.push((claim.clone(), answer.clone()));
    }

    fn claimed(&self, claim: &Claim, tasks: Vec<ClaimedTask>) -> Claimed {
        let at = self.now;
        let waiting = || {
            let rows = self.rows.iter().filter(|row| self.is_running(row.run));
            rows.filter_map(|row| Some((row.need()?, row.due()?)))
        };
        let blocked = |(need, due): &(&Need, Timestamp)| *due <= at && !claim.able.can(need);
        let full =
            |(need, due): &(&Need, Timestamp)| *due <= at && claim.full.contains(&need.action);
        let next_due = waiting().filter(|w| !blocked(w) && !full(w)).map(|(_, due)| due).min();
        let mut unable: BTreeMap<Need, Timestamp> = BTreeMap::new();
        for (need, due) in waiting().filter(blocked) {
            let first = unable.entry(need.clone()).or_insert(due);
            *first = (*first).min(due);
        }
        Claimed { at, tasks, next_due, unable: unable.into_iter().collect() }
    }

    fn commit(&mut self, commit: &Commit) -> Result<Committed, Refused> {
        let at = self.now;
        let run = self.runs.get(&commit.run).ok_or(Refused::Broken)?;
        let newest = run.decided.iter().filter(|(id, _)| id.writer == commit.id.writer);
        let newest = newest.max_by_key(|(id, _)| id.counter);
        match newest {
            Some(&(id, Ok(version))) if id == commit.id => {
                return Ok(Committed::Already { version, at });
            }
            Some(&(id, Err(task))) if id == commit.id => {
                return Ok(Committed::Fenced { task, at });
            }
            Some((id, _)) if id.counter > commit.id.counter => return self.conflict(commit),
            _ => {}
        }
        if let Some(told) = self.told.get(&(commit.run, commit.id.writer))
            && told.id == commit.id
            && told.until > at
        {
            return Ok(told.why.clone().answer(at));
        }
        if commit.expect.0 != run.events.len() as u64 {
            return self.conflict(commit);
        }
        if let Some(fence) = commit.fences.iter().find(|fence| !self.stands(commit.run, fence)) {
            let task = fence.task();
            self.run(commit.run).decided.push((commit.id, Err(task)));
            return Ok(Committed::Fenced { task, at });
        }
        match self.guard(commit) {
            Ok(guards) => {
                let answer = self.land(commit);
                for create in &commit.creates {
                    // One that is known stays as it is.
                    self.create(create);
                }
                self.let_through(commit, guards);
                Ok(answer)
            }
            Err(why) => Ok(why.answer(at)),
        }
    }

    fn run(&mut self, run: RunId) -> &mut Run {
        self.runs.get_mut(&run).unwrap()
    }

    fn conflict(&self, commit: &Commit) -> Result<Committed, Refused> {
        let run = &self.runs[&commit.run];
        let expect = commit.expect.0 as usize;
        match expect {
            n if n > run.events.len() => Err(Refused::Broken),
            n if n < run.floor => Ok(Committed::Behind { at: self.now }),
            n => Ok(Committed::Conflict { tail: run.tail(n), at: self.now }),
        }
    }

    fn stands(&self, run: RunId, fence: &Fence) -> bool {
        let (Fence::Held { task, token } | Fence::Lapsed { task, token }) = *fence;
        let row = self.rows.iter().find(|row| (row.run, row.shown.task) == (run, task));
        row.is_some_and(|row| {
            let is_leased =
                matches!(row.shown.state, QueueState::Leased { token: held, .. } if held == token);
            let is_over = row.end().is_some_and(|end| end <= self.now);
            let is_reserved = row.reserved.is_some_and(|(t, until)| t == token && self.now < until);
            match fence {
                Fence::Held { .. } => is_leased || is_reserved,
                Fence::Lapsed { .. } => is_leased && is_over,
            }
        })
    }

    fn land(&mut self, commit: &Commit) -> Committed {
        let at = self.now;
        let wakes = !self.is_running(commit.run) && awake(commit.phase);
        let run = self.run(commit.run);
        run.events.extend(commit.events.iter().cloned());
        let version = Version(run.events.len() as u64);
        run.results.extend(commit.results.iter().map(|row| (version.0 as usize, row.clone())));
        if let Some(state) = &commit.snapshot {
            run.snapshot = Some((version.0 as usize, state.clone()));
        }
        run.phase = commit.phase;
        if commit.phase.is_terminal() {
            run.ended.get_or_insert(at);
        }
        if awake(commit.phase) {
            run.archived = None;
        }
        let (workflow, redrives) = (run.workflow.clone(), run.redrives);
        commit.letters.iter().for_each(|letter| run.code = Some(letter.code.clone()));
        run.decided.push((commit.id, Ok(version)));
        if !awake(commit.phase) {
            let rows = self.rows.iter_mut().filter(|row| row.run == commit.run);
            rows.for_each(|row| (row.held, row.asks) = (None, None));
        }
        for row in &commit.letters {
            let id = LetterId { run: commit.run, task: row.task };
            let (action, code) = (row.action.clone(), row.code.clone());
            let message = row.message.clone();
            let (workflow, status) = (workflow.clone(), LetterStatus::Waiting);
            let head = LetterHead { id, workflow, action, code, message, at, redrives, status };
            self.letters.insert(id, StoredLetter { head, body: row.body.clone() });
        }
        if wakes {
            self.wait_anew(commit.run);
        }
        commit.queue.iter().for_each(|change| self.change(commit.run, change));
        Committed::Applied { version, at }
    }

    fn wait_anew(&mut self, run: RunId) {
        let mut rows: Vec<_> = self.rows.iter_mut().filter(|row| row.run == run).collect();
        rows.sort_by_key(|row| row.shown.task);
        for row in rows {
            self.waited += 1;
            row.order = self.waited;
        }
    }

    fn renew(&mut self, held: &Holding) -> Renewal {
        let now = self.now;
        let row = self.rows.iter_mut().find(|r| (r.run, r.shown.task) == (held.run, held.task));
        let (state, kept) = match row {
            Some(row) => (Some(&mut row.shown.state), Some(&mut row.shown.progress)),
            None => (None, None),
        };
        let Some(QueueState::Leased { token, until, deadline, beat_by }) = state else {
            return Renewal::Lost;
        };
        let over = |end: &Option<Timestamp>| end.is_some_and(|end| end <= now);
        if *token != held.token || over(deadline) || over(beat_by) {
            return Renewal::Lost;
        }
        if let (Some(by), Some(beat)) = (beat_by.as_mut(), &held.heartbeat) {
            *by = (*by).max(now.after(beat.within));
        }
        let wanted = now.after(held.lasts).max(*until);
        *until = [Some(wanted), *deadline, *beat_by].into_iter().flatten().min().unwrap();
        let come = held.heartbeat.as_ref().and_then(|beat| beat.progress.clone());
        let kept = kept.unwrap();
        *kept = [kept.clone(), come].into_iter().flatten().max_by_key(|p| p.number);
        Renewal::Held
    }

    fn expired(&self, limit: usize) -> Expired {
        let rows = self.rows.iter().filter(|row| self.is_running(row.run));
        let mut ends: Vec<_> = rows.filter_map(|row| Some((row.end()?, row))).collect();
        ends.sort_by_key(|(end, row)| (*end, row.run, row.shown.task));
        let next = ends.iter().map(|(end, _)| *end).find(|end| *end > self.now);
        ends.retain(|(end, _)| *end <= self.now);
        ends.truncate(limit);
        let tasks = ends.into_iter().filter_map(|(_, row)| {
            let QueueState::Leased { token, until, deadline, beat_by } = row.shown.state else {
                return None;
            };
            let lapse = match (deadline, beat_by) {
                (Some(deadline), _) if deadline <= until => Lapse::Deadline,
                (_, Some(beat_by)) if beat_by <= until => Lapse::Heartbeat,
                _ => Lapse::Lease,
            };
            let QueueRow { task, attempt, .. } = row.shown;
            Some(ExpiredTask { run: row.run, task, attempt, token, lapse })
        });
        Expired { at: self.now, tasks: tasks.collect(), next }
    }

    fn leases(&self, after: Option<(RunId, TaskId)>, limit: usize) -> Vec<LeasedTask> {
        let mut leases = Vec::new();
        for row in self.rows.iter().filter(|row| self.is_running(row.run)) {
            if let QueueState::Leased { token, .. } = row.shown.state {
                leases.push(LeasedTask { run: row.run, task: row.shown.task, token });
            }
        }
        leases.sort_by_key(|lease| (lease.run, lease.task));
        leases.retain(|lease| after.is_none_or(|after| (lease.run, lease.task) > after));
        leases.truncate(limit);
        leases
    }

    fn load(&self, run: RunId, after: Option<Version>) -> Option<Loaded> {
        let run = self.runs.get(&run)?;
        let (at, version) = (self.now, Version(run.events.len() as u64));
        if let Some(after) = after.map(|v| v.0 as usize).filter(|after| *after >= run.floor) {
            let tail = run.tail(after.min(run.events.len()));
            return Some(Loaded { at, version, snapshot: None, tail });
        }
        let from = run.snapshot.as_ref().map_or(0, |(version, _)| *version);
        let events = run.events[from..].to_vec();
        let results = run.results.iter().map(|(_, row)| row.clone()).collect();
        let snapshot = run.snapshot.clone();
        let snapshot = snapshot.map(|(v, state)| Snapshot { version: Version(v as u64), state });
        Some(Loaded { at, version, snapshot, tail: Tail { events, results } })
    }

    fn queue(&self, run: RunId) -> Vec<QueueRow> {
        let rows = self.rows.iter().filter(|row| row.run == run).map(|row| row.shown.clone());
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| row.task);
        rows
    }

    fn trim(&mut self, run: RunId, below: usize) -> Result<(), Refused> {
        let run = self.runs.get_mut(&run).ok_or(Refused::Broken)?;
        if below > run.floor {
            let held = run.snapshot.as_ref().filter(|(version, _)| below <= *version);
            held.ok_or(Refused::NotDone)?;
            run.floor = below;
        }
        Ok(())
    }
}

fn awake(phase: RunPhase) -> bool {
    matches!(phase, RunPhase::Running | RunPhase::Paused)
}

impl Run {
    fn tail(&self, from: usize) -> Tail {
        let results = self.results.iter().filter(|(at, _)| *at > from);
        Tail {
            events: self.events[from..].to_vec(),
            results: results.map(|(_, row)| row.clone()).collect(),
        }
    }
}
