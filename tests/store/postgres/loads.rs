//! Histories as rows: loads that are answered together, and events of one commit that share a row.

use std::sync::Arc;

use bytes::Bytes;
use retrial::run::Version;
use retrial::store::{Commit, Committed, Created, Loaded, Store, StoreError};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::kit::{self, connect, new_schema};
use super::own::{commit, create, inside};

fn event(n: u64, of: u64) -> Bytes {
    Bytes::from(format!("{n}: {of}"))
}

fn id(n: u64) -> Uuid {
    Uuid::from_bytes(create(n, 1).run.to_bytes())
}

/// Loads runs at the same time.
fn load(
    store: kit::Store,
    all: impl Iterator<Item = u64>,
) -> JoinSet<(u64, Result<Option<Loaded>, StoreError>)> {
    let store = Arc::new(store);
    all.map(|n| {
        let store = Arc::clone(&store);
        async move { (n, store.load(create(n, 1).run, None).await) }
    })
    .collect()
}

// One that is missing and one that is damaged are among them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn loads_at_once_get_each_its_own_answer() {
    const RUNS: u64 = 60;
    let options = new_schema();
    let store = connect(&options).await;
    for n in 0..RUNS {
        assert!(matches!(store.create(create(n, 1)).await, Ok(Created::New { .. })));
        let events = (0..=n % 3).map(|of| event(n, of)).collect();
        let snapshot = (n % 2 == 0).then(|| event(n, 99));
        let next = Commit { events, snapshot, ..commit(n, 1) };
        assert!(matches!(store.commit(next).await, Ok(Committed::Applied { .. })));
        let last = Commit { events: vec![event(n, 9)], ..commit(n, 2 + n % 3) };
        assert!(matches!(store.commit(last).await, Ok(Committed::Applied { .. })));
    }
    let client = inside(&options).await;
    let damage = "UPDATE events SET sum = sum + 1 WHERE run = $1 AND version > 1";
    client.execute(damage, &[&id(7)]).await.unwrap();
    let mut loads = load(store, (0..=RUNS).chain(0..RUNS));
    while let Some(loaded) = loads.join_next().await {
        match loaded.unwrap() {
            (7, loaded) => assert!(matches!(loaded, Err(StoreError::Broken(_))), "{loaded:?}"),
            (RUNS, loaded) => assert_eq!(loaded.unwrap(), None),
            (n, loaded) => {
                let loaded = loaded.unwrap().unwrap();
                let mut all = vec![Bytes::from_static(b"first")];
                all.extend((0..=n % 3).map(|of| event(n, of)));
                let from = if n % 2 == 0 { all.len() } else { 0 };
                all.push(event(n, 9));
                assert_eq!(loaded.snapshot.map(|s| s.state), (from > 0).then(|| event(n, 99)));
                assert_eq!(loaded.tail.events, all[from..]);
            }
        }
    }
}

/// Reading the events of the run $1 is an error of the server's, as where its disk has lost them.
const LOST: &str = "ALTER TABLE events RENAME TO kept;
    CREATE VIEW events AS SELECT run, version, sum, CASE WHEN run = '$1'
    THEN convert_to((1 / (version * 0))::text, 'UTF8') ELSE event END AS event FROM kept";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_load_that_fails_fails_no_other() {
    const RUNS: u64 = 60;
    let options = new_schema();
    let store = connect(&options).await;
    for n in 0..RUNS {
        assert!(matches!(store.create(create(n, 1)).await, Ok(Created::New { .. })));
    }
    drop(store);
    let lost = LOST.replace("$1", &id(7).to_string());
    inside(&options).await.batch_execute(&lost).await.unwrap();
    // What an open store has prepared goes on reading the table.
    let mut loads = load(connect(&options).await, 0..RUNS);
    while let Some(loaded) = loads.join_next().await {
        match loaded.unwrap() {
            (7, loaded) => assert!(matches!(loaded, Err(StoreError::NotDone(_))), "{loaded:?}"),
            (_, loaded) => assert_eq!(loaded.unwrap().unwrap().tail.events.len(), 1),
        }
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn events_of_one_commit_are_trimmed_and_read_one_by_one() {
    let store = connect(&new_schema()).await;
    assert!(matches!(store.create(create(1, 1)).await, Ok(Created::New { .. })));
    let run = create(1, 1).run;
    for first in [1, 5] {
        let events = (first..first + 4).map(|of| event(1, of)).collect();
        let snapshot = Some(event(1, 99));
        let next = Commit { events, snapshot, ..commit(1, first) };
        assert!(matches!(store.commit(next).await, Ok(Committed::Applied { .. })));
    }
    for below in 1..=9 {
        store.trim(run, Version(below)).await.unwrap();
        for after in below..=9 {
            let tail = store.load(run, Some(Version(after))).await.unwrap().unwrap().tail;
            assert_eq!(tail.events, (after..9).map(|of| event(1, of)).collect::<Vec<_>>());
        }
        let loaded = store.load(run, Some(Version(below - 1))).await.unwrap().unwrap();
        assert!(loaded.snapshot.is_some(), "what is below {below} is gone");
    }
}
