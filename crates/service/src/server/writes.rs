//! Whether the store takes writes. A disk that is full still answers every read.

use std::sync::{Arc, Mutex, PoisonError};

use retrial::store::{Answer, Request, Store, StoreError};
use retrial::time::{Mono, Nanos};

/// How long a failed write counts if none is tried after it. Otherwise a node that gets no work any
/// more, because it is not ready, would never be ready again.
const COUNTS: Nanos = Nanos::from_secs(10);

/// A store whose failed writes `GET /readyz` reports: give its [`StoreWrites`] to the settings.
#[derive(Clone, Debug)]
pub struct WatchedStore<S> {
    store: S,
    writes: StoreWrites,
}

/// Whether the last write of a [`WatchedStore`] failed. Clones are handles to the same store.
#[derive(Clone, Debug, Default)]
pub struct StoreWrites(Arc<Mutex<LastWrite>>);

#[derive(Debug, Default)]
struct LastWrite {
    /// Why it failed; `None` if it did not.
    failed: Option<String>,
    /// When it was first asked about since then.
    seen: Option<Mono>,
}

impl<S> WatchedStore<S> {
    /// The same store, watched.
    pub fn new(store: S) -> Self {
        Self { store, writes: StoreWrites::default() }
    }

    /// How its writes go.
    #[must_use]
    pub fn writes(&self) -> StoreWrites {
        self.writes.clone()
    }
}

impl<S: Store> Store for WatchedStore<S> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let always_writes = matches!(
            request,
            Request::Create(_) | Request::Commit(_) | Request::Define(_) | Request::Discard { .. }
        );
        let answer = self.store.ask(request).await;
        if always_writes {
            self.writes.note(answer.as_ref().err());
        }
        answer
    }

    async fn news(&self) {
        self.store.news().await;
    }
}

impl StoreWrites {
    fn note(&self, error: Option<&StoreError>) {
        let failed = match error {
            Some(StoreError::Unknown(why) | StoreError::NotDone(why)) => Some(why.clone()),
            // Damage of one run does not keep the store from writing others.
            Some(StoreError::Broken(_)) | None => None,
        };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = LastWrite { failed, seen: None };
    }

    /// Why the last write failed, if it did not long ago.
    pub(super) fn failed(&self, now: Mono) -> Option<String> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = *last.seen.get_or_insert(now);
        last.failed.clone().filter(|_| now.since(seen) < COUNTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_counts_for_so_long_after_it_was_asked_about() {
        let writes = StoreWrites::default();
        let at = |seconds: u64| Mono::from_nanos(Nanos::from_secs(seconds).get());
        let full = StoreError::NotDone("the disk is full".into());
        for begun in [100, 200] {
            writes.note(Some(&full));
            for after in [0, 9] {
                let failed = writes.failed(at(begun + after));
                assert_eq!(failed.as_deref(), Some("the disk is full"));
            }
            assert_eq!(writes.failed(at(begun + 10)), None);
        }
        writes.note(Some(&full));
        writes.note(None);
        assert_eq!(writes.failed(at(300)), None);
    }
}
