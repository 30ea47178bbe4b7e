//! Locks that others hold, and statements that do not end: the store says so in time, and goes
//! on when they are gone.

use retrial::run::RunId;
use retrial::store::{Committed, Store, StoreError};
use tokio::time::{Duration, sleep};
use tokio_postgres::Client;

use crate::postgres_faults::opened::open;
use crate::postgres_faults::outages::under;
use crate::postgres_faults::patience::{patient, soon};
use crate::postgres_faults::script::{Story, begin};
use crate::postgres_faults::seed::Seed;
use crate::postgres_faults::server;
use retrial_testkit::postgres_server::Server;

/// The store's tables, whatever they are.
async fn tables(client: &Client) -> Vec<String> {
    const ASK: &str = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    let rows = client.query(ASK, &[]).await.unwrap();
    assert!(!rows.is_empty(), "the store has no tables");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Another session takes every table for itself, until it is dropped.
async fn lock(server: &Server, database: &str) -> Client {
    let client = server.client(database).await;
    let tables = tables(&client).await.join(", ");
    let lock = format!("BEGIN; LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE");
    // Whoever is in the way in another order of tables wins a deadlock now and then.
    while client.batch_execute(&lock).await.is_err() {
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    client
}

fn not_broken<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let typed = matches!(answer, Err(StoreError::NotDone(_) | StoreError::Unknown(_)));
    assert!(typed, "it is answered {answer:?}");
}

// C8: each call ends while the lock is held, and says what may have happened.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_lock_of_others_is_waited_for_in_bounds() {
    let server = server::start();
    let database = server.database().await;
    let store = open(&server.url(&database)).await;
    let commit = Story::rich(1).end(begin(&store, &[Story::rich(1)]).await[0]);
    let locker = lock(&server, &database).await;
    let calls = async {
        tokio::join!(
            store.create(Story::rich(2).create()),
            store.claim(Story::rich(2).claim(1)),
            store.commit(commit.clone()),
            store.load(Story::rich(1).run(), None),
            store.heads(None, 10),
            store.expired(10),
            store.renew(vec![]),
        )
    };
    let (created, claimed, committed, loaded, heads, expired, _) =
        soon("under a lock", calls).await;
    not_broken(created);
    not_broken(claimed);
    not_broken(committed);
    not_broken(loaded);
    not_broken(heads);
    not_broken(expired);
    drop(locker);
    let landed = patient(|| store.commit(commit.clone())).await;
    assert!(matches!(landed, Committed::Applied { .. }), "{landed:?}");
    begin(&store, &[Story::rich(2)]).await;
}

// C8: one row's lock holds up its own run, and no other.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_locked_row_holds_up_its_own_run_alone() {
    let server = server::start();
    let database = server.database().await;
    let store = open(&server.url(&database)).await;
    let of_one = Story::rich(1).end(begin(&store, &[Story::rich(1)]).await[0]);
    let of_other = Story::rich(2).end(begin(&store, &[Story::rich(2)]).await[0]);
    let locker = server.client(&database).await;
    let locked: RunId = Story::rich(1).run();
    let tables = tables(&locker).await;
    let runs = tables.iter().find(|name| name.ends_with(".runs")).unwrap();
    let lock = format!("BEGIN; SELECT FROM {runs} WHERE run = '{locked}' FOR UPDATE");
    locker.batch_execute(&lock).await.unwrap();
    let both = async {
        tokio::join!(store.commit(of_one.clone()), patient(|| store.commit(of_other.clone())))
    };
    let (one, other) = soon("beside a locked row", both).await;
    not_broken(one);
    assert!(matches!(other, Committed::Applied { .. }), "{other:?}");
    locker.batch_execute("ROLLBACK").await.unwrap();
    let landed = patient(|| store.commit(of_one.clone())).await;
    assert!(matches!(landed, Committed::Applied { .. }), "{landed:?}");
}

/// Waits until a statement waits for a lock, and gives the store's time then.
async fn time_of_waiting(client: &Client, schema: &str) -> i64 {
    const WAIT: &str = "SELECT FROM pg_locks WHERE NOT granted";
    while client.query(WAIT, &[]).await.unwrap().is_empty() {
        sleep(Duration::from_millis(3)).await;
    }
    let clock = format!("SELECT {schema}.retrial_clock()");
    client.query_one(&clock, &[]).await.unwrap().get(0)
}

// Promise 6: a commit is decided by the time at which it has its last lock, whichever that is.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_what_waited_for_a_lock_is_decided_by_the_time_after_it() {
    let server = server::start();
    let database = server.database().await;
    let store = open(&server.url(&database)).await;
    let locker = server.client(&database).await;
    let tables = tables(&locker).await;
    for (number, table) in (1..).zip(["runs", "queue", "guards"]) {
        let story = Story::rich(number);
        let commit = story.end(begin(&store, &[story]).await[0]);
        let table = tables.iter().find(|name| name.ends_with(&format!(".{table}"))).unwrap();
        let schema = table.split('.').next().unwrap();
        locker.batch_execute(&format!("BEGIN; SELECT FROM {table} FOR UPDATE")).await.unwrap();
        let release = async {
            let waits = time_of_waiting(&locker, schema).await;
            locker.batch_execute("ROLLBACK").await.unwrap();
            waits
        };
        let both = async { tokio::join!(store.commit(commit.clone()), release) };
        let (committed, waits) = soon("behind a lock", both).await;
        let Ok(Committed::Applied { at, .. }) = committed else { panic!("{table}: {committed:?}") };
        let waits = u64::try_from(waits).unwrap();
        assert!(at.as_nanos() > waits, "{table}: {at} is before the lock was free");
    }
}

// C8: a statement that does not end is ended by the server, and nothing of it stays.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_statement_without_end_is_ended() {
    let server = server::start();
    let database = server.database().await;
    let store = open(&server.url(&database)).await;
    let commit = Story::rich(1).end(begin(&store, &[Story::rich(1)]).await[0]);
    let client = server.client(&database).await;
    let hang = "CREATE FUNCTION public.hang() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$";
    client.batch_execute(hang).await.unwrap();
    let tables = tables(&client).await;
    for table in &tables {
        let each = format!(
            "CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON {table} \
             FOR EACH ROW EXECUTE FUNCTION public.hang()"
        );
        client.batch_execute(&each).await.unwrap();
    }
    not_broken(soon("a statement that hangs", store.commit(commit.clone())).await);
    for table in &tables {
        client.batch_execute(&format!("DROP TRIGGER hang ON {table}")).await.unwrap();
    }
    let landed = patient(|| store.commit(commit.clone())).await;
    assert!(matches!(landed, Committed::Applied { .. }), "{landed:?}");
}

// C8: engines go on where they were when a lock is gone that outlasted every timeout.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_nodes_outlast_a_lock() {
    let server = server::start();
    let database = server.database().await;
    let url = server.url(&database);
    let mut locks = 0;
    under(&mut Seed::drawn(), &url, &url, 1_000, async |_, _| {
        if locks < 2 {
            locks += 1;
            let locker = lock(&server, &database).await;
            sleep(Duration::from_secs(8)).await;
            drop(locker);
        }
        Duration::from_secs(1)
    })
    .await;
    assert!(locks > 0, "nothing was locked");
}
