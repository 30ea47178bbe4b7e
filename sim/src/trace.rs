//! A seed's history and its fingerprint: a running hash over every input, event, message and disk
//! call, in the order in which they happened.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use madsim::time::TimeHandle;
use retrial::run::mix;
use retrial::time::Mono;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The kind of a history entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something reached the system from outside: a submission, a cancel, a heal.
    Input,
    /// An event of a run, as an observer got it.
    Event,
    /// Bytes crossed the simulated network, or a connection changed.
    Message,
    /// A disk call.
    Disk,
    /// A fault struck.
    Fault,
    /// A note for the reader.
    Note,
}

impl Kind {
    fn tag(self) -> u8 {
        match self {
            Self::Input => 0,
            Self::Event => 1,
            Self::Message => 2,
            Self::Disk => 3,
            Self::Fault => 4,
            Self::Note => 5,
        }
    }
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// True simulated time.
    pub at: Mono,
    /// The node or endpoint it happened at.
    pub lane: String,
    /// Its kind.
    pub kind: Kind,
    /// Its text.
    pub text: String,
    /// The head of the fingerprint after it. It also covers the bytes that `text` leaves out.
    pub mark: u64,
}

/// A place in a history after which the world's chance is another one: which task is polled next, what
/// nodes draw, how long disk and network take, what endpoints reply and what functions do. All before
/// it happens as without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// After so many entries of the history.
    pub after: u64,
    /// From which everything after it is drawn.
    pub chance: u64,
}

/// The fingerprint of everything recorded so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..16].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The head of a fingerprint.
fn head(chain: &[u8; 32]) -> u64 {
    chain[..8].iter().fold(0, |head, byte| head << 8 | u64::from(*byte))
}

impl Inner {
    fn come_to_fork(&mut self) {
        let Some(fork) = self.fork.filter(|fork| fork.after == self.count) else { return };
        self.fork_mark = Some(head(&self.chain));
        // What is dropped after the world's end may still be recorded.
        if TimeHandle::try_current().is_some() {
            // madsim draws from one stream: whoever skips some of it gets another.
            (0..=fork.chance % 1_000).for_each(|_| _ = madsim::rand::random::<u64>());
        }
    }
}

/// The recorder of one seed. Clones share it.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    chain: [u8; 32],
    count: u64,
    lines: Option<Vec<Line>>,
    fork: Option<Fork>,
    /// The head of the fingerprint at the fork, once the history has come to it.
    fork_mark: Option<u64>,
}

impl Trace {
    /// An empty recorder. `keep` keeps the lines besides hashing them.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        let lines = keep.then(Vec::new);
        Self(Arc::new(Mutex::new(Inner {
            chain: [0; 32],
            count: 0,
            lines,
            fork: None,
            fork_mark: None,
        })))
    }

    /// Records that `text` happened at `lane` at true time `at`. `detail` is hashed but not shown:
    /// the bytes of a message or a write.
    pub fn record(&self, at: Mono, lane: &str, kind: Kind, text: &str, detail: &[u8]) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hash = Sha256::new();
        hash.update(inner.chain);
        hash.update(at.as_nanos().to_be_bytes());
        hash.update([kind.tag()]);
        for part in [lane.as_bytes(), text.as_bytes(), detail] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let chain = hash.finalize().into();
        inner.chain = chain;
        inner.count += 1;
        if let Some(lines) = &mut inner.lines {
            let (lane, text) = (lane.to_owned(), text.to_owned());
            lines.push(Line { at, lane, kind, text, mark: head(&chain) });
        }
        inner.come_to_fork();
    }

    /// Lets chance begin anew at `fork`. To be called in the world, before anything is recorded.
    pub(crate) fn fork_at(&self, fork: Option<Fork>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.fork = fork;
        inner.come_to_fork();
    }

    /// The chance that everything depends on from now on; none before the fork.
    #[must_use]
    pub(crate) fn fork_chance(&self) -> Option<u64> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.fork.filter(|_| inner.fork_mark.is_some()).map(|fork| fork.chance)
    }

    /// `drawn`, and after the fork another number in its place.
    #[must_use]
    pub(crate) fn redraw(&self, drawn: u64) -> u64 {
        self.fork_chance().map_or(drawn, |chance| mix(drawn ^ mix(chance)))
    }

    /// The head of the fingerprint at the fork; none where the history did not come to it.
    #[must_use]
    pub fn fork_mark(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fork_mark
    }

    /// The fingerprint so far.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.0.lock().unwrap_or_else(PoisonError::into_inner).chain)
    }

    /// How many things were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// The kept lines; empty when lines are not kept.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone().unwrap_or_default()
    }
}
