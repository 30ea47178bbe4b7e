//! What is the PostgreSQL store's own affair: damage, rivals, time, versions, secrets, TLS.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use retrial::run::{Digest, RunId, TaskId, Version};
use retrial::runtime::TokioRuntime;
use retrial::store::{
    Claim, ClaimId, Commit, CommitId, Committed, ConnectError, Create, Created, Fence,
    PostgresOptions, PostgresStore, QueueChange, ResultRow, RunPhase, Store, StoreError,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Need, StepIx, Via};
use tokio_postgres::Client;

use super::kit::{connect, new_schema, schema_of, server};

const LONG: Nanos = Nanos::from_secs(60);

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

fn task(item: u32) -> TaskId {
    TaskId { step: StepIx(0), item }
}

pub(super) fn create(n: u64, tasks: u32) -> Create {
    let need = Need { action: "act".into(), via: Via::Function };
    let due = |item| QueueChange::Due {
        task: task(item),
        attempt: 1,
        after: Nanos::ZERO,
        need: need.clone(),
        progress: None,
    };
    Create {
        run: run(n),
        key: Some(format!("key {n}")),
        digest: Digest::of(b""),
        id: Default::default(),
        workflow: "w".into(),
        events: vec![Bytes::from_static(b"first")],
        queue: (0..tasks).map(due).collect(),
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

pub(super) fn commit(n: u64, version: u64) -> Commit {
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

fn claim(writer: u64, counter: u64, limit: usize) -> Claim {
    let (id, able) = (ClaimId { writer, counter }, Able::Anything.into());
    Claim { id, limit, lasts: LONG, chance: writer, able, full: [].into() }
}

/// A connection that looks into a store's tables.
pub(super) async fn inside(options: &PostgresOptions) -> Client {
    let client = server().client("postgres").await;
    client.batch_execute(&format!("SET search_path TO {}", schema_of(options))).await.unwrap();
    client
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn decision_19_damage_is_told_and_leaves_other_runs_be() {
    let damages = [
        "UPDATE runs SET record = set_byte(record, 9, 0)",
        "UPDATE runs SET record = overlay(record PLACING '\\x76' FROM position('\\x77' IN record))",
        "UPDATE events SET event = '\\x00' WHERE version = 1",
        "DELETE FROM events WHERE version = 0",
        "DELETE FROM runs",
        "UPDATE results SET result = '\\x31'",
        "UPDATE results SET attempt = 2",
        "DELETE FROM results",
        "UPDATE snapshots SET state = '\\x31'",
        "UPDATE snapshots SET version = 1",
        "UPDATE queue SET attempt = 7",
        "UPDATE queue SET until = 5, need = NULL",
    ];
    for damage in damages {
        let options = new_schema();
        let store = connect(&options).await;
        for n in 1..=2 {
            assert!(matches!(store.create(create(n, 1)).await, Ok(Created::New { .. })));
            let mut next = commit(n, 1);
            let result = Bytes::from_static(b"0");
            next.results = vec![ResultRow { task: task(0), attempt: 1, result }];
            next.snapshot = Some(Bytes::from_static(b"state"));
            assert!(matches!(store.commit(next).await, Ok(Committed::Applied { .. })));
        }
        let joint = if damage.contains("WHERE") { "AND" } else { "WHERE" };
        let hurt = format!("{damage} {joint} run = '{}'", run(1));
        assert_eq!(inside(&options).await.execute(&hurt, &[]).await.unwrap(), 1, "{damage}");
        let mut touching = commit(1, 2);
        touching.queue = vec![QueueChange::Remove { task: task(0) }];
        let answers = [
            store.load(run(1), Some(Version(0))).await.err(),
            store.load(run(1), None).await.err(),
            store.commit(touching).await.err(),
        ];
        let broken = |error: &Option<StoreError>| matches!(error, Some(StoreError::Broken(why)) if why.contains(&run(1).to_string()));
        assert!(answers.iter().any(broken), "{damage}: {answers:?}");
        if damage == "DELETE FROM runs" {
            let again = store.create(create(1, 1)).await;
            assert!(matches!(again, Err(StoreError::Broken(_))), "{again:?}");
        }
        // In one batch with a damaged run as well as alone.
        let both = tokio::join!(store.commit(commit(1, 2)), store.commit(commit(2, 2)));
        assert!(matches!(both.1, Ok(Committed::Applied { .. })), "{damage}: {both:?}");
        assert_eq!(store.load(run(2), None).await.unwrap().unwrap().version, Version(3));
        let claimed = store.claim(claim(1, 1, 9)).await.unwrap();
        assert!(claimed.tasks.iter().any(|task| task.run == run(2)), "{damage}: {claimed:?}");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn two_stores_never_give_one_task_out_twice() {
    const TASKS: u32 = 3_000;
    let options = new_schema();
    let store = connect(&options).await;
    for n in 0..30 {
        store.create(create(n, TASKS / 30)).await.unwrap();
    }
    let claimers = (1..=4).map(|writer| {
        let options = options.clone();
        async move {
            let store = connect(&options).await;
            let mut given = Vec::new();
            for counter in 1.. {
                let tasks = store.claim(claim(writer, counter, 7)).await.unwrap().tasks;
                if tasks.is_empty() {
                    break;
                }
                given.extend(tasks.into_iter().map(|task| (task.run, task.task, task.token)));
            }
            store.close().await;
            given
        }
    });
    let handles: Vec<_> = claimers.map(|c| tokio::runtime::Handle::current().spawn(c)).collect();
    let (mut all, mut working) = (Vec::new(), 0);
    for handle in handles {
        let given = handle.await.unwrap();
        working += usize::from(!given.is_empty());
        all.extend(given);
    }
    let tasks: BTreeSet<_> = all.iter().map(|(run, task, _)| (*run, *task)).collect();
    let tokens: BTreeSet<_> = all.iter().map(|(.., token)| *token).collect();
    assert_eq!((all.len(), tasks.len(), tokens.len()), (3_000, 3_000, 3_000));
    assert!(working > 1, "one claimer had it all");
    store.close().await;
}

// X6, beyond what one look into the queue sees.
#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn x6_thousands_of_tasks_of_one_run_do_not_starve_others() {
    let options = new_schema();
    let store = connect(&options).await;
    store.create(create(0, 2_500)).await.unwrap();
    for n in 1..=200 {
        store.create(create(n, 1)).await.unwrap();
    }
    let mut others = BTreeSet::new();
    for counter in 1..=60 {
        let tasks = store.claim(claim(1, counter, 10)).await.unwrap().tasks;
        assert_eq!(tasks.len(), 10);
        others.extend(tasks.iter().map(|task| task.run).filter(|of| *of != run(0)));
    }
    assert_eq!(others.len(), 200);
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn r7_a_stale_token_is_refused_by_another_node() {
    let options = new_schema();
    let (one, other) = (connect(&options).await, connect(&options).await);
    one.create(create(1, 1)).await.unwrap();
    let given = one.claim(claim(1, 1, 9)).await.unwrap().tasks.remove(0);
    let lease = |token, lasts| QueueChange::Lease {
        task: task(0),
        attempt: 1,
        token,
        lasts,
        timeout: None,
        heartbeat: None,
    };
    let mut start = commit(1, 1);
    start.fences = vec![Fence::Held { task: task(0), token: given.token }];
    start.queue = vec![lease(given.token, Nanos::ZERO)];
    assert!(matches!(one.commit(start).await, Ok(Committed::Applied { .. })));
    let mut sweep = commit(1, 2);
    sweep.id.writer = 2;
    sweep.fences = vec![Fence::Lapsed { task: task(0), token: given.token }];
    sweep.queue = create(1, 1).queue;
    assert!(matches!(other.commit(sweep).await, Ok(Committed::Applied { .. })));
    let again = other.claim(claim(2, 1, 9)).await.unwrap().tasks.remove(0);
    assert_ne!(again.token, given.token);
    let mut late = commit(1, 3);
    late.fences = vec![Fence::Held { task: task(0), token: given.token }];
    let refused = one.commit(late).await;
    assert!(matches!(refused, Ok(Committed::Fenced { .. })), "{refused:?}");
    one.close().await;
    other.close().await;
}

// R5, R6: what an operator sees, in times of the database.
#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn r5_the_queue_can_be_read_by_people() {
    let options = new_schema();
    let store = connect(&options).await;
    store.create(create(1, 2)).await.unwrap();
    let mut start = commit(1, 1);
    let token = store.claim(claim(1, 1, 1)).await.unwrap().tasks.remove(0).token;
    start.queue = vec![QueueChange::Lease {
        task: task(1),
        attempt: 3,
        token,
        lasts: LONG,
        timeout: Some(Nanos::from_secs(30)),
        heartbeat: None,
    }];
    store.commit(start).await.unwrap();
    let seen = "SELECT task, attempt, attempt_number, status, \
        extract(epoch FROM timeout_at - now())::float8 BETWEEN 1 AND 31, \
        scheduled_at BETWEEN now() - interval '1 minute' AND now(), delivery_token IS NOT NULL \
        FROM retrial_queue ORDER BY task";
    let rows = inside(&options).await.query(seen, &[]).await.unwrap();
    let row = |n: usize| {
        let row = &rows[n];
        let in_time: (Option<bool>, Option<bool>) = (row.get(4), row.get(5));
        let numbers: (i64, i64) = (row.get(1), row.get(2));
        (row.get::<_, String>(0), numbers, row.get::<_, String>(3), in_time, row.get::<_, bool>(6))
    };
    assert_eq!(rows.len(), 2);
    assert_eq!(row(0), ("0/0".into(), (1, 0), "reserved".into(), (None, Some(true)), true));
    assert_eq!(row(1), ("0/1".into(), (3, 2), "leased".into(), (Some(true), None), true));
    store.close().await;
}

// Decision 11: the database's clock is set back by an hour.
#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn decision_11_time_goes_on_where_the_servers_clock_is_set_back() {
    let options = new_schema();
    let store = connect(&options).await;
    let client = inside(&options).await;
    let turn = "CREATE TABLE turned (now bigint); INSERT INTO turned VALUES (9000000000);
        CREATE OR REPLACE FUNCTION retrial_clock() RETURNS bigint LANGUAGE sql VOLATILE
        AS 'SELECT now FROM turned'; UPDATE clock SET ahead = 0, seen = 0";
    client.batch_execute(turn).await.unwrap();
    let fresh = connect(&options).await;
    let at = |nanos: u64| Ok(Timestamp::from_nanos(nanos));
    assert_eq!(fresh.clock().await, at(9_000_000_000));
    fresh.create(create(1, 0)).await.unwrap();
    client.batch_execute("UPDATE turned SET now = 5000000000").await.unwrap();
    assert_eq!(fresh.clock().await, at(9_000_000_000));
    client.batch_execute("UPDATE turned SET now = 5000000700").await.unwrap();
    assert_eq!(fresh.clock().await, at(9_000_000_700));
    // Another node, which got no notice, is not behind.
    let other = connect(&options).await;
    assert_eq!(other.clock().await, at(9_000_000_700));
    for store in [store, fresh, other] {
        store.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn tables_that_need_a_later_release_are_refused() {
    let options = new_schema();
    connect(&options).await.close().await;
    let later = "INSERT INTO retrial_migrations SELECT 99, 'later', applied_on, checksum \
        FROM retrial_migrations LIMIT 1";
    inside(&options).await.batch_execute(later).await.unwrap();
    // As long as they say that this one may, it works on them.
    connect(&options).await.close().await;
    inside(&options).await.batch_execute("UPDATE compatible SET oldest = 4").await.unwrap();
    let refused = PostgresStore::connect(TokioRuntime::current(), options).await.unwrap_err();
    assert!(
        matches!(refused, ConnectError::Newer { found: 99, known: 3, oldest: 4, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("newer Retrial"), "{refused}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_password_is_shown_nowhere() {
    let name = "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'open-sesame-4'";
    server().client("postgres").await.batch_execute(name).await.unwrap();
    let url = |password: &str| {
        let port = server().port();
        format!("postgres://guarded:{password}@127.0.0.1:{port}/postgres?schema=guarded")
    };
    let options = PostgresOptions::from_url(&url("open-sesame-4")).unwrap();
    let store = PostgresStore::connect(TokioRuntime::current(), options.clone()).await.unwrap();
    let mut shown = vec![format!("{options:?} {store:?}")];
    store.close().await;
    let wrong = PostgresOptions::from_url(&url("wrong-sesame-4")).unwrap();
    let refused = PostgresStore::connect(TokioRuntime::current(), wrong).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Server { .. }), "{refused}");
    shown.push(format!("{refused} {refused:?}"));
    let odd = PostgresOptions::from_url("postgres://guarded:pass?sesame-4@127.0.0.1/postgres");
    shown.push(format!("{odd:?}"));
    for address in [
        "postgres://guarded:pass-sesame-4@127.0.0.1:port/postgres",
        "guarded:sesame-4@127.0.0.1/postgres",
        "postgres://u:sesame-4@h/d?sslmode=verify-ca",
        "postgres://u:sesame-4@h/d?schema=Sesame",
    ] {
        let refused = PostgresOptions::from_url(address).unwrap_err();
        shown.push(format!("{refused} {refused:?}"));
    }
    assert!(!shown.iter().any(|text| text.contains("sesame")), "{shown:#?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn several_stores_share_a_database_and_know_nothing_of_each_other() {
    let (one, other) = (connect(&new_schema()).await, connect(&new_schema()).await);
    one.create(create(1, 1)).await.unwrap();
    assert_eq!(other.load(run(1), None).await, Ok(None));
    assert_eq!(other.claim(claim(1, 1, 9)).await.unwrap().tasks, vec![]);
    one.close().await;
    other.close().await;
}

// A claim waits for nobody, and does not ask again at once for what it could not have.
#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_claim_passes_by_what_others_work_on() {
    let options = new_schema();
    let store = connect(&options).await;
    store.create(create(1, 1)).await.unwrap();
    store.create(create(2, 1)).await.unwrap();
    let client = inside(&options).await;
    let lock = format!("BEGIN; SELECT FROM queue WHERE run = '{}' FOR UPDATE", run(1));
    client.batch_execute(&lock).await.unwrap();
    let first = store.claim(claim(1, 1, 9)).await.unwrap();
    assert_eq!(first.tasks.iter().map(|task| task.run).collect::<Vec<_>>(), [run(2)]);
    assert!(first.next_due.is_some_and(|due| due > first.at), "{first:?}");
    client.batch_execute("COMMIT").await.unwrap();
    let second = store.claim(claim(1, 2, 9)).await.unwrap();
    assert_eq!(second.tasks.iter().map(|task| task.run).collect::<Vec<_>>(), [run(1)]);
    store.close().await;
}

// Many callers at once, of many runs and of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn commits_at_once_land_each_once() {
    let store = Arc::new(connect(&new_schema()).await);
    let spawn = |n: u64| {
        let store = Arc::clone(&store);
        tokio::runtime::Handle::current().spawn(async move {
            // Two of each run, by the same key: one of them is first.
            let created = store.create(create(n / 2, 1)).await;
            assert!(matches!(created, Ok(Created::New { .. })), "{created:?}");
            let mut next = commit(n / 2, 1);
            next.id.writer = n;
            matches!(store.commit(next).await, Ok(Committed::Applied { .. }))
        })
    };
    let handles: Vec<_> = (0..400).map(spawn).collect();
    let mut landed = 0;
    for handle in handles {
        landed += usize::from(handle.await.unwrap());
    }
    assert_eq!(landed, 200);
    for n in 0..200 {
        assert_eq!(store.load(run(n), None).await.unwrap().unwrap().version, Version(2));
    }
}
