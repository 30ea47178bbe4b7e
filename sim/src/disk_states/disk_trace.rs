//! Records every call of a store to its disk.

use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use redb::{BackendError, StorageBackend};

use super::model::AnsweredCall;
use crate::disk::{Change, DiskHandle};
use crate::sync::lock;

/// The change of bytes by one disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it reads.
    Read,
    /// It changes them, not durably.
    Change(Change),
    /// It makes every change before it durable.
    Sync,
}

/// One disk call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The change.
    pub effect: Effect,
    /// How many steps of the workload had begun when it was made.
    pub begun: usize,
    /// How many of them had been answered.
    pub acked: usize,
}

/// A workload on a disk: every disk call, and every step with what the store was asked in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskTrace {
    /// The disk's calls, in order.
    pub ops: Vec<Op>,
    /// The steps. The calls of one step were made at the same time.
    pub steps: Vec<Vec<AnsweredCall>>,
}

/// A tape that is being written. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Recording(Arc<Mutex<Running>>);

#[derive(Debug, Default)]
struct Running {
    ops: Vec<Op>,
    steps: Vec<Vec<AnsweredCall>>,
    begun: usize,
}

impl Recording {
    /// A step begins.
    pub(super) fn begin(&self) {
        lock(&self.0).begun += 1;
    }

    /// The step that has begun is answered.
    pub(super) fn answered(&self, made: Vec<AnsweredCall>) {
        lock(&self.0).steps.push(made);
    }

    /// The record so far.
    pub(super) fn trace(&self) -> DiskTrace {
        let running = lock(&self.0);
        DiskTrace { ops: running.ops.clone(), steps: running.steps.clone() }
    }

    fn note(&self, effect: Effect) {
        let mut running = lock(&self.0);
        let (begun, acked) = (running.begun, running.steps.len());
        running.ops.push(Op { effect, begun, acked });
    }
}

/// An open disk that records its calls.
#[derive(Debug)]
pub struct Recorded {
    disk: DiskHandle,
    recording: Recording,
}

impl Recorded {
    pub(super) fn new(disk: DiskHandle, recording: Recording) -> Self {
        Self { disk, recording }
    }
}

impl StorageBackend for Recorded {
    fn len(&self) -> io::Result<u64> {
        self.recording.note(Effect::Read);
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.recording.note(Effect::Read);
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.recording.note(Effect::Change(Change::SetLen(len)));
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.recording.note(Effect::Sync);
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.recording.note(Effect::Change(Change::Write(offset, Arc::from(data))));
        self.disk.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.unlock_range(start, end)
    }
}
