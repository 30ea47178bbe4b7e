//! Opens the disk that a power failure left, and reports what is wrong with it.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use retrial::run::{self, RunId, RunState, TaskId, Waits, queue_of};
use retrial::store::{
    AskLetters, Committed, Created, Discarded, LetterFilter, Loaded, QueueRow, RedbStore, Snapshot,
    Store, StoreError, Tail,
};
use retrial::workflow::StepIx;

use super::commit_builder::{CommitBuilder, NARROW, phase_of};
use super::disk_trace::{DiskTrace, Recording};
use super::model::{AnsweredCall, Call, Model, Shown, ShownRun, token_of};
use super::script::one;
use crate::runtime::SimRuntime;

/// The run that is added to check that the store still works.
const PROBE: u64 = 99;

/// The disk that a power failure left, and the position in the workload.
#[derive(Clone, Debug)]
pub(super) struct CrashState {
    pub(super) bytes: Vec<u8>,
    pub(super) begun: usize,
    pub(super) acked: usize,
}

/// Judges one state of a disk.
pub(super) async fn judge(
    runtime: &SimRuntime,
    trace: &DiskTrace,
    crash_state: CrashState,
) -> Result<(), String> {
    let CrashState { bytes, begun, acked } = crash_state;
    let disk = SharedBackend::holding(&bytes).map_err(|e| e.to_string())?;
    let store = open(runtime, &disk).await?;
    let shown = show(&store).await.map_err(broken)?;
    let (model, landed) = agreed(trace, begun, acked, &shown)?;
    shown.runs.iter().try_for_each(follows)?;
    let store = goes_on(runtime, store, &model).await?;
    sent_again(&store, trace, begun, acked, &model, &landed).await?;
    let before = show(&store).await.map_err(broken)?;
    store.close().await;
    let store = open(runtime, &disk).await?;
    let after = show(&store).await.map_err(broken)?;
    store.close().await;
    if before == after {
        Ok(())
    } else {
        Err(format!("after closing and opening: {}", differ(&after, &before)))
    }
}

fn broken(error: StoreError) -> String {
    error.to_string()
}

async fn open(runtime: &SimRuntime, disk: &SharedBackend) -> Result<RedbStore, String> {
    let disk = disk.clone();
    let opened =
        RedbStore::open_with_backend(runtime.clone(), "what was left", move || Ok(disk.clone()));
    opened.await.map_err(|error| format!("does not open: {error}"))
}

/// Everything that the seam shows of a store.
async fn show(store: &RedbStore) -> Result<Shown, StoreError> {
    let damaged = |what: String| StoreError::Broken(what);
    let heads = store.heads(None, 99).await?;
    if !heads.damaged.is_empty() {
        return Err(damaged(format!("{} runs", heads.damaged.len())));
    }
    let mut runs = Vec::new();
    for head in heads.runs {
        let run = head.run;
        let missing = || damaged(format!("run {run} can't be loaded"));
        let newest = store.load(run, None).await?.ok_or_else(missing)?;
        let whole = store.load(run, Some(run::Version::START)).await?.ok_or_else(missing)?;
        let rows = store.queue(run).await?;
        runs.push(ShownRun { head, newest: parts(newest), whole: parts(whole), rows });
    }
    let ask = AskLetters { after: None, limit: 99, filter: LetterFilter::default() };
    let page = store.letters(ask).await?;
    if !page.damaged.is_empty() {
        return Err(damaged(format!("{} letters", page.damaged.len())));
    }
    let mut letters = Vec::new();
    for head in page.letters {
        letters.extend(store.letter(head.id).await?);
    }
    Ok(Shown { runs, letters })
}

fn parts(loaded: Loaded) -> (Option<Snapshot>, Tail) {
    (loaded.snapshot, loaded.tail)
}

/// The content of the store by the model, and the calls of the step in flight that have landed.
/// Each call without an answer is there whole or not at all.
fn agreed<'t>(
    trace: &'t DiskTrace,
    begun: usize,
    acked: usize,
    shown: &Shown,
) -> Result<(Model, Vec<&'t AnsweredCall>), String> {
    let mut known = Model::default();
    trace.steps.iter().take(acked).flatten().for_each(|made| known.take(made));
    let in_flight = in_flight(trace, begun, acked);
    for some in 0..1_u32 << in_flight.len() {
        let landed: Vec<&AnsweredCall> = in_flight
            .iter()
            .enumerate()
            .filter(|(i, _)| some >> i & 1 == 1)
            .map(|(_, m)| m)
            .collect();
        let mut model = known.clone();
        landed.iter().for_each(|made| model.take(made));
        if model.shown() == *shown {
            return Ok((model, landed));
        }
    }
    Err(format!("after {acked} acknowledged steps: {}", differ(shown, &known.shown())))
}

fn in_flight(trace: &DiskTrace, begun: usize, acked: usize) -> &[AnsweredCall] {
    trace.steps.get(acked).filter(|_| begun > acked).map_or(&[], Vec::as_slice)
}

/// The first difference, for a reader.
fn differ(found: &Shown, expected: &Shown) -> String {
    let ids = |shown: &Shown| {
        shown.runs.iter().map(|r| (r.head.run, r.head.version.0)).collect::<Vec<_>>()
    };
    if ids(found) != ids(expected) {
        return format!("runs and versions {:?}, and should be {:?}", ids(found), ids(expected));
    }
    let runs = found.runs.iter().zip(&expected.runs).find(|(a, b)| a != b);
    if let Some((found, expected)) = runs {
        return format!("{found:?}, and should be {expected:?}");
    }
    format!("letters {:?}, and should be {:?}", found.letters, expected.letters)
}

/// Whether a run's rows and phase follow from its events, and its snapshot from those it folds.
fn follows(shown: &ShownRun) -> Result<(), String> {
    let run = shown.head.run;
    let wrong = |what: String| format!("run {run}: {what}");
    let newest = folded(run, &shown.newest).map_err(wrong)?;
    let whole = folded(run, &shown.whole).map_err(wrong)?;
    let rows: Vec<_> = shown.rows.iter().map(row_of).collect();
    if rows != queue_of(&newest) {
        return Err(wrong(format!("rows {rows:?}, and events owe {:?}", queue_of(&newest))));
    }
    if phase_of(&newest) != shown.head.phase {
        return Err(wrong(format!("the phase is {:?} after these events", shown.head.phase)));
    }
    match run::encode_snapshot(&newest) == run::encode_snapshot(&whole) {
        true => Ok(()),
        false => Err(wrong("snapshot and tail are not what all events fold to".to_owned())),
    }
}

fn row_of(row: &QueueRow) -> (TaskId, u32, Waits) {
    (row.task, row.attempt, token_of(row).map_or(Waits::Due, Waits::Leased))
}

fn folded(run: RunId, (snapshot, tail): &(Option<Snapshot>, Tail)) -> Result<RunState, String> {
    let events = tail.events.iter().map(|bytes| run::decode(bytes)).collect::<Result<Vec<_>, _>>();
    let events = events.map_err(|e| e.to_string())?;
    let Some(snapshot) = snapshot else {
        return RunState::replay(run, &events).map_err(|e| e.to_string());
    };
    let mut state = run::decode_snapshot(&snapshot.state).map_err(|e| e.to_string())?;
    events.iter().try_for_each(|event| state.apply(event)).map_err(|e| e.to_string())?;
    Ok(state)
}

/// The store takes a new run and its commits, and its guards hold back what they must.
async fn goes_on(
    runtime: &SimRuntime,
    store: RedbStore,
    model: &Model,
) -> Result<RedbStore, String> {
    let wrong = |what: String| format!("a new run: {what}");
    let mut pen = CommitBuilder::new(store, runtime.clone(), Recording::default());
    let create = pen.create(PROBE, one().map_err(|e| e.to_string())?, None);
    let create = create.map_err(|e| wrong(e.to_string()))?;
    pen.step(vec![create]).await.map_err(|e| wrong(e.to_string()))?;
    let task = TaskId { step: StepIx(0), item: 0 };
    let (start, _) = pen.start(PROBE, task).await.map_err(|e| wrong(e.to_string()))?;
    let store = pen.store;
    let Call::Commit(start) = start else { return Ok(store) };
    let answer = store.commit(start).await.map_err(broken)?;
    match (&answer, model.is_busy(NARROW)) {
        (Committed::Applied { .. }, false) | (Committed::Held { .. }, true) => Ok(store),
        (_, busy) => Err(wrong(format!("its start is answered {answer:?}; busy: {busy}"))),
    }
}

/// Sends the commits again that may have landed, or if none did, the last one that surely did. A
/// commit that landed gets that answer. One that did not lands now, unless it is a start with a
/// forgotten reservation. A store keeps a writer's newest receipt, so nothing older is sent again.
async fn sent_again(
    store: &RedbStore,
    trace: &DiskTrace,
    begun: usize,
    acked: usize,
    model: &Model,
    landed: &[&AnsweredCall],
) -> Result<(), String> {
    let last = acked.checked_sub(1).filter(|_| landed.is_empty());
    let last = last.and_then(|last| trace.steps.get(last)).into_iter().flatten();
    let in_flight = in_flight(trace, begun, acked);
    let again = last.map(|made| (made, true));
    let again = again.chain(in_flight.iter().map(|made| (made, landed.contains(&made))));
    for (made, is_there) in again {
        if let Some(answer) = resent(store, model, made, is_there).await.map_err(broken)? {
            let there = if is_there { "was there" } else { "was not there" };
            return Err(format!("{}, which {there}, sent again, is answered {answer}", made.call));
        }
    }
    Ok(())
}

/// The answer to a call that is sent again, where it is a wrong one.
async fn resent(
    store: &RedbStore,
    model: &Model,
    made: &AnsweredCall,
    is_there: bool,
) -> Result<Option<String>, StoreError> {
    let answer = match &made.call {
        Call::Create(create) => {
            let answer = store.create(create.clone()).await?;
            (!matches!(answer, Created::New { .. })).then(|| format!("{answer:?}"))
        }
        Call::Commit(commit) => {
            let forgotten = commit.fences.iter().any(|fence| !model.leases(commit.run, fence));
            let answer = store.commit(commit.clone()).await?;
            let is_right = match answer {
                Committed::Already { .. } => is_there,
                Committed::Applied { .. } => !is_there && !forgotten,
                Committed::Fenced { .. } => !is_there && forgotten,
                _ => false,
            };
            (!is_right).then(|| format!("{answer:?}"))
        }
        Call::Discard(id, reason) => {
            let answer = store.discard(*id, reason.clone()).await?;
            (answer != Discarded::Done).then(|| format!("{answer:?}"))
        }
        Call::Renew(_) | Call::Trim(..) | Call::Archive(_) | Call::Prune(_) => None,
    };
    Ok(answer)
}

/// A disk that outlives the databases opened on it.
#[derive(Clone, Debug)]
struct SharedBackend(Arc<InMemoryBackend>);

impl SharedBackend {
    fn holding(bytes: &[u8]) -> io::Result<Self> {
        let disk = InMemoryBackend::new();
        disk.set_len(bytes.len() as u64)?;
        disk.write(0, bytes)?;
        Ok(Self(Arc::new(disk)))
    }
}

impl StorageBackend for SharedBackend {
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
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
