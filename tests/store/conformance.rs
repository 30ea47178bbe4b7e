//! The stores of the library pass the suite: memory, and redb on a file.
#![cfg(feature = "redb")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::store_world;

use std::sync::Arc;

use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::conformance::{Doing, Harness, cases};
use retrial::store::{DynStore, MemoryStore, RedbStore};
use retrial::time::Nanos;
use store_world::Turned;
use tempfile::TempDir;

/// On clocks that move by exactly what is asked, so that every limit is met to the nanosecond.
struct InMemory {
    runtime: Turned,
    store: DynStore,
}

impl Harness for InMemory {
    fn store(&self) -> DynStore {
        self.store.clone()
    }

    fn sleep(&self, by: Nanos) -> Doing<'_, ()> {
        self.runtime.turn(by);
        Box::pin(async {})
    }

    fn reopen(&mut self) -> Doing<'_, bool> {
        Box::pin(async { false })
    }
}

struct OnAFile {
    runtime: TokioRuntime,
    folder: TempDir,
    store: Option<Arc<RedbStore>>,
}

impl OnAFile {
    async fn open(&self) -> Arc<RedbStore> {
        let path = self.folder.path().join("runs.redb");
        Arc::new(RedbStore::open(self.runtime.clone(), path).await.unwrap())
    }
}

impl Harness for OnAFile {
    fn store(&self) -> DynStore {
        DynStore::new(Arc::clone(self.store.as_ref().unwrap()))
    }

    fn sleep(&self, by: Nanos) -> Doing<'_, ()> {
        Box::pin(self.runtime.sleep_until(self.runtime.now().after(by)))
    }

    fn reopen(&mut self) -> Doing<'_, bool> {
        Box::pin(async {
            Arc::into_inner(self.store.take().unwrap()).unwrap().close().await;
            self.store = Some(self.open().await);
            true
        })
    }
}

async fn check<H: Harness>(make: impl AsyncFn() -> H) {
    for case in cases() {
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
        let store = DynStore::new(MemoryStore::new(runtime.clone()));
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
