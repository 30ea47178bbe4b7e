//! The stores of the library pass the suite: memory, and redb on a file.
#![cfg(feature = "redb")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::store_world;

use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::conformance::{Harness, cases};
use retrial::store::{MemoryStore, RedbStore};
use retrial::time::Nanos;
use store_world::Turned;
use tempfile::TempDir;

/// On clocks that move by exactly what is asked, so that every limit is met to the nanosecond.
struct InMemory {
    runtime: Turned,
    store: MemoryStore<Turned>,
}

impl Harness for InMemory {
    type Store = MemoryStore<Turned>;

    fn store(&self) -> &Self::Store {
        &self.store
    }

    async fn sleep(&self, by: Nanos) {
        self.runtime.turn(by);
    }

    async fn reopen(&mut self) -> bool {
        false
    }
}

struct OnAFile {
    runtime: TokioRuntime,
    folder: TempDir,
    store: Option<RedbStore>,
}

impl OnAFile {
    async fn open(&self) -> RedbStore {
        let path = self.folder.path().join("runs.redb");
        RedbStore::open(self.runtime.clone(), path).await.unwrap()
    }
}

impl Harness for OnAFile {
    type Store = RedbStore;

    fn store(&self) -> &RedbStore {
        self.store.as_ref().unwrap()
    }

    async fn sleep(&self, by: Nanos) {
        self.runtime.sleep_until(self.runtime.now().after(by)).await;
    }

    async fn reopen(&mut self) -> bool {
        self.store.take().unwrap().close().await;
        self.store = Some(self.open().await);
        true
    }
}

async fn check<H: Harness>(make: impl AsyncFn() -> H) {
    for case in cases::<H>() {
        let mut harness = make().await;
        if let Err(wrong) = (case.run)(&mut harness).await {
            panic!("{}: {wrong}", case.name);
        }
    }
}

#[tokio::test]
async fn the_memory_store_conforms() {
    check(async || {
        let runtime = Turned::at(1 << 60);
        let store = MemoryStore::new(runtime.clone());
        InMemory { runtime, store }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_redb_store_on_a_file_conforms() {
    check(async || {
        let (runtime, folder) = (TokioRuntime::current(), tempfile::tempdir().unwrap());
        let mut harness = OnAFile { runtime, folder, store: None };
        harness.store = Some(harness.open().await);
        harness
    })
    .await;
}
