//! What a store does with each request, whatever it keeps its records on.

#[cfg(feature = "postgres")]
mod record_bytes;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::guards::{Guards, Judged};
use super::listing::RunHead;
use super::queue::Queue;
use super::records::Records;
use super::run_index::RunIndex;
use super::seam::{
    Answer, Commit, CommitId, Committed, Create, Created, Holding, Loaded, Renewal, Renewed,
    Request, RunPhase, Snapshot, StoreError, Tail,
};
use crate::run::{Digest, LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;

/// How many writers' receipts a run keeps. The newest stay.
const RECEIPTS: usize = 16;

/// What a store keeps of a run beside its events, results, snapshot and queue rows. The counts say
/// how many of those there must be, so that a store notices a missing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) workflow: Arc<str>,
    pub(super) digest: Digest,
    /// The creation's id and a checksum of its events. They tell a creation that is sent again from
    /// another creation of the same run.
    pub(super) creation: Digest,
    pub(super) phase: RunPhase,
    pub(super) created: Timestamp,
    pub(super) version: Version,
    /// The first event kept.
    pub(super) floor: Version,
    pub(super) snapshot: Option<Version>,
    pub(super) results: u64,
    pub(super) queued: u64,
    /// Dead letters, and how many of them wait.
    pub(super) letters: u64,
    pub(super) waiting: u64,
    /// The submission key, which is forgotten with the run.
    pub(super) key: Option<Box<str>>,
    pub(super) redrives: Option<LetterId>,
    pub(super) ended: Option<Timestamp>,
    pub(super) archived: Option<Timestamp>,
    /// The error code of the newest dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Box<str>>,
    /// The searchable fields of the input.
    #[serde(default, skip_serializing_if = "no_fields")]
    pub(super) fields: Arc<BTreeMap<String, String>>,
    receipts: Vec<Receipt>,
}

fn no_fields(fields: &BTreeMap<String, String>) -> bool {
    fields.is_empty()
}

/// One writer's newest commit that landed or was refused by a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Receipt {
    id: CommitId,
    decided: Decided,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decided {
    Landed(Version),
    Refused(TaskId),
}

/// The id tells creations apart; the checksum of the events does so for those that have none.
fn creation_of(create: &Create) -> Digest {
    let CommitId { writer, counter } = create.id;
    let events = create.events.iter().fold(0, |sum, event| crc32c::crc32c_append(sum, event));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&writer.to_be_bytes());
    bytes[8..16].copy_from_slice(&counter.to_be_bytes());
    bytes[16..20].copy_from_slice(&events.to_be_bytes());
    Digest::from_bytes(bytes)
}

impl Record {
    fn new(create: &Create, now: Timestamp) -> Self {
        Self {
            workflow: create.workflow.as_str().into(),
            digest: create.digest,
            creation: creation_of(create),
            phase: create.phase,
            created: now,
            version: Version::START.after(create.events.len()),
            floor: Version::START,
            snapshot: None,
            results: 0,
            queued: 0,
            letters: 0,
            waiting: 0,
            key: create.key.as_deref().map(Into::into),
            redrives: create.redrives,
            ended: create.phase.is_terminal().then_some(now),
            archived: None,
            code: None,
            fields: Arc::new(create.fields.clone()),
            receipts: Vec::new(),
        }
    }

    fn receipt(&self, id: CommitId) -> Option<Receipt> {
        self.receipts.iter().copied().find(|r| r.id.writer == id.writer && r.id >= id)
    }

    fn write_receipt(&mut self, id: CommitId, decided: Decided) {
        self.receipts.retain(|r| r.id.writer != id.writer);
        if self.receipts.len() >= RECEIPTS {
            self.receipts.remove(0);
        }
        self.receipts.push(Receipt { id, decided });
    }

    pub(super) fn head(&self, run: RunId) -> RunHead {
        RunHead {
            run,
            workflow: self.workflow.to_string(),
            digest: self.digest,
            phase: self.phase,
            active: self.phase.is_active(),
            version: self.version,
            created: self.created,
            ended: self.ended,
            archived: self.archived,
            redrives: self.redrives,
            tasks: self.queued,
            letters: self.waiting,
            key: self.key.as_deref().map(Into::into),
            code: self.code.as_deref().map(Into::into),
            fields: BTreeMap::clone(&self.fields),
        }
    }
}

/// Everything that requests read and change, at one instant of the store's time.
pub(super) struct Requests<'a, S> {
    pub(super) records: &'a mut S,
    pub(super) queue: &'a mut Queue,
    pub(super) guards: &'a mut Guards,
    /// None where lists and counts are SQL.
    pub(super) run_index: Option<&'a mut RunIndex>,
    pub(super) now: Timestamp,
}

impl<S: Records> Requests<'_, S> {
    /// Answers a request.
    pub(super) fn answer(&mut self, request: &Request) -> Result<Answer, StoreError> {
        Ok(match request {
            Request::Clock => Answer::Clock(self.now),
            Request::Create(create) => Answer::Create(self.create(create)?),
            Request::Claim(claim) => Answer::Claim(self.queue.claim(claim, self.now)),
            Request::Commit(commit) => Answer::Commit(self.commit(commit)?),
            Request::Renew(held) => Answer::Renew(self.renew(held)?),
            Request::Expired { limit } => Answer::Expired(self.queue.expired(*limit, self.now)),
            Request::Leases { after, limit } => Answer::Leases(self.queue.leases(*after, *limit)),
            Request::Load { run, after } => Answer::Load(self.load(*run, *after)?),
            Request::Heads { after, limit } => Answer::Heads(self.heads(*after, *limit)?),
            Request::Stranded { after, limit } => Answer::Stranded(self.stranded(*after, *limit)?),
            Request::Queue(run) => Answer::Queue(self.queue.rows(*run)),
            Request::Trim { run, below } => {
                self.trim(*run, *below)?;
                Answer::Trim
            }
            Request::Letters(ask) => Answer::Letters(self.letters(ask)?),
            Request::Letter(id) => Answer::Letter(self.letter(*id)?),
            Request::Discard { id, reason } => Answer::Discard(self.discard(*id, reason)?),
            Request::Archive(run) => Answer::Archive(self.archive(*run)?),
            Request::Prune(prune) => Answer::Prune(self.prune(prune)?),
            Request::List(ask) => Answer::List(self.list(ask)?),
            Request::Tally => Answer::Tally(self.tally()?),
            Request::Guards => Answer::Guards(self.guards.rows(self.now)),
            Request::Define(definition) => Answer::Define(self.define(definition)?),
            Request::Definition(name) => Answer::Definition(self.records.definition(name)?),
            Request::Definitions { after, limit } => {
                Answer::Definitions(self.records.definitions(after.as_deref(), *limit)?)
            }
            Request::Report(report) => {
                self.report(report)?;
                Answer::Report
            }
            Request::Reports => Answer::Reports(self.records.reports()?),
        })
    }

    /// Adds a run, unless it or its key exists.
    pub(super) fn create(&mut self, create: &Create) -> Result<Created, StoreError> {
        if let Some(known) = self.known(create)? {
            return Ok(known);
        }
        if let Some(id) = create.redrives
            && let Some(refused) = self.redrive(id, create.run)?
        {
            return Ok(refused);
        }
        self.add(create)?;
        Ok(Created::New { at: self.now })
    }

    fn add(&mut self, create: &Create) -> Result<(), StoreError> {
        let (run, mut record) = (create.run, Record::new(create, self.now));
        self.records.add_run(run, create.key.as_deref())?;
        self.records.put_events(run, Version::START, &create.events)?;
        self.change_queue(run, &mut record, &create.queue)?;
        self.put_record(run, record)
    }

    fn known(&self, create: &Create) -> Result<Option<Created>, StoreError> {
        let at = self.now;
        if let Some(record) = self.records.record(create.run)? {
            let run = create.run;
            return Ok(Some(if record.digest != create.digest {
                Created::KeyConflict { run }
            } else if record.creation != creation_of(create) {
                Created::Existing { run, at }
            } else {
                Created::New { at }
            }));
        }
        let Some(key) = &create.key else { return Ok(None) };
        let Some(run) = self.records.run_with_key(key)? else { return Ok(None) };
        let first = self.existing(run)?;
        Ok(Some(match first.digest == create.digest {
            true => Created::Existing { run, at },
            false => Created::KeyConflict { run },
        }))
    }

    pub(super) fn existing(&self, run: RunId) -> Result<Record, StoreError> {
        let missing = || StoreError::Broken(format!("run {run} is missing from the store"));
        self.records.record(run)?.ok_or_else(missing)
    }

    /// Records what happened to one run. Checks the receipt first, then the version, then the fences
    /// in their order.
    pub(super) fn commit(&mut self, commit: &Commit) -> Result<Committed, StoreError> {
        let (run, at) = (commit.run, self.now);
        let mut record = self.existing(run)?;
        if let Some(receipt) = record.receipt(commit.id) {
            return match receipt.decided {
                _ if receipt.id != commit.id => self.conflict(run, &record, commit.expect),
                Decided::Landed(version) => Ok(Committed::Already { version, at }),
                Decided::Refused(task) => Ok(Committed::Fenced { task, at }),
            };
        }
        if let Some(refused) = self.refused_before(commit) {
            return Ok(refused);
        }
        if record.version != commit.expect {
            return self.conflict(run, &record, commit.expect);
        }
        if let Some(fence) = commit.fences.iter().find(|f| !self.queue.fence_holds(run, f, at)) {
            let task = fence.task();
            record.write_receipt(commit.id, Decided::Refused(task));
            self.put_record(run, record)?;
            return Ok(Committed::Fenced { task, at });
        }
        let mut new = Vec::new();
        for create in &commit.creates {
            if self.known(create)?.is_none() {
                new.push(create);
            }
        }
        match self.guard(commit)? {
            Judged::Lands(folded) => {
                let landed = self.land(record, commit)?;
                new.into_iter().try_for_each(|create| self.add(create))?;
                self.let_through(folded);
                Ok(landed)
            }
            Judged::Held(holds) => Ok(self.hold(commit, holds)),
            Judged::Untold(raised) => Ok(self.untold(commit, raised)),
        }
    }

    fn conflict(
        &self,
        run: RunId,
        record: &Record,
        expect: Version,
    ) -> Result<Committed, StoreError> {
        if expect > record.version {
            let (has, seen) = (record.version.0, expect.0);
            let what = format!("run {run} has {has} events, yet a writer has seen {seen}");
            return Err(StoreError::Broken(what));
        }
        if expect < record.floor {
            return Ok(Committed::Behind { at: self.now });
        }
        Ok(Committed::Conflict { tail: self.tail(run, record, expect)?, at: self.now })
    }

    fn tail(&self, run: RunId, record: &Record, from: Version) -> Result<Tail, StoreError> {
        let events = self.records.events(run, record, from)?;
        Ok(Tail { events, results: self.records.results(run, record, Some(from))? })
    }

    fn land(&mut self, mut record: Record, commit: &Commit) -> Result<Committed, StoreError> {
        let (run, version) = (commit.run, commit.expect.after(commit.events.len()));
        self.records.put_events(run, commit.expect, &commit.events)?;
        self.records.put_results(run, version, record.results, &commit.results)?;
        if let Some(state) = commit.snapshot.clone() {
            self.records.put_snapshot(run, Snapshot { version, state })?;
            record.snapshot = Some(version);
        }
        record.version = version;
        record.phase = commit.phase;
        record.results += commit.results.len() as u64;
        record.ended = record.ended.or(commit.phase.is_terminal().then_some(self.now));
        record.archived = record.archived.filter(|_| !commit.phase.is_active());
        self.put_letters(run, &mut record, &commit.letters)?;
        record.write_receipt(commit.id, Decided::Landed(version));
        self.change_queue(run, &mut record, &commit.queue)?;
        self.put_record(run, record)?;
        Ok(Committed::Applied { version, at: self.now })
    }

    pub(super) fn change_queue(
        &mut self,
        run: RunId,
        record: &mut Record,
        changes: &[super::QueueChange],
    ) -> Result<(), StoreError> {
        let changed = self.queue.apply(run, record.phase, changes, self.now);
        record.queued = self.queue.count(run);
        changed.iter().try_for_each(|(task, row)| self.records.put_row(run, *task, row.as_ref()))
    }

    /// Extends leases, each independently.
    pub(super) fn renew(&mut self, held: &[Holding]) -> Result<Renewed, StoreError> {
        let answers =
            held.iter().map(|holding| self.renew_one(holding)).collect::<Result<_, _>>()?;
        Ok(Renewed { at: self.now, answers })
    }

    fn renew_one(&mut self, held: &Holding) -> Result<Renewal, StoreError> {
        let Some(row) = self.queue.renew(held, self.now) else { return Ok(Renewal::Lost) };
        self.records.put_row(held.run, held.task, Some(&row))?;
        Ok(Renewal::Held)
    }

    /// A run's snapshot and tail, or only the tail after `after`.
    pub(super) fn load(
        &self,
        run: RunId,
        after: Option<Version>,
    ) -> Result<Option<Loaded>, StoreError> {
        let Some(record) = self.records.record(run)? else { return Ok(None) };
        let (at, version) = (self.now, record.version);
        if let Some(after) = after.filter(|after| *after >= record.floor) {
            let tail = self.tail(run, &record, after.min(version))?;
            return Ok(Some(Loaded { at, version, snapshot: None, tail }));
        }
        let snapshot = self.records.snapshot(run, &record)?;
        let from = snapshot.as_ref().map_or(record.floor, |s| s.version);
        let events = self.records.events(run, &record, from)?;
        let results = self.records.results(run, &record, None)?;
        Ok(Some(Loaded { at, version, snapshot, tail: Tail { events, results } }))
    }

    /// Removes events below `below`.
    pub(super) fn trim(&mut self, run: RunId, below: Version) -> Result<(), StoreError> {
        let mut record = self.existing(run)?;
        if below <= record.floor {
            return Ok(());
        }
        if record.snapshot.is_none_or(|snapshot| below > snapshot) {
            let what = format!("run {run} has no snapshot at or after event {}", below.0);
            return Err(StoreError::NotDone(what));
        }
        self.records.remove_events(run, record.floor, below)?;
        record.floor = below;
        self.put_record(run, record)
    }
}
