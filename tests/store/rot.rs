//! What a redb store says of runs and workflow definitions whose records are not what was written
//! (spec decision 19), and that a store without definitions is laid out as before there were any.
#![cfg(feature = "redb")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableHandle as _,
};
use retrial::run::{Digest, RunId};
use retrial::runtime::TokioRuntime;
use retrial::store::{
    AskRuns, Create, Created, Definition, Listed, OpenError, RedbStore, RunCursor, RunFilter,
    RunPhase, Store, StoreError,
};
use tempfile::TempDir;

/// The bytes of one table, as redb has them.
const fn table(name: &'static str) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

struct Kept {
    _folder: TempDir,
    path: PathBuf,
}

impl Kept {
    /// Runs 1 to 4, and what `write` adds, closed cleanly.
    async fn with(write: impl AsyncFn(&RedbStore)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.redb");
        let store = open(&path).await.unwrap();
        for n in 1..=4 {
            let create = Create {
                run: run(n),
                key: None,
                digest: Digest::of(b""),
                id: Default::default(),
                workflow: "pay".into(),
                events: vec![Bytes::from_static(b"first")],
                queue: vec![],
                phase: RunPhase::Running,
                redrives: None,
                fields: Default::default(),
            };
            assert!(matches!(store.create(create).await, Ok(Created::New { .. })));
        }
        write(&store).await;
        store.close().await;
        Self { _folder: folder, path }
    }

    fn change(
        &self,
        name: &'static str,
        key: &[u8],
        with: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>,
    ) {
        let db = Database::create(&self.path).unwrap();
        let txn = db.begin_write().unwrap();
        let mut rows = txn.open_table(table(name)).unwrap();
        let value = rows.get(key).unwrap().unwrap().value().to_vec();
        match with(value) {
            Some(value) => drop(rows.insert(key, value.as_slice()).unwrap()),
            None => drop(rows.remove(key).unwrap()),
        }
        drop(rows);
        txn.commit().unwrap();
    }

    fn rot(&self, name: &'static str, key: &[u8]) {
        self.change(name, key, |mut value| {
            *value.last_mut().unwrap() ^= 1;
            Some(value)
        });
    }

    fn tables(&self) -> Vec<String> {
        let db = Database::create(&self.path).unwrap();
        let txn = db.begin_read().unwrap();
        txn.list_tables().unwrap().map(|table| table.name().to_owned()).collect()
    }
}

async fn open(path: &Path) -> Result<RedbStore, OpenError> {
    RedbStore::open(TokioRuntime::current(), path).await
}

async fn define(store: &RedbStore, name: &str) -> Result<u64, StoreError> {
    let (name, format) = (name.to_owned(), "ir".to_owned());
    let text = Bytes::from_static(b"x = @act()");
    Ok(store.define(Definition { name, format, text }).await?.revision)
}

async fn page(store: &RedbStore, before: Option<RunCursor>, phase: Option<RunPhase>) -> Listed {
    let filter = RunFilter { phase, ..RunFilter::default() };
    store.list(AskRuns { before, limit: 2, filter }).await.unwrap()
}

#[tokio::test]
async fn decision_19_a_damaged_run_is_listed_apart() {
    let kept = Kept::with(async |_: &RedbStore| {}).await;
    kept.rot("heads", &run(3).to_bytes());
    let store = open(&kept.path).await.unwrap();
    let first = page(&store, None, None).await;
    let ids: Vec<_> = first.runs.iter().map(|head| head.run).collect();
    assert_eq!((ids, first.damaged), (vec![run(4), run(2)], vec![run(3)]));
    let second = page(&store, first.next, None).await;
    let ids: Vec<_> = second.runs.iter().map(|head| head.run).collect();
    assert_eq!((ids, second.damaged, second.next), (vec![run(1)], vec![], None));
    // Nothing is known of its phase.
    let none = page(&store, None, Some(RunPhase::Failed)).await;
    assert_eq!((none.runs, none.damaged), (vec![], vec![run(3)]));
    assert_eq!(store.tally().await.unwrap().phases, [(RunPhase::Running, 3)].into());
    store.close().await;
}

#[tokio::test]
async fn decision_19_a_damaged_definition_is_named_and_the_others_are_read() {
    let kept = Kept::with(async |store: &RedbStore| {
        for name in ["pay", "ship"] {
            define(store, name).await.unwrap();
        }
    })
    .await;
    kept.rot("definitions", b"pay");
    let store = open(&kept.path).await.unwrap();
    let broken = |answer: Result<_, StoreError>, word: &str| match answer {
        Err(StoreError::Broken(why)) => assert!(why.contains(word), "{why}"),
        other => panic!("{word}: {other:?}"),
    };
    broken(store.definition("pay".into()).await.map(drop), "`pay`");
    broken(store.definitions(None, 9).await.map(drop), "`pay`");
    broken(define(&store, "pay").await.map(drop), "`pay`");
    // Its name may be what has rotted.
    broken(store.definition("pax".into()).await.map(drop), "this may be the one");
    assert_eq!(store.definition("ship".into()).await.unwrap().unwrap().revision, 1);
    assert_eq!(store.definitions(Some("pay".into()), 9).await.unwrap().len(), 1);
    assert_eq!(page(&store, None, None).await.runs.len(), 2);
    store.close().await;
}

#[tokio::test]
async fn decision_19_a_missing_definition_is_noticed() {
    for (name, key) in [("definitions", &b"pay"[..]), ("meta", b"definitions")] {
        let kept = Kept::with(async |store: &RedbStore| {
            define(store, "pay").await.unwrap();
        })
        .await;
        kept.change(name, key, |_| None);
        let error = open(&kept.path).await.unwrap_err();
        let is_it = |why: &str| why.contains("definitions are missing");
        assert!(matches!(&error, OpenError::Damaged { why, .. } if is_it(why)), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_store_without_definitions_is_laid_out_as_before_there_were_any() {
    let kept = Kept::with(async |_: &RedbStore| {}).await;
    assert!(!kept.tables().contains(&"definitions".to_owned()), "{:?}", kept.tables());
    let store = open(&kept.path).await.unwrap();
    assert_eq!(store.definition("pay".into()).await, Ok(None));
    assert_eq!(store.definitions(None, 9).await, Ok(vec![]));
    store.close().await;
    assert!(!kept.tables().contains(&"definitions".to_owned()));
    let store = open(&kept.path).await.unwrap();
    assert_eq!(define(&store, "pay").await, Ok(1));
    store.close().await;
    let store = open(&kept.path).await.unwrap();
    assert_eq!(define(&store, "pay").await, Ok(1));
    assert_eq!(store.definitions(None, 9).await.unwrap().len(), 1);
    store.close().await;
}
