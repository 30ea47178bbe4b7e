//! Damaged, foreign and newer store files: each gets a typed error, nothing is overwritten, and no
//! bit that rots becomes a wrong value (spec decision 19, rules of promise 5).
#![cfg(feature = "redb")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use bytes::Bytes;
use retrial::run::{Digest, LetterId, RunId, TaskId, Token, Version};
use retrial::runtime::TokioRuntime;
use retrial::store::{
    AskLetters, Commit, CommitId, Committed, Create, Created, Heads, LetterFilter, LetterRow,
    Loaded, OpenError, QueueChange, QueueRow, RedbStore, ResultRow, RunPhase, Store, StoreError,
    StoredLetter,
};
use retrial::time::Nanos;
use retrial::workflow::{Need, StepIx, Via};

const RUNS: u64 = 12;
const FLIPS: u64 = 300;

fn run(n: u64) -> RunId {
    RunId::from_random(n, n)
}

fn task(item: u32) -> TaskId {
    TaskId { step: StepIx(0), item }
}

async fn open(path: &Path) -> Result<RedbStore, OpenError> {
    RedbStore::open(TokioRuntime::current(), path).await
}

/// Runs with events, results, snapshots, keys and queue rows, closed cleanly.
async fn write_store(path: &Path) {
    let store = open(path).await.unwrap();
    for n in 0..RUNS {
        let created = store.create(create(n)).await.unwrap();
        assert!(matches!(created, Created::New { .. }));
        for version in 3..8 {
            let committed = store.commit(commit(n, version)).await.unwrap();
            assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
        }
    }
    store.close().await;
}

fn text(what: &str, n: u64) -> Bytes {
    Bytes::from(format!("{what} {n}: {}", "lorem ipsum ".repeat(n as usize % 7)))
}

fn create(n: u64) -> Create {
    Create {
        run: run(n),
        key: Some(format!("order {n}")),
        digest: Digest::of(&n.to_be_bytes()),
        id: Default::default(),
        workflow: format!("workflow {n}"),
        events: (0..3).map(|e| text("event", n * 100 + e)).collect(),
        queue: (0..3)
            .map(|item| QueueChange::Due {
                task: task(item),
                attempt: 1,
                after: Nanos::MAX,
                need: Need { action: "act".into(), via: Via::Function },
                progress: None,
            })
            .collect(),
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

fn commit(n: u64, version: u64) -> Commit {
    let token = Token::from_random(n, version);
    Commit {
        id: CommitId { writer: n, counter: version },
        run: run(n),
        expect: Version(version),
        fences: vec![],
        events: vec![text("event", n * 100 + version)],
        queue: vec![QueueChange::Lease {
            task: task(1),
            attempt: 1,
            token,
            lasts: Nanos::MAX,
            timeout: None,
            heartbeat: None,
        }],
        results: vec![ResultRow { task: task(2), attempt: 1, result: text("result", version) }],
        phase: RunPhase::Running,
        snapshot: (version == 5).then(|| text("state", n)),
        guards: vec![],
        raised: vec![],
        creates: vec![],
        letters: (version == 6).then(|| letter(n)).into_iter().collect(),
    }
}

fn letter(n: u64) -> LetterRow {
    let (action, code, message) = ("act".into(), "503".into(), "no".into());
    LetterRow { task: task(0), action, code, message, body: text("letter", n) }
}

/// Everything that can be read, without the times of reading.
#[derive(Debug, PartialEq)]
struct Seen {
    heads: Result<Heads, StoreError>,
    runs: Vec<Result<Option<Loaded>, StoreError>>,
    events: Vec<Result<Option<Loaded>, StoreError>>,
    rows: Vec<Result<Vec<QueueRow>, StoreError>>,
    keys: Vec<Result<Created, StoreError>>,
    letters: Vec<Result<Option<StoredLetter>, StoreError>>,
}

async fn see(store: &RedbStore) -> Seen {
    let mut seen = Seen {
        heads: heads(store).await,
        runs: vec![],
        events: vec![],
        rows: vec![],
        keys: vec![],
        letters: vec![],
    };
    for n in 0..RUNS {
        seen.runs.push(load(store, n, None).await);
        seen.events.push(load(store, n, Some(Version::START)).await);
        seen.rows.push(store.queue(run(n)).await);
        seen.letters.push(store.letter(LetterId { run: run(n), task: task(0) }).await);
    }
    for n in 0..RUNS {
        let again = store.create(Create { run: run(1_000 + n), ..create(n) }).await;
        seen.keys.push(again.map(|created| match created {
            Created::Existing { run, .. } => Created::KeyConflict { run },
            other => other,
        }));
    }
    seen
}

async fn heads(store: &RedbStore) -> Result<Heads, StoreError> {
    let heads = store.heads(None, 100).await?;
    Ok(Heads { at: Default::default(), ..heads })
}

async fn load(
    store: &RedbStore,
    n: u64,
    after: Option<Version>,
) -> Result<Option<Loaded>, StoreError> {
    let loaded = store.load(run(n), after).await?;
    Ok(loaded.map(|loaded| Loaded { at: Default::default(), ..loaded }))
}

/// Whether something was seen to be wrong, after checking that all that was answered is right.
fn check(seen: &Seen, whole: &Seen, what: &str) -> bool {
    fn right<T: PartialEq + std::fmt::Debug>(
        got: &Result<T, StoreError>,
        whole: &Result<T, StoreError>,
        what: &str,
    ) -> bool {
        match got {
            Err(StoreError::Broken(_)) => false,
            Err(error) => panic!("{what}: {error}"),
            Ok(_) => {
                assert_eq!(got, whole, "{what}");
                true
            }
        }
    }
    let damaged = match (&seen.heads, &whole.heads) {
        (Ok(heads), Ok(all)) => {
            let listed = |h: &&retrial::store::RunHead| !heads.runs.iter().any(|r| r.run == h.run);
            let missing: Vec<_> = all.runs.iter().filter(listed).collect();
            assert!(heads.runs.iter().all(|h| all.runs.contains(h)), "{what}: a wrong head");
            assert!(missing.len() <= heads.damaged.len(), "{what}: a head is silently missing");
            heads.damaged.clone()
        }
        (Err(StoreError::Broken(_)), _) => vec![run(0)],
        other => panic!("{what}: {other:?}"),
    };
    let mut all_right = damaged.is_empty();
    for n in 0..RUNS as usize {
        all_right &= right(&seen.runs[n], &whole.runs[n], what);
        all_right &= right(&seen.events[n], &whole.events[n], what);
        all_right &= right(&seen.letters[n], &whole.letters[n], what);
        all_right &= right(&seen.keys[n], &whole.keys[n], what);
        // The rows of a damaged run are set aside, and every reading of the run says so.
        let set_aside =
            seen.rows[n] == Ok(vec![]) && matches!(seen.runs[n], Err(StoreError::Broken(_)));
        all_right &= set_aside || right(&seen.rows[n], &whole.rows[n], what);
    }
    !all_right
}

#[tokio::test]
async fn decision_19_rot_is_detected_and_never_a_wrong_value() {
    rot_is_detected().await;
}

pub(crate) async fn rot_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    write_store(&path).await;
    let clean = fs::read(&path).unwrap();
    let store = open(&path).await.unwrap();
    let whole = see(&store).await;
    store.close().await;
    // Zeros are mostly pages that nothing uses.
    let used: Vec<_> = (0..clean.len()).filter(|at| clean[*at] != 0).collect();
    let (mut refused, mut noticed) = (0, 0);
    for n in 0..FLIPS {
        let chance = task(0).chance(7, n as u32);
        let at = used[(chance >> 3) as usize % used.len()];
        let mut rotten = clean.clone();
        rotten[at] ^= 1 << (chance % 8);
        fs::write(&path, &rotten).unwrap();
        let what = format!("bit {} of byte {at}", chance % 8);
        match open(&path).await {
            Err(
                OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Newer { .. },
            ) => {
                refused += 1;
            }
            Err(error) => panic!("{what}: {error}"),
            Ok(store) => {
                let seen = see(&store).await;
                noticed += u64::from(check(&seen, &whole, &what));
                store.close().await;
            }
        }
    }
    println!("{FLIPS} flips: {refused} refused at open, {noticed} noticed later");
    assert!(refused > 0 && noticed > 0, "nothing was hit: {refused}, {noticed}");
}

#[tokio::test]
async fn decision_19_a_damaged_run_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    write_store(&path).await;
    let mut bytes = fs::read(&path).unwrap();
    let needle = text("state", 5);
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle.as_ref());
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    for at in places {
        bytes[at] ^= 1;
    }
    fs::write(&path, &bytes).unwrap();
    let store = open(&path).await.unwrap();
    let (broken, whole) = (run(5), run(4));
    let error = store.load(broken, None).await.unwrap_err();
    assert!(matches!(&error, StoreError::Broken(why) if why.contains(&broken.to_string())));
    assert!(store.load(whole, None).await.unwrap().is_some());
    // One rotten snapshot does not keep the run's events from being read, or from going on.
    assert!(store.load(broken, Some(Version::START)).await.unwrap().is_some());
    let (bad, good) = tokio::join!(store.load(broken, None), store.commit(commit(4, 8)));
    assert!(bad.is_err());
    assert!(matches!(good, Ok(Committed::Applied { .. })), "{good:?}");
    store.close().await;
}

#[tokio::test]
async fn c18_a_damaged_letter_is_named_and_the_others_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    write_store(&path).await;
    let mut bytes = fs::read(&path).unwrap();
    let needle = text("letter", 5);
    let places = bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle.as_ref());
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(&path, &bytes).unwrap();
    let store = open(&path).await.unwrap();
    let broken = LetterId { run: run(5), task: task(0) };
    let ask = AskLetters { after: None, limit: 100, filter: LetterFilter::default() };
    let listed = store.letters(ask).await.unwrap();
    assert_eq!((listed.letters.len() as u64, listed.damaged), (RUNS - 1, vec![broken]));
    let error = store.letter(broken).await.unwrap_err();
    assert!(matches!(&error, StoreError::Broken(why) if why.contains(&run(5).to_string())));
    store.close().await;
}

/// What opening a file with these bytes says, after checking that the bytes are still there.
async fn refusal(bytes: &[u8]) -> OpenError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    fs::write(&path, bytes).unwrap();
    let error = open(&path).await.expect_err("it was opened");
    assert!(error.to_string().contains("runs.redb"), "{error} does not name the file");
    assert!(fs::read(&path).unwrap() == bytes, "{error}: the file was changed");
    error
}

#[tokio::test]
async fn a_foreign_file_is_refused_and_left_as_it_is() {
    let picture = [&b"\x89PNG\r\n\x1a\n"[..], &[7; 5_000]].concat();
    let late = [&[0; 8_000][..], b"something after many zeros"].concat();
    for bytes in [&b"hello"[..], b"redb", &picture, &late, &[0xFF; 100_000]] {
        let error = refusal(bytes).await;
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_torn_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    write_store(&path).await;
    let clean = fs::read(&path).unwrap();
    for len in [9, 100, 512, 4_096, 5_000, 50_000, clean.len() / 2, clean.len() - 1] {
        let error = refusal(&clean[..len]).await;
        assert!(matches!(error, OpenError::Damaged { .. }), "{len} bytes: {error}");
    }
    for garbage in [9..4_096, 64..320, 4_096..clean.len()] {
        let mut bytes = clean.clone();
        let noise = (0..).map(|n| task(n).chance(1, 1) as u8);
        bytes[garbage.clone()].iter_mut().zip(noise).for_each(|(byte, n)| *byte = n);
        let error = refusal(&bytes).await;
        assert!(!matches!(error, OpenError::Io { .. }), "{garbage:?}: {error}");
    }
}

#[tokio::test]
async fn a_file_whose_making_was_cut_short_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    let header = [&[0; 9][..], &[9; 300], &[0; 9_000]].concat();
    let torn = [&b"redb\x1A\0"[..], &header[6..]].concat();
    for bytes in [vec![], vec![0; 100_000], header, torn] {
        fs::write(&path, bytes).unwrap();
        let store = open(&path).await.unwrap();
        assert_eq!(store.load(run(1), None).await, Ok(None));
        store.close().await;
    }
}

#[tokio::test]
async fn a_store_that_is_open_elsewhere_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    let first = open(&path).await.unwrap();
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    first.close().await;
    open(&path).await.unwrap().close().await;
}

#[tokio::test]
async fn a_missing_folder_and_a_folder_in_its_place_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("no/such/runs.redb"), folder.path().to_owned()] {
        let error = open(&path).await.unwrap_err();
        assert!(matches!(error, OpenError::Io { .. }), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()));
    }
}

#[tokio::test]
async fn another_database_of_redb_is_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    let db = redb::Database::create(&path).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(redb::TableDefinition::<u64, u64>::new("theirs")).unwrap().insert(1, 2).unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = open(&path).await.unwrap_err();
    assert!(matches!(&error, OpenError::Foreign { why, .. } if why.contains("theirs")), "{error}");
}

#[tokio::test]
async fn a_newer_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.redb");
    open(&path).await.unwrap().close().await;
    let db = redb::Database::create(&path).unwrap();
    let txn = db.begin_write().unwrap();
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("meta");
    let value = 2_u32.to_be_bytes();
    let sum = crc32c::crc32c(&[b"meta", &b"format"[..], &value].concat());
    let stored = [&sum.to_le_bytes()[..], &value].concat();
    txn.open_table(table).unwrap().insert(&b"format"[..], &stored[..]).unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
}
