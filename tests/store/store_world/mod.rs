//! A world for stores that a test turns by hand: clocks, and a disk in memory that can fail.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use retrial::runtime::{Runtime, Task, TokioRuntime, WorkLost};
use retrial::time::{Mono, Nanos, Timestamp};

/// A runtime whose clocks stand still until turned. Tasks and blocking work are tokio's.
#[derive(Clone, Debug)]
pub(crate) struct Turned {
    tokio: TokioRuntime,
    mono: Arc<AtomicU64>,
    wall: Timestamp,
}

impl Turned {
    pub(crate) fn at(wall: u64) -> Self {
        let wall = Timestamp::from_nanos(wall);
        Self { tokio: TokioRuntime::current(), mono: Arc::default(), wall }
    }

    pub(crate) fn turn(&self, by: Nanos) {
        self.mono.fetch_add(by.get(), Ordering::Relaxed);
    }
}

impl Runtime for Turned {
    fn now(&self) -> Mono {
        Mono::from_nanos(self.mono.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        self.wall
    }

    fn random(&self) -> u64 {
        4
    }

    async fn sleep_until(&self, at: Mono) {
        self.mono.fetch_max(at.as_nanos(), Ordering::Relaxed);
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        self.tokio.spawn(future)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        self.tokio.blocking(work).await
    }
}

/// A disk of one file. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<State>);

#[derive(Debug, Default)]
struct State {
    bytes: Mutex<Vec<u8>>,
    /// How many of the next syncs fail, after having written everything.
    failing_syncs: AtomicUsize,
    /// How many syncs there are to the one that fails; 0 for none.
    failing_sync: AtomicUsize,
    /// The same of reads.
    failing_read: AtomicUsize,
    syncs: AtomicUsize,
    writes: AtomicUsize,
    written: AtomicUsize,
    /// How many of the next reads of the length fail, so that opening fails.
    failing_opens: AtomicUsize,
}

/// So many are left, this one included.
fn count_down(left: &AtomicUsize) -> usize {
    let less = |n: usize| n.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0)
}

fn fail_if(fails: bool) -> io::Result<()> {
    if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
}

impl Disk {
    pub(crate) fn fail_syncs(&self, n: usize) {
        self.0.failing_syncs.store(n, Ordering::Relaxed);
    }

    /// After `n` more syncs, at least one, one fails.
    pub(crate) fn fail_sync_after(&self, n: usize) {
        self.0.failing_sync.store(n + 1, Ordering::Relaxed);
    }

    /// After `n` more reads one fails.
    pub(crate) fn fail_read_after(&self, n: usize) {
        self.0.failing_read.store(n + 1, Ordering::Relaxed);
    }

    /// Whether a read is still to fail.
    pub(crate) fn will_fail_a_read(&self) -> bool {
        self.0.failing_read.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn holding(bytes: Vec<u8>) -> Self {
        Self(Arc::new(State { bytes: Mutex::new(bytes), ..State::default() }))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.bytes.lock().unwrap().clone()
    }

    /// Flips a bit.
    pub(crate) fn flip(&self, at: usize) {
        self.0.bytes.lock().unwrap()[at] ^= 1;
    }

    /// How many syncs, writes and written bytes there were.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let State { syncs, writes, written, .. } = &*self.0;
        let [syncs, writes, written] =
            [syncs, writes, written].map(|count| count.load(Ordering::Relaxed));
        (syncs, writes, written)
    }

    pub(crate) fn fail_opens(&self, n: usize) {
        self.0.failing_opens.store(n, Ordering::Relaxed);
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        fail_if(count_down(&self.0.failing_opens) > 0)?;
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        fail_if(count_down(&self.0.failing_read) == 1)?;
        let bytes = self.0.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.syncs.fetch_add(1, Ordering::Relaxed);
        fail_if(count_down(&self.0.failing_sync) == 1)?;
        fail_if(count_down(&self.0.failing_syncs) > 0)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.bytes.lock().unwrap();
        let to = bytes.get_mut(offset as usize..offset as usize + data.len());
        to.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        self.0.written.fetch_add(data.len(), Ordering::Relaxed);
        Ok(())
    }
}
