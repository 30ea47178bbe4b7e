//! The redb store when commits fail, callers go away and clocks are wrong.
#![cfg(feature = "redb")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::store_world;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use retrial::run::{Digest, RunId, TaskId, Version};
use retrial::store::{
    Claim, ClaimId, Commit, CommitId, Committed, Create, Created, OpenError, QueueChange,
    RedbStore, RunPhase, Store, StoreError,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Need, StepIx, Via};
use store_world::{Disk, Turned};

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

const TASK: TaskId = TaskId { step: StepIx(0), item: 0 };

async fn open(runtime: &Turned, disk: &Disk) -> Result<RedbStore, OpenError> {
    let disk = disk.clone();
    RedbStore::open_with_backend(runtime.clone(), "disk", move || Ok(disk.clone())).await
}

fn create(n: u64) -> Create {
    Create {
        run: run(n),
        key: None,
        digest: Digest::of(b""),
        id: Default::default(),
        workflow: "w".into(),
        events: vec![Bytes::from_static(b"first")],
        queue: vec![QueueChange::Due {
            task: TASK,
            attempt: 1,
            after: Nanos::ZERO,
            need: Need { action: "act".into(), via: Via::Function },
            progress: None,
        }],
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

fn commit(n: u64, version: u64) -> Commit {
    Commit {
        id: CommitId { writer: 1, counter: version },
        run: run(n),
        expect: Version(version),
        fences: vec![],
        events: vec![Bytes::from_static(b"next")],
        queue: vec![],
        results: vec![],
        phase: RunPhase::Running,
        snapshot: None,
        guards: vec![],
        raised: vec![],
        creates: vec![],
        letters: vec![],
    }
}

fn claim(counter: u64) -> Claim {
    let id = ClaimId { writer: 1, counter };
    let able = Able::Anything.into();
    Claim { id, limit: 9, lasts: Nanos::from_secs(60), chance: 5, able, full: [].into() }
}

#[tokio::test]
async fn a_failed_commit_is_unknown_and_sending_it_again_tells() {
    let (runtime, disk) = (Turned::at(1_000), Disk::default());
    let store = open(&runtime, &disk).await.unwrap();
    store.create(create(1)).await.unwrap();
    let mut landed = [0; 2];
    for version in 1..30 {
        disk.fail_syncs(1 + version as usize % 2);
        let first = store.commit(commit(1, version)).await;
        assert!(matches!(first, Err(StoreError::Unknown(_))), "{first:?}");
        disk.fail_syncs(0);
        match store.commit(commit(1, version)).await.unwrap() {
            Committed::Applied { version: v, .. } if v.0 == version + 1 => landed[0] += 1,
            Committed::Already { version: v, .. } if v.0 == version + 1 => landed[1] += 1,
            other => panic!("{other:?}"),
        }
        let loaded = store.load(run(1), None).await.unwrap().unwrap();
        assert_eq!(loaded.tail.events.len() as u64, version + 1);
    }
    // The disk keeps what it was given, so what was written before the failing sync is there.
    assert!(landed[1] > 0, "{landed:?}");
}

#[tokio::test]
async fn nothing_is_served_until_the_store_is_open_again() {
    let (runtime, disk) = (Turned::at(1_000), Disk::default());
    let store = open(&runtime, &disk).await.unwrap();
    store.create(create(1)).await.unwrap();
    let reserved = store.claim(claim(1)).await.unwrap().tasks.remove(0);
    disk.fail_syncs(1);
    let failed = store.create(create(2)).await;
    assert!(matches!(failed, Err(StoreError::Unknown(_))), "{failed:?}");
    disk.fail_opens(3);
    for _ in 0..3 {
        let down = store.load(run(1), None).await;
        assert!(matches!(&down, Err(StoreError::NotDone(why)) if why.contains("disk")), "{down:?}");
    }
    assert!(store.load(run(1), None).await.unwrap().is_some());
    assert!(matches!(store.create(create(2)).await, Ok(Created::New { .. })));
    // The reservation was in memory alone: its attempt is not used up, its token is not good.
    let again = store.claim(claim(2)).await.unwrap().tasks;
    let again = again.iter().find(|task| task.run == run(1)).unwrap();
    assert_eq!(again.attempt, 1);
    assert_ne!(again.token, reserved.token);
}

/// Polls once, as a caller does that goes away.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn callers_may_go_away_and_their_commits_may_not() {
    let (runtime, disk) = (Turned::at(1_000), Disk::default());
    let store = open(&runtime, &disk).await.unwrap();
    store.create(create(1)).await.unwrap();
    for version in 1..20 {
        assert!(poll_once(store.commit(commit(1, version))).is_pending());
    }
    let again = store.commit(commit(1, 19)).await.unwrap();
    assert!(matches!(again, Committed::Already { version: Version(20), .. }), "{again:?}");
    // What waits when the store is closed is still done.
    assert!(poll_once(store.commit(commit(1, 20))).is_pending());
    store.close().await;
    let store = open(&runtime, &disk).await.unwrap();
    assert_eq!(store.load(run(1), None).await.unwrap().unwrap().version, Version(21));
}

// Decision 11.
#[tokio::test]
async fn decision_11_the_clock_is_the_later_of_the_stored_time_and_the_wall() {
    let disk = Disk::default();
    let first = Turned::at(1_000);
    let store = open(&first, &disk).await.unwrap();
    assert_eq!(store.clock().await, Ok(Timestamp::from_nanos(1_000)));
    first.turn(Nanos::new(500));
    store.create(create(1)).await.unwrap();
    store.close().await;
    // The wall clock fell back.
    let second = Turned::at(7);
    let store = open(&second, &disk).await.unwrap();
    assert_eq!(store.clock().await, Ok(Timestamp::from_nanos(1_500)));
    second.turn(Nanos::new(20));
    // A failed commit opens the store again and leaves its time alone.
    disk.fail_syncs(1);
    store.create(create(2)).await.unwrap_err();
    assert_eq!(store.clock().await, Ok(Timestamp::from_nanos(1_520)));
    store.close().await;
    let third = Turned::at(9_000);
    let store = open(&third, &disk).await.unwrap();
    assert_eq!(store.clock().await, Ok(Timestamp::from_nanos(9_000)));
}
