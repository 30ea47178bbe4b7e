//! The mark of the newest acknowledged commit.
//!
//! When redb opens a file after a crash and a page of the newest commit does not have its checksum,
//! redb goes back to the commit before. It can't know whether the crash cut that commit short or a
//! bit of an acknowledged commit rotted. The mark shows which it was. It is written and synced
//! after the commit and before its answers, so a store that is older than its mark has lost an
//! acknowledged commit. The mark names what that commit changed, so that only this is damaged.
//!
//! It is in the file's first page, behind redb's header, where redb writes nothing. There is one
//! copy: if a crash tears it, the commit that it was for has no answer yet.

use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::{BackendError, StorageBackend};

use crate::run::{Digest, RunId};

/// Where it begins, in a sector of its own.
const PLACE: u64 = 512;
/// From there to the end of redb's first page.
const ROOM: usize = 4096 - 512;
/// In place of the number of runs: they are more than the mark has room for.
const TOO_MANY: u16 = u16::MAX;

/// What stands for a name of any length.
pub(super) type NameSum = [u8; 8];

/// The sum of a submission key.
pub(super) fn key_sum(key: &str) -> NameSum {
    sum("key", key)
}

/// The sum of a workflow definition's name.
pub(super) fn definition_sum(name: &str) -> NameSum {
    sum("definition", name)
}

fn sum(what: &str, name: &str) -> NameSum {
    let digits = String::from(Digest::of(format!("{what} {name}").as_bytes()));
    let first = digits.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    first.unwrap_or_default().to_be_bytes()
}

/// What a commit changed, without queue rows that a renewal alone changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) runs: BTreeSet<RunId>,
    pub(super) names: BTreeSet<NameSum>,
}

impl Touched {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.names.is_empty()
    }
}

/// The newest acknowledged commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Its number, from 1.
    pub(super) commit: u64,
    /// What it changed; `None` if that is more than the mark has room for.
    pub(super) touched: Option<Touched>,
}

impl Mark {
    /// Writes the mark and syncs it.
    pub(super) fn write(&self, backend: &Shared) -> io::Result<()> {
        backend.0.write(PLACE, &self.bytes())?;
        backend.0.sync_data()
    }

    /// The mark, if there is a whole one.
    pub(super) fn read(backend: &Shared) -> io::Result<Option<Self>> {
        let mut bytes = [0; ROOM];
        backend.0.read(PLACE, &mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    /// `CRC32C | commit | number of runs | number of names | runs | names`.
    fn bytes(&self) -> Vec<u8> {
        let body = self.touched.as_ref().map(|touched| self.body(touched));
        let body = body.filter(|body| body.len() + 4 <= ROOM);
        let too_many = || {
            [&self.commit.to_be_bytes()[..], &TOO_MANY.to_be_bytes(), &0_u16.to_be_bytes()].concat()
        };
        let body = body.unwrap_or_else(too_many);
        [&crc32c::crc32c(&body).to_be_bytes()[..], &body].concat()
    }

    fn body(&self, Touched { runs, names }: &Touched) -> Vec<u8> {
        let count = |n: usize| u16::try_from(n).unwrap_or(TOO_MANY).to_be_bytes();
        let counts = [count(runs.len()), count(names.len())].concat();
        let mut body = [&self.commit.to_be_bytes()[..], &counts].concat();
        body.extend(runs.iter().flat_map(|run| run.to_bytes()));
        body.extend(names.iter().flatten());
        body
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (sum, body) = bytes.split_first_chunk()?;
        let (commit, rest) = body.split_first_chunk()?;
        let (runs, rest) = rest.split_first_chunk()?;
        let (names, rest) = rest.split_first_chunk()?;
        let [runs, names] = [*runs, *names].map(u16::from_be_bytes);
        let is_named = runs != TOO_MANY;
        let (runs, names) = if is_named { (usize::from(runs), usize::from(names)) } else { (0, 0) };
        let (runs, rest) = rest.split_at_checked(runs * 16)?;
        let names = rest.get(..names * 8)?;
        let length = 12 + runs.len() + names.len();
        if u32::from_be_bytes(*sum) != crc32c::crc32c(body.get(..length)?) {
            return None;
        }
        let runs = runs.as_chunks().0.iter().map(|run| RunId::from_bytes(*run)).collect();
        let names = names.as_chunks().0.iter().copied().collect();
        let touched = is_named.then_some(Touched { runs, names });
        Some(Self { commit: u64::from_be_bytes(*commit), touched })
    }
}

/// A backend that redb and the mark share.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<dyn StorageBackend>);

impl Shared {
    pub(super) fn new(backend: impl StorageBackend) -> Self {
        Self(Arc::new(backend))
    }
}

type Edge = Bound<u64>;

impl StorageBackend for Shared {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
