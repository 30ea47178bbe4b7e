//! The stores of the library pass the suite: memory, and redb on a file.

use retrial::runtime::{Runtime, TokioRuntime};
use retrial::store::conformance::{Harness, cases};
use retrial::store::{MemoryStore, RedbStore};
use retrial::time::{Nanos, Timestamp};
use tempfile::TempDir;

struct InMemory {
    runtime: TokioRuntime,
    store: MemoryStore<TokioRuntime>,
}

impl Harness for InMemory {
    type Store = MemoryStore<TokioRuntime>;

    fn store(&self) -> &Self::Store {
        &self.store
    }

    async fn sleep(&self, by: Nanos) {
        self.runtime.sleep_until(self.runtime.now().after(by)).await;
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

#[tokio::test(start_paused = true)]
async fn the_memory_store_conforms() {
    check(async || {
        let runtime = TokioRuntime::current();
        let store = MemoryStore::starting_at(runtime.clone(), Timestamp::from_nanos(1 << 60));
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
