//! How keys and values are laid out. Part of the stored format: a change needs a new format number.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::super::letters::StoredLetter;
use super::super::seam::{ResultRow, Snapshot};
use crate::run::{LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;
use crate::workflow::StepIx;

/// The format that this release writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;

/// `run | version`, big-endian, so that a run's events are adjacent and in order.
pub(super) fn event_key(run: RunId, version: Version) -> Vec<u8> {
    [&run.to_bytes()[..], &version.0.to_be_bytes()].concat()
}

/// `run | place among the run's results`. Places have no gaps, so a lost result is noticed.
pub(super) fn result_key(run: RunId, place: u64) -> Vec<u8> {
    [&run.to_bytes()[..], &place.to_be_bytes()].concat()
}

/// `run | step | item`.
pub(super) fn row_key(run: RunId, task: TaskId) -> Vec<u8> {
    [&run.to_bytes()[..], &task_bytes(task)].concat()
}

/// Like a queue row's key: `run | step | item`.
pub(super) fn letter_key(id: LetterId) -> Vec<u8> {
    row_key(id.run, id.task)
}

/// The letter that a key names; zeros if the key is too short.
pub(super) fn letter_of(key: &[u8]) -> LetterId {
    let task = key.get(16..).unwrap_or_default();
    let (step, item) = task.split_first_chunk().unwrap_or((&[0; 2], &[]));
    let item = item.first_chunk().copied().unwrap_or_default();
    let task = TaskId { step: StepIx(u16::from_be_bytes(*step)), item: u32::from_be_bytes(item) };
    LetterId { run: run_of(key), task }
}

/// `length of the head | head as JSON | body`.
pub(super) fn headed(head: &[u8], body: &[u8]) -> Vec<u8> {
    [&(head.len() as u32).to_be_bytes()[..], head, body].concat()
}

pub(super) fn read_headed<H: DeserializeOwned>(value: &[u8]) -> Option<(H, &[u8])> {
    let (length, rest) = value.split_first_chunk()?;
    let (head, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((serde_json::from_slice(head).ok()?, body))
}

pub(super) fn read_letter(value: &[u8]) -> Option<StoredLetter> {
    let (head, body) = read_headed(value)?;
    Some(StoredLetter { head, body: Bytes::copy_from_slice(body) })
}

fn task_bytes(task: TaskId) -> [u8; 6] {
    let (step, item) = (task.step.0.to_be_bytes(), task.item.to_be_bytes());
    [step[0], step[1], item[0], item[1], item[2], item[3]]
}

/// The run that a key begins with; zeros if the key is too short.
pub(super) fn run_of(key: &[u8]) -> RunId {
    RunId::from_bytes(key.first_chunk().copied().unwrap_or_default())
}

/// `version after the commit | step | item | attempt | result`.
pub(super) fn result_value(at: Version, row: &ResultRow) -> Vec<u8> {
    let (at, attempt) = (at.0.to_be_bytes(), row.attempt.to_be_bytes());
    [&at[..], &task_bytes(row.task), &attempt, &row.result].concat()
}

pub(super) fn read_result(value: &[u8]) -> Option<(Version, ResultRow)> {
    let (at, rest) = value.split_first_chunk()?;
    let (step, rest) = rest.split_first_chunk()?;
    let (item, rest) = rest.split_first_chunk()?;
    let (attempt, result) = rest.split_first_chunk()?;
    let task = TaskId { step: StepIx(u16::from_be_bytes(*step)), item: u32::from_be_bytes(*item) };
    let attempt = u32::from_be_bytes(*attempt);
    let row = ResultRow { task, attempt, result: Bytes::copy_from_slice(result) };
    Some((Version(u64::from_be_bytes(*at)), row))
}

/// `version | state`.
pub(super) fn snapshot_value(snapshot: &Snapshot) -> Vec<u8> {
    [&snapshot.version.0.to_be_bytes()[..], &snapshot.state].concat()
}

pub(super) fn read_snapshot(value: &[u8]) -> Option<Snapshot> {
    let (version, state) = value.split_first_chunk()?;
    let version = Version(u64::from_be_bytes(*version));
    Some(Snapshot { version, state: Bytes::copy_from_slice(state) })
}

/// What the store keeps about itself: its time, and how many runs, submission keys, dead letters,
/// guarded actions and workflow definitions it has, so that it notices a missing one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) clock: Timestamp,
    pub(super) runs: u64,
    pub(super) keys: u64,
    pub(super) letters: u64,
    pub(super) guards: u64,
    /// Stored apart from the others, and only after the first definition.
    pub(super) definitions: u64,
    /// Stored apart from the others, and only after the first commit: the number of the newest one.
    pub(super) commits: u64,
}

impl Totals {
    /// `clock | runs | keys | letters | guards`.
    pub(super) fn value(self) -> Vec<u8> {
        let Self { clock, runs, keys, letters, guards, definitions: _, commits: _ } = self;
        [clock.as_nanos(), runs, keys, letters, guards].map(u64::to_be_bytes).concat()
    }

    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let (clock, rest) = value.split_first_chunk()?;
        let (runs, rest) = rest.split_first_chunk()?;
        let (keys, rest) = rest.split_first_chunk()?;
        let (letters, rest) = rest.split_first_chunk()?;
        let guards = u64::from_be_bytes(rest.try_into().ok()?);
        let clock = Timestamp::from_nanos(u64::from_be_bytes(*clock));
        let [runs, keys, letters] = [*runs, *keys, *letters].map(u64::from_be_bytes);
        Some(Self { clock, runs, keys, letters, guards, definitions: 0, commits: 0 })
    }
}
