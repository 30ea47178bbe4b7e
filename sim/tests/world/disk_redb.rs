//! Real redb on the simulated disk: a crash at every disk call, EIO at every disk call, and disks
//! that must be found out. Promise 5 below the store: nothing acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io;
use std::ops::Bound;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};

use redb::{
    BackendError, Builder, Database, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition,
};
use retrial::runtime::Runtime as _;
use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::disk::{
    CrashOutcome, DiskHandle, DiskPlan, FailedSync, Image, OpAt, OpKind, SimDisk,
};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::node::{NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{RuntimePlan, SimRuntime, run_seed};
use retrial_sim::unstable::trace::Fingerprint;

const ITEMS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("items");
/// One item a commit, each of several sectors.
const COMMITS: u32 = 6;
/// The database is closed and opened again before this commit.
const REOPENED: u32 = 4;

fn item(i: u32) -> Vec<u8> {
    vec![u8::try_from(i + 1).unwrap(); 900 + 1_000 * i as usize]
}

/// How far a workload came: commits begun, and commits acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    begun: u32,
    acked: u32,
}

/// Opens or creates. redb refuses a file whose creation a crash cut short: it has a length and no
/// magic number yet. Nothing can have been acknowledged from it, so it is emptied first.
fn open(backend: impl StorageBackend) -> Result<Database, redb::Error> {
    const MAGIC: usize = 9;
    let len = backend.len()?;
    let mut magic = [0; MAGIC];
    if len >= MAGIC as u64 {
        backend.read(0, &mut magic)?;
    }
    if len > 0 && magic == [0; MAGIC] {
        backend.set_len(0)?;
    }
    Ok(Builder::new().create_with_backend(backend)?)
}

fn commit(db: &Database, i: u32) -> Result<(), redb::Error> {
    let write = db.begin_write()?;
    write.open_table(ITEMS)?.insert(i, item(i).as_slice())?;
    write.commit()?;
    Ok(())
}

fn workload<B: StorageBackend>(
    backend: impl Fn() -> B,
    progress: &mut Progress,
) -> Result<(), redb::Error> {
    let mut db = open(backend())?;
    for i in 0..COMMITS {
        if i == REOPENED {
            drop(db);
            db = open(backend())?;
        }
        progress.begun = i + 1;
        commit(&db, i)?;
        progress.acked = i + 1;
    }
    Ok(())
}

/// The items 0, 1, 2, … that the database holds; an error when one is wrong or out of line.
fn held(db: &Database) -> Result<u32, String> {
    let read = db.begin_read().map_err(|e| e.to_string())?;
    let table = match read.open_table(ITEMS) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(0),
        Err(e) => return Err(e.to_string()),
    };
    let mut count = 0;
    for row in table.iter().map_err(|e| e.to_string())? {
        let (key, value) = row.map_err(|e| e.to_string())?;
        if key.value() != count || value.value() != item(count) {
            return Err(format!("item {} is wrong", key.value()));
        }
        count += 1;
    }
    Ok(count)
}

/// Opens what a crash left: everything acknowledged is there, nothing that was never begun, and the
/// database takes the next commit.
fn survives(bytes: Vec<u8>, progress: Progress) -> Result<(), String> {
    // redb panics on some damage.
    catch_unwind(|| survives_or_panics(bytes, progress))
        .unwrap_or_else(|_| Err("panics".to_owned()))
}

fn survives_or_panics(bytes: Vec<u8>, progress: Progress) -> Result<(), String> {
    let disk = SimDisk::holding(bytes, "n", DiskPlan::default(), &Records::new(false, 0));
    let db =
        open(disk.open(&Incarnation::new("n", 1))).map_err(|e| format!("does not open: {e}"))?;
    let count = held(&db)?;
    if count < progress.acked || count > progress.begun {
        return Err(format!("{count} items after {progress:?}"));
    }
    commit(&db, count).map_err(|e| format!("takes no commit: {e}"))?;
    if held(&db)? == count + 1 { Ok(()) } else { Err("the next commit is not there".to_owned()) }
}

/// Runs the workload with a power failure in the middle of disk call `op`.
fn crashed_at<B: StorageBackend>(op: u64, wrap: impl Fn(DiskHandle) -> B) -> (Image, Progress) {
    let disk = SimDisk::new("n", DiskPlan::default(), &Records::new(false, 0));
    let incarnation = Incarnation::new("n", 0);
    let image = Arc::new(Mutex::new(Image::default()));
    disk.at_op(op, {
        let (disk, incarnation, image) = (disk.clone(), incarnation.clone(), Arc::clone(&image));
        move || {
            incarnation.end();
            *image.lock().unwrap() = disk.image();
        }
    });
    let mut progress = Progress::default();
    let ended = workload(|| wrap(disk.open(&incarnation)), &mut progress);
    assert!(ended.is_err() || incarnation.is_over(), "the crash at call {op} never came");
    let image = image.lock().unwrap().clone();
    (image, progress)
}

fn outcomes(unsynced: usize) -> Vec<CrashOutcome> {
    let mut outcomes = vec![CrashOutcome::KeepAll, CrashOutcome::LoseAll];
    outcomes.extend((0..6).map(CrashOutcome::Drawn));
    outcomes.extend((0..unsynced).flat_map(|n| {
        [CrashOutcome::KeepFirst(n), CrashOutcome::KeepOnly(n), CrashOutcome::LoseOnly(n)]
    }));
    outcomes
}

/// Crashes tried, and those among them that lost or tore a write so that it shows.
#[derive(Debug, Default)]
struct Tried {
    crashes: u32,
    lossy: u32,
    tearing: u32,
}

/// Every crash of the workload whose aftermath redb does not survive.
fn broken_crashes(tried: &mut Tried) -> Vec<String> {
    let mut broken = Vec::new();
    for op in 0..ops_of(|disk, incarnation| disk.open(incarnation)) {
        let (image, progress) = crashed_at(op, |handle| handle);
        for outcome in outcomes(image.unsynced().len()) {
            let left = image.after(outcome);
            tried.crashes += 1;
            tried.lossy += u32::from(left.lost > 0);
            tried.tearing += u32::from(left.torn > 0);
            if let Err(why) = survives(left.bytes, progress) {
                broken.push(format!("call {op}, {outcome:?}: {why}"));
            }
        }
    }
    broken
}

fn ops_of<B: StorageBackend>(open: impl Fn(&SimDisk, &Incarnation) -> B) -> u64 {
    let disk = SimDisk::new("n", DiskPlan::default(), &Records::new(false, 0));
    let incarnation = Incarnation::new("n", 0);
    workload(|| open(&disk, &incarnation), &mut Progress::default()).unwrap();
    disk.ops()
}

#[test]
fn redb_survives_a_crash_at_every_disk_call() {
    let mut tried = Tried::default();
    let broken = broken_crashes(&mut tried);
    assert!(tried.crashes > 500 && tried.lossy > 200 && tried.tearing > 100, "{tried:?}");
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

/// A disk that says that it has synced and has not.
#[derive(Debug)]
struct Liar(DiskHandle);

impl StorageBackend for Liar {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

#[test]
fn the_crash_test_finds_out_a_disk_whose_syncs_do_nothing() {
    let (image, progress) =
        crashed_at(ops_of(|disk, incarnation| Liar(disk.open(incarnation))) - 1, Liar);
    assert_eq!(progress.acked, COMMITS);
    assert!(survives(image.after(CrashOutcome::KeepAll).bytes, progress).is_ok());
    let found =
        outcomes(0).into_iter().filter(|f| survives(image.after(*f).bytes, progress).is_err());
    assert!(found.count() >= 5);
}

/// Runs the workload on a disk with this plan until it fails, then opens the disk again in the same
/// life, without a crash; then cuts the power after all. True when the fault struck at all.
fn after_eio(plan: DiskPlan) -> bool {
    let records = Records::new(false, 0);
    let disk = SimDisk::new("n", plan.clone(), &records);
    let incarnation = Incarnation::new("n", 0);
    let mut progress = Progress::default();
    let ended = workload(|| disk.open(&incarnation), &mut progress);
    let struck = records.strikes.counts().contains_key(&FaultKind::Eio);
    assert!(struck || ended.is_ok(), "{plan:?}");
    disk.heal();
    let db =
        open(disk.open(&incarnation)).unwrap_or_else(|e| panic!("{plan:?}: does not open: {e}"));
    let seen = held(&db).unwrap_or_else(|e| panic!("{plan:?}: {e}"));
    assert!((progress.acked..=progress.begun).contains(&seen), "{plan:?}: {seen} of {progress:?}");
    incarnation.end();
    // What was seen after the reopening counts as acknowledged: a resent commit gets that answer.
    let progress = Progress { acked: seen, begun: progress.begun };
    for outcome in [
        CrashOutcome::LoseAll,
        CrashOutcome::Drawn(1),
        CrashOutcome::Drawn(2),
        CrashOutcome::Drawn(3),
        CrashOutcome::Drawn(4),
    ] {
        let left = disk.image().after(outcome).bytes;
        survives(left, progress).unwrap_or_else(|e| panic!("{plan:?}, then {outcome:?}: {e}"));
    }
    struck
}

#[test]
fn redb_opens_again_after_eio_at_any_disk_call() {
    let failed_syncs = [
        FailedSync::Settled(CrashOutcome::KeepAll),
        FailedSync::Settled(CrashOutcome::LoseAll),
        FailedSync::Settled(CrashOutcome::Drawn(7)),
    ];
    let ops = ops_of(|disk, incarnation| disk.open(incarnation));
    for op in 0..ops {
        let eio = vec![OpAt::Number(op)];
        assert!(after_eio(DiskPlan { eio, ..DiskPlan::default() }), "call {op}");
    }
    let syncs = |nth| vec![OpAt::Nth(OpKind::Sync, nth)];
    let mut nth = 0;
    while after_eio(DiskPlan { eio: syncs(nth), ..DiskPlan::default() }) {
        for failed_sync in failed_syncs {
            after_eio(DiskPlan { eio: syncs(nth), failed_sync, ..DiskPlan::default() });
        }
        nth += 1;
    }
    assert!(nth > u64::from(COMMITS));
}

#[test]
fn two_live_handles_never_share_the_file() {
    let disk = SimDisk::new("n", DiskPlan::default(), &Records::new(false, 0));
    let (old, new) = (Incarnation::new("n", 0), Incarnation::new("n", 1));
    let first = open(disk.open(&old)).unwrap();
    assert!(matches!(open(disk.open(&old)), Err(redb::Error::DatabaseAlreadyOpen)));
    old.end();
    let second = open(disk.open(&new)).unwrap();
    commit(&second, 0).unwrap();
    drop(first);
    assert!(matches!(open(disk.open(&new)), Err(redb::Error::DatabaseAlreadyOpen)));
    drop(second);
    assert_eq!(held(&open(disk.open(&new)).unwrap()), Ok(1));
}

#[test]
fn a_dead_life_closes_nothing_and_writes_nothing() {
    let records = Records::new(true, 0);
    let disk = SimDisk::new("n", DiskPlan::default(), &records);
    let incarnation = Incarnation::new("n", 0);
    let db = open(disk.open(&incarnation)).unwrap();
    commit(&db, 0).unwrap();
    let (image, ops, print) = (disk.image(), disk.ops(), records.trace.fingerprint());
    incarnation.end();
    assert!(commit(&db, 1).is_err());
    drop(db);
    assert_eq!((disk.image(), disk.ops(), records.trace.fingerprint()), (image, ops, print));
}

#[test]
fn the_same_workload_leaves_the_same_fingerprint() {
    let run = |seed| {
        let records = Records::new(false, 0);
        let disk = SimDisk::new("n", DiskPlan::default(), &records);
        let incarnation = Incarnation::new("n", 0);
        workload(|| disk.open(&incarnation), &mut Progress::default()).unwrap();
        incarnation.end();
        disk.crash(CrashOutcome::Drawn(seed));
        records.trace.fingerprint()
    };
    assert_eq!(run(1), run(1));
}

/// Runs redb on a node that crashes just before the given polls, until every item is there. Gives
/// the fingerprint, the lives, and how often an incarnation began with an unacknowledged item.
fn on_a_node(polls: Vec<u64>) -> (Fingerprint, u32, u32) {
    let ran = run_seed(1, Nanos::from_secs(600), move || async move {
        let records = Records::new(false, 100_000);
        let latency = Nanos::from_millis(2);
        let plan =
            DiskPlan { sync_latency: latency, write_latency: latency, ..DiskPlan::default() };
        let disk = SimDisk::new("n", plan, &records);
        // Acknowledged items, and lives that began with more.
        let seen = Arc::new(Mutex::new((0, 0)));
        let boot = {
            let (disk, seen) = (disk.clone(), Arc::clone(&seen));
            move |runtime: SimRuntime, incarnation: Incarnation| {
                commit_all(runtime, incarnation, disk.clone(), Arc::clone(&seen))
            }
        };
        let plan = RuntimePlan::default();
        let parts = NodeParts { name: "n".to_owned(), ip: None, plan, disk: Some(disk) };
        let node = SimNode::start(parts, &records, boot);
        for poll in polls {
            node.crash_at_poll(poll, CrashOutcome::Drawn(poll), Nanos::ZERO);
        }
        madsim::time::sleep(Nanos::from_secs(300).into()).await;
        node.stop().await;
        let (acked, unheard) = *seen.lock().unwrap();
        assert_eq!((acked, records.watchdog.findings()), (COMMITS, vec![]));
        (records.trace.fingerprint(), node.number() + 1, unheard)
    });
    ran.unwrap_or_else(|panic| panic!("{panic}"))
}

async fn commit_all(
    runtime: SimRuntime,
    incarnation: Incarnation,
    disk: SimDisk,
    seen: Arc<Mutex<(u32, u32)>>,
) {
    let Ok(Ok(db)) = runtime.blocking(move || open(disk.open(&incarnation))).await else { return };
    let db = Arc::new(db);
    let held = held(&db).unwrap();
    {
        let mut seen = seen.lock().unwrap();
        assert!(
            (seen.0..=seen.0 + 1).contains(&held),
            "{held} items after {} acknowledged",
            seen.0
        );
        seen.1 += u32::from(held > seen.0);
        seen.0 = held;
    }
    for i in held..COMMITS {
        let db = Arc::clone(&db);
        if !matches!(runtime.blocking(move || commit(&db, i)).await, Ok(Ok(()))) {
            return;
        }
        seen.lock().unwrap().0 = i + 1;
    }
}

#[test]
fn redb_on_a_node_survives_a_crash_at_any_poll() {
    let mut unheard = 0;
    for poll in 0..25 {
        let (print, lives, more) = on_a_node(vec![poll]);
        assert_eq!((print, lives, more), on_a_node(vec![poll]), "poll {poll}");
        assert_eq!(lives, 2, "poll {poll}");
        unheard += more;
    }
    assert!(unheard > 3, "a crash between a commit and its answer must happen: {unheard}");
    assert_eq!(on_a_node((0..60).step_by(4).collect()).1, 16);
}
