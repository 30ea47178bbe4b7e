//! One open file on a simulated disk, as redb wants it.

use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::{BackendError, StorageBackend};

use super::{CAPACITY, Change, Image, OpKind, Owner, SimDisk};
use crate::incarnation::Incarnation;
use crate::sync::lock;

/// A disk opened by one incarnation. It works only while that incarnation lives.
#[derive(Debug)]
pub struct DiskHandle {
    disk: SimDisk,
    incarnation: Incarnation,
    id: u64,
}

impl DiskHandle {
    pub(super) fn new(disk: SimDisk, incarnation: Incarnation, id: u64) -> Self {
        Self { disk, incarnation, id }
    }

    fn call(
        &self,
        kind: OpKind,
        text: &str,
        effect: impl FnOnce(&mut Image, u64) -> io::Result<Arc<[u8]>>,
    ) -> io::Result<Arc<[u8]>> {
        self.disk.call(&self.incarnation, kind, text, effect)
    }
}

impl StorageBackend for DiskHandle {
    fn len(&self) -> io::Result<u64> {
        let len = self.call(OpKind::Len, "len", |image, _| {
            Ok(Arc::from((image.seen().len() as u64).to_be_bytes()))
        })?;
        Ok(len.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let text = format!("read {}+{}", offset, out.len());
        let bytes = self.call(OpKind::Read, &text, |image, _| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let range = start..start.saturating_add(out.len());
            image.seen().get(range).map(Arc::from).ok_or_else(|| beyond_the_end(&text))
        })?;
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        fits(Some(len))?;
        self.call(OpKind::SetLen, &format!("set_len {len}"), |image, op| {
            image.change(op, Change::SetLen(len));
            Ok(Arc::from([]))
        })?;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync(&self.incarnation)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        fits(offset.checked_add(data.len() as u64))?;
        let text = format!("write {}+{}", offset, data.len());
        let extent = offset..offset.saturating_add(data.len() as u64);
        self.disk.call_over(&self.incarnation, OpKind::Write, &text, extent, |image, op| {
            let data: Arc<[u8]> = Arc::from(data);
            image.change(op, Change::Write(offset, Arc::clone(&data)));
            Ok(data)
        })?;
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.release();
        Ok(())
    }

    /// Only the whole file can be locked, as redb's `ExclusiveWriter` mode does. A dead
    /// incarnation holds nothing.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole(start, end)?;
        let mut state = lock(&self.disk.0.state);
        let free = state.owner.as_ref().is_none_or(|owner| owner.incarnation.is_over());
        if free {
            state.owner = Some(Owner { handle: self.id, incarnation: self.incarnation.clone() });
        }
        Ok(free)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        whole(start, end)?;
        self.release();
        Ok(())
    }
}

impl DiskHandle {
    fn release(&self) {
        let mut state = lock(&self.disk.0.state);
        if state.owner.as_ref().is_some_and(|owner| owner.handle == self.id) {
            state.owner = None;
        }
    }
}

fn whole(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
    match (start, end) {
        (Bound::Unbounded | Bound::Included(0), Bound::Unbounded) => Ok(()),
        _ => Err(BackendError::Unsupported),
    }
}

fn beyond_the_end(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("{text} goes beyond the end of the disk"))
}

fn fits(end: Option<u64>) -> io::Result<()> {
    match end {
        Some(end) if end <= CAPACITY => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full")),
    }
}
