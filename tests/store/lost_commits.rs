//! After a crash redb takes back its newest commit if a page of it has rotted. What that commit had
//! acknowledged is reported, and everything else goes on (spec decision 19).
#![cfg(feature = "redb")]

use bytes::Bytes;
use retrial::run::{Digest, RunId, Version};
use retrial::store::{
    AskRuns, Commit, CommitId, Committed, Create, Created, Definition, OpenError, RedbStore,
    RunFilter, RunPhase, Store, StoreError,
};

use crate::store_world::{Disk, Turned};

const RUNS: u64 = 5;
/// redb's first page, of which the header and the mark are parts.
const FIRST: usize = 4096;

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

fn create(n: u64) -> Create {
    Create {
        run: run(n),
        key: Some(format!("order {n}")),
        digest: Digest::of(&n.to_be_bytes()),
        id: Default::default(),
        workflow: "pay".into(),
        events: vec![Bytes::from(format!("created {n}"))],
        queue: vec![],
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

fn commit(n: u64, version: u64) -> Commit {
    Commit {
        id: CommitId { writer: n, counter: version },
        run: run(n),
        expect: Version(version),
        fences: vec![],
        events: vec![Bytes::from(format!("event {version} of {n}"))],
        queue: vec![],
        results: vec![],
        letters: vec![],
        phase: RunPhase::Running,
        snapshot: None,
        guards: vec![],
        raised: vec![],
        creates: vec![],
    }
}

async fn open(disk: &Disk) -> Result<RedbStore, OpenError> {
    let disk = disk.clone();
    RedbStore::open_with_backend(Turned::at(1_000), "disk", move || Ok(disk.clone())).await
}

/// A store with some runs, and its disk before and after its newest commit. It is not closed, so
/// each is what a crash leaves.
async fn crashed(newest: impl AsyncFn(&RedbStore)) -> (Vec<u8>, Vec<u8>) {
    let disk = Disk::default();
    let store = open(&disk).await.unwrap();
    for n in 1..RUNS {
        assert!(matches!(store.create(create(n)).await, Ok(Created::New { .. })));
    }
    let before = disk.bytes();
    newest(&store).await;
    (before, disk.bytes())
}

/// The pages that the newest commit wrote, each with a bit flipped: one disk for each.
fn rotten((before, after): &(Vec<u8>, Vec<u8>)) -> Vec<Disk> {
    let pages = after.chunks(FIRST).zip(before.chunks(FIRST)).enumerate().skip(1);
    let written = pages.filter(|(_, (new, old))| new != old);
    let flip = |(page, (new, old)): (usize, (&[u8], &[u8]))| {
        let at = new.iter().zip(old).position(|(new, old)| new != old).unwrap();
        let mut bytes = after.clone();
        bytes[page * FIRST + at] ^= 4;
        Disk::holding(bytes)
    };
    written.map(flip).collect()
}

async fn loads(store: &RedbStore, n: u64) -> Result<Option<Vec<Bytes>>, StoreError> {
    let loaded = store.load(run(n), Some(Version::START)).await?;
    Ok(loaded.map(|loaded| loaded.tail.events))
}

async fn listed_damaged(store: &RedbStore) -> Vec<RunId> {
    let ask = AskRuns { before: None, limit: 100, filter: RunFilter::default() };
    let listed = store.list(ask).await.unwrap().damaged;
    assert_eq!(store.heads(None, 100).await.unwrap().damaged, listed);
    listed
}

#[tokio::test]
async fn decision_19_a_lost_creation_is_told_and_stays_told() {
    let states = crashed(async |store| {
        assert!(matches!(store.create(create(RUNS)).await, Ok(Created::New { .. })));
    });
    let states = states.await;
    let mut told = 0;
    for disk in rotten(&states) {
        let Ok(store) = open(&disk).await else { continue };
        told += 1;
        let mut first = Some(store);
        for _ in 0..2 {
            let store = match first.take() {
                Some(store) => store,
                None => open(&disk).await.unwrap(),
            };
            for n in 1..RUNS {
                let kept = loads(&store, n).await.unwrap().unwrap();
                assert_eq!(kept[0], create(n).events[0]);
            }
            let lost = loads(&store, RUNS).await;
            let is_named = |why: &str| why.contains(&run(RUNS).to_string());
            assert!(matches!(&lost, Err(StoreError::Broken(why)) if is_named(why)), "{lost:?}");
            assert_eq!(listed_damaged(&store).await, [run(RUNS)]);
            assert_eq!(store.damaged().iter().copied().collect::<Vec<_>>(), [run(RUNS)]);
            // Its key makes no second run.
            let again = store.create(Create { run: run(77), ..create(RUNS) }).await;
            assert!(matches!(again, Err(StoreError::Broken(_))), "{again:?}");
            let version = loads(&store, 1).await.unwrap().unwrap().len() as u64;
            let goes_on = store.commit(commit(1, version)).await;
            assert!(matches!(goes_on, Ok(Committed::Applied { .. })), "{goes_on:?}");
            store.close().await;
        }
    }
    assert!(told > 2, "redb took back a commit {told} times");
}

#[tokio::test]
async fn decision_19_a_run_whose_newest_commit_is_lost_does_not_go_on_from_the_one_before() {
    let states = crashed(async |store| {
        let done = store.commit(commit(2, 1)).await;
        assert!(matches!(done, Ok(Committed::Applied { .. })), "{done:?}");
    });
    let mut told = 0;
    for disk in rotten(&states.await) {
        let Ok(store) = open(&disk).await else { continue };
        told += 1;
        let lost = store.commit(commit(2, 1)).await;
        assert!(matches!(lost, Err(StoreError::Broken(_))), "{lost:?}");
        assert_eq!(listed_damaged(&store).await, [run(2)]);
        assert_eq!(loads(&store, 3).await.unwrap().unwrap(), create(3).events);
    }
    assert!(told > 2, "redb took back a commit {told} times");
}

#[tokio::test]
async fn decision_19_a_lost_definition_is_told() {
    let pay = Definition {
        name: "pay".into(),
        format: "ir".into(),
        text: Bytes::from_static(b"x = @act()"),
    };
    let states = crashed(async |store| {
        store.define(pay.clone()).await.unwrap();
    });
    let mut told = 0;
    for disk in rotten(&states.await) {
        let Ok(store) = open(&disk).await else { continue };
        told += 1;
        let lost = store.definition("pay".into()).await;
        assert!(matches!(&lost, Err(StoreError::Broken(why)) if why.contains("`pay`")), "{lost:?}");
        assert_eq!(store.definition("ship".into()).await, Ok(None));
        assert_eq!(listed_damaged(&store).await, []);
    }
    assert!(told > 2, "redb took back a commit {told} times");
}

/// A crash may cut a commit short that has no answer. That is no damage.
#[tokio::test]
async fn a_commit_in_flight_that_a_crash_tears_is_not_called_lost() {
    let (before, after) = crashed(async |store| {
        assert!(matches!(store.create(create(RUNS)).await, Ok(Created::New { .. })));
    })
    .await;
    // The mark is written after the commit is durable.
    let mut torn = after.clone();
    torn[512..FIRST].copy_from_slice(&before[512..FIRST]);
    let mut opened = 0;
    for disk in rotten(&(before, torn)) {
        let Ok(store) = open(&disk).await else { continue };
        opened += 1;
        assert_eq!(loads(&store, RUNS).await, Ok(None));
        assert_eq!(listed_damaged(&store).await, []);
        assert!(matches!(store.create(create(RUNS)).await, Ok(Created::New { .. })));
    }
    assert!(opened > 2, "redb took back a commit {opened} times");
}

/// An answer that was lost is asked for again. It may come from a store whose mark was not written.
#[tokio::test]
async fn decision_19_a_commit_whose_mark_failed_is_not_taken_back_after_its_answer() {
    let disk = Disk::default();
    let store = open(&disk).await.unwrap();
    store.create(create(1)).await.unwrap();
    let before = disk.bytes();
    // The first sync is the commit's, the second is the mark's.
    disk.fail_sync_after(1);
    let lost = store.create(create(2)).await;
    assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
    let again = store.create(create(2)).await;
    assert!(matches!(again, Ok(Created::New { .. })), "{again:?}");
    for disk in rotten(&(before, disk.bytes())) {
        let Ok(store) = open(&disk).await else { continue };
        match loads(&store, 2).await {
            Ok(Some(events)) => assert_eq!(events, create(2).events),
            other => assert!(matches!(other, Err(StoreError::Broken(_))), "{other:?}"),
        }
    }
}

/// What the mark costs: a write of a few dozen bytes, and a sync. A commit that the file grows for syncs
/// its new length as well.
#[tokio::test]
async fn a_commit_costs_two_syncs() {
    let disk = Disk::default();
    let store = open(&disk).await.unwrap();
    store.create(create(1)).await.unwrap();
    let mut in_place = 0;
    for version in 1..20 {
        let (before, length) = (disk.counts(), disk.bytes().len());
        let done = store.commit(commit(1, version)).await;
        assert!(matches!(done, Ok(Committed::Applied { .. })), "{done:?}");
        let after = disk.counts();
        println!("{} writes of {} bytes", after.1 - before.1, after.2 - before.2);
        let grows = disk.bytes().len() > length;
        assert_eq!(after.0 - before.0, if grows { 3 } else { 2 });
        in_place += u32::from(!grows);
    }
    assert!(in_place > 10, "{in_place}");
}
