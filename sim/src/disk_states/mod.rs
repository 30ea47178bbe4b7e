//! Every state that a power failure may leave of an embedded store's disk, within bounds, each
//! opened and judged.
//!
//! Decides which states there are, and what the store's documentation demands in each. Must never
//! know how a store keeps its records. To add a request to the workload, add a [`Call`], its line
//! in the model and its place in the script. To add a kind of state, add a [`Surviving`].
//!
//! A workload runs once on the real redb store over the simulated disk, and every disk call is
//! recorded. The power then fails in the middle of each call (a write is made, a sync has made
//! nothing durable yet) and at the end:
//!
//! - of the changes that are not durable the newest eight (`window`) are kept in every subset, all
//!   older ones kept, and all of them lost;
//! - each write of the window is torn before each of its sectors but the first, its head kept and
//!   its tail kept, while all other changes are kept, while all are lost, and while those before it
//!   are kept and those after it lost.
//!
//! A change of length counts as a change and is not torn. Not covered are: several torn writes at
//! once, a write with lost or kept sectors in its middle, a torn write together with any subset of
//! the others, subsets of the changes older than the window, and a second power failure while the
//! store opens. Whole simulated worlds draw these at random.
//!
//! States with equal bytes at the same position of the workload are judged once. In each state the
//! store must open without a panic and without a report of damage. It must hold every acknowledged
//! step byte for byte, and each call of the step in flight whole or not at all. Rows, phases and
//! snapshots must follow from the events. It must accept a new run, and its guards must still hold
//! attempts back. It must answer repeated commits as the seam demands. All of that must hold when
//! it is opened once more.

mod commit_builder;
mod digests;
mod disk_trace;
mod judge;
mod model;
mod report;
mod script;
mod states;
mod walk;

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use madsim::runtime::Handle;
use redb::StorageBackend;
use retrial::store::RedbStore;
use retrial::time::Nanos;

pub use self::commit_builder::NotRecorded;
pub use self::disk_trace::{DiskTrace, Effect, Op, Recorded, Recording};
pub use self::model::{AnsweredCall, Call, Shown, ShownRun};
pub use self::report::{Breach, Counts, Report};
pub use self::script::Length;
pub use self::states::{Others, Part, Surviving, all};

use self::commit_builder::CommitBuilder;
use self::judge::judge;
use self::walk::{State, walk};
use crate::disk::{DiskPlan, SimDisk};
use crate::incarnation::Incarnation;
use crate::records::Records;
use crate::runtime::{DiskLatency, PollCounter, RuntimePlan, SimRuntime, run_seed};
use crate::sync::lock;

/// Every subset of so many newest changes is tried, unless set.
pub const WINDOW: usize = 8;
/// The largest window: 65,536 subsets a disk call.
pub const LARGEST_WINDOW: usize = 16;

/// The simulated time and the polls that one workload or one judgement may take.
const TIME: Nanos = Nanos::from_secs(1_000_000);
const POLLS: u64 = 10_000_000;

/// Does the workload on an empty disk that `wrap` may spoil.
///
/// # Errors
/// When the store answers otherwise than it does on a disk without faults.
pub fn record<B: StorageBackend>(
    length: Length,
    wrap: impl Fn(Recorded) -> B + Clone + Send + Sync + 'static,
) -> Result<DiskTrace, NotRecorded> {
    let recording = Recording::default();
    let written = recording.clone();
    let worked = run_seed(0, TIME, move || async move {
        let runtime = runtime();
        let disk = SimDisk::new("disk", DiskPlan::default(), &Records::new(false, 0));
        let open = async || {
            let (disk, incarnation) = (disk.clone(), runtime.incarnation().clone());
            let (recording, wrap) = (recording.clone(), wrap.clone());
            let backend =
                move || Ok(wrap(Recorded::new(disk.open(&incarnation), recording.clone())));
            let opened = RedbStore::open_with_backend(runtime.clone(), "the disk", backend).await;
            opened.map_err(|error| NotRecorded(error.to_string()))
        };
        let pen = CommitBuilder::new(open().await?, runtime.clone(), recording.clone());
        script::work(pen, length, open).await
    });
    worked.unwrap_or_else(|panic| Err(NotRecorded(panic.to_string())))?;
    Ok(written.trace())
}

/// A runtime on a fresh node.
fn runtime() -> SimRuntime {
    let (node, incarnation) =
        (Handle::current().create_node().name("n").build(), Incarnation::new("n", 0));
    let records = Records::new(false, POLLS);
    let (plan, poll_counter) = (RuntimePlan::default(), PollCounter::default());
    SimRuntime::new(&incarnation, node, &plan, &poll_counter, &DiskLatency::default(), &records)
}

/// How many states `trace`'s disk may be left in, none of them judged.
#[must_use]
pub fn count(trace: &DiskTrace, window: usize) -> Counts {
    walk(trace, window.min(LARGEST_WINDOW), |_| ())
}

/// Judges every distinct state that `trace`'s disk may be left in, on `jobs` threads. `tell` is
/// called after each.
#[must_use]
pub fn examine(
    trace: &DiskTrace,
    window: usize,
    jobs: NonZeroUsize,
    tell: impl Fn() + Sync,
) -> Report {
    let trace = Arc::new(trace.clone());
    // A bound, so that states don't pile up before they are judged.
    let (send, receive) = sync_channel(jobs.get() * 4);
    let receive = Mutex::new(receive);
    let (counts, mut breaches) = std::thread::scope(|scope| {
        let judge = || scope.spawn(|| judged(&trace, &receive, &tell));
        let judges: Vec<_> = (0..jobs.get()).map(|_| judge()).collect();
        let mut number = 0_u64;
        let counts = walk(&trace, window.min(LARGEST_WINDOW), |state| {
            // The judges are there until the sender is gone.
            let _ = send.send((number, state));
            number += 1;
        });
        drop(send);
        let found = judges.into_iter().filter_map(|judge| judge.join().ok()).flatten();
        (counts, found.collect::<Vec<_>>())
    });
    breaches.sort_by_key(|(number, _)| *number);
    Report { counts, breaches: breaches.into_iter().map(|(_, breach)| breach).collect() }
}

/// Judges states until no more come, and gives what is wrong with them, each with its number.
fn judged(
    trace: &Arc<DiskTrace>,
    states: &Mutex<Receiver<(u64, State)>>,
    tell: &impl Fn(),
) -> Vec<(u64, Breach)> {
    let next = || lock(states).recv();
    let mut breaches = Vec::new();
    while let Ok((number, State { op, left, crash_state })) = next() {
        let trace = Arc::clone(trace);
        let verdict =
            run_seed(0, TIME, move || async move { judge(&runtime(), &trace, crash_state).await });
        if let Err(why) = verdict.unwrap_or_else(|panic| Err(panic.to_string())) {
            breaches.push((number, Breach { op, left, why }));
        }
        tell();
    }
    breaches
}
