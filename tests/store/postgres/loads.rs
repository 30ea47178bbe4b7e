//! Histories as rows: loads that are answered together, and events of one commit that share a row.

use std::sync::Arc;

use bytes::Bytes;
use retrial::run::Version;
use retrial::store::{Commit, Committed, Created, Store, StoreError};
use tokio::task::JoinSet;

use super::kit::{connect, new_schema};
use super::own::{commit, create, inside};

fn event(n: u64, of: u64) -> Bytes {
    Bytes::from(format!("{n}: {of}"))
}

// One that is missing and one that is damaged are among them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn loads_at_once_get_each_its_own_answer() {
    const RUNS: u64 = 60;
    let options = new_schema();
    let store = Arc::new(connect(&options).await);
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
    client.execute(damage, &[&uuid::Uuid::from_bytes(create(7, 1).run.to_bytes())]).await.unwrap();
    let mut loads = JoinSet::new();
    for n in (0..=RUNS).chain(0..RUNS) {
        let store = Arc::clone(&store);
        loads.spawn(async move { (n, store.load(create(n, 1).run, None).await) });
    }
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
    let lost = uuid::Uuid::from_bytes(create(7, 1).run.to_bytes());
    inside(&options).await.batch_execute(&LOST.replace("$1", &lost.to_string())).await.unwrap();
    let store = Arc::new(connect(&options).await);
    let mut loads = JoinSet::new();
    for n in 0..RUNS {
        let store = Arc::clone(&store);
        loads.spawn(async move { (n, store.load(create(n, 1).run, None).await) });
    }
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
