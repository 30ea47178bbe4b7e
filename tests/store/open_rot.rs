//! A record that rots while its store is open, and a page that can't be read (spec decision 19).
#![cfg(feature = "redb")]

use std::ops::RangeInclusive;

use bytes::Bytes;
use retrial::run::{Digest, RunId};
use retrial::store::{AskRuns, Create, Created, RedbStore, RunFilter, RunPhase, Store, StoreError};

use crate::store_world::{Disk, Turned};

/// The records of these fill a page of redb's, and more.
const SMALL: RangeInclusive<u64> = 1..=100;
/// Together these are twice as long as redb's cache. Reading them pushes everything else out of it.
const LARGE: RangeInclusive<u64> = 1_001..=1_128;
const LARGE_EVENT: usize = 1 << 20;
const ROTTEN: u64 = 3;

/// Runs in the order of their ids.
fn run(n: u64) -> RunId {
    RunId::from_random(n << 32, 0)
}

fn workflow(n: u64) -> String {
    format!("workflow of run {n}.")
}

fn create(n: u64, event: Bytes) -> Create {
    Create {
        run: run(n),
        key: None,
        digest: Digest::of(&n.to_be_bytes()),
        id: Default::default(),
        workflow: workflow(n),
        events: vec![event],
        queue: vec![],
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

/// A store in which nothing of the small runs is in memory any more, and the disk under it.
async fn store_of_many() -> (RedbStore, Disk) {
    let disk = Disk::default();
    let under = disk.clone();
    let opened = RedbStore::open_with_backend(Turned::at(1_000), "disk", move || Ok(under.clone()));
    let store = opened.await.unwrap();
    for n in SMALL.chain(LARGE) {
        let event = if SMALL.contains(&n) { 8 } else { LARGE_EVENT };
        let created = store.create(create(n, Bytes::from(vec![7; event]))).await;
        assert!(matches!(created, Ok(Created::New { .. })), "{created:?}");
    }
    for n in LARGE.chain(LARGE) {
        store.load(run(n), None).await.unwrap().unwrap();
    }
    (store, disk)
}

fn rot(disk: &Disk, n: u64) {
    let (bytes, name) = (disk.bytes(), workflow(n));
    let places =
        bytes.windows(name.len()).enumerate().filter(|(_, found)| *found == name.as_bytes());
    places.for_each(|(at, _)| disk.flip(at));
}

#[tokio::test]
async fn decision_19_a_record_that_rots_while_the_store_is_open_holds_up_no_other() {
    let (store, disk) = store_of_many().await;
    rot(&disk, ROTTEN);
    let whole: Vec<RunId> = SMALL.chain(LARGE).filter(|n| *n != ROTTEN).map(run).collect();
    // None of them has queue rows, so recovery takes all up that can be read.
    let (mut stranded, mut after) = (Vec::new(), None);
    loop {
        let page = store.stranded(after, 50).await.unwrap();
        stranded.extend(page.runs.into_iter().map(|head| head.run));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    stranded.sort();
    assert_eq!(stranded, whole);

    let ask = AskRuns { before: None, limit: 1_000, filter: RunFilter::default() };
    let listed = store.list(ask).await.unwrap();
    assert_eq!((listed.runs.len(), listed.damaged), (whole.len(), vec![run(ROTTEN)]));
    let read = store.load(run(ROTTEN), None).await;
    assert!(matches!(&read, Err(StoreError::Broken(_))), "{read:?}");
    assert!(store.load(run(ROTTEN + 1), None).await.unwrap().is_some());
    store.close().await;
}

// What can't be read for now is not damaged: a page that is looked at for a missing run makes it neither.
#[tokio::test]
async fn decision_19_a_run_is_not_damaged_where_a_page_can_not_be_read() {
    let (store, disk) = store_of_many().await;
    // Their records would lie side by side, and events that lie between theirs fill a page.
    let missing = |n: u64| RunId::from_random((n << 32) + 1, 0);
    assert!(matches!(store.load(missing(1_040), None).await, Ok(None)));
    disk.fail_read_after(0);
    let read = store.load(missing(1_042), None).await;
    assert!(!disk.will_fail_a_read(), "nothing had to be read");
    assert!(matches!(&read, Err(StoreError::NotDone(_))), "{read:?}");
}
