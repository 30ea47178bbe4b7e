//! A disk that fails while a store is opened: the error names the disk, and does not say that the
//! store is damaged, and nothing of it is. Promise 5.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use retrial::run::{Digest, RunId};
use retrial::store::{Create, OpenError, RedbStore, RunPhase, Store};
use retrial::time::Nanos;
use retrial_sim::unstable::disk::{DiskPlan, OpAt, SimDisk};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::node::{NodeParts, SimNode};
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{RuntimePlan, SimRuntime, run_seed};

/// What `program` gives on a node of its own.
fn on_a_node<T, F>(program: impl Fn(SimRuntime, Incarnation) -> F + Send + Sync + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let ran = run_seed(1, Nanos::from_secs(600), move || async move {
        let answer = Arc::new(Mutex::new(None));
        let parts =
            NodeParts { name: "n".into(), ip: None, plan: RuntimePlan::default(), disk: None };
        let node = SimNode::start(parts, &Records::new(false, 1_000_000), {
            let answer = Arc::clone(&answer);
            move |runtime, incarnation| {
                let (answer, future) = (Arc::clone(&answer), program(runtime, incarnation));
                async move { *answer.lock().unwrap() = Some(future.await) }
            }
        });
        while node.live_tasks() > 0 {
            madsim::time::sleep(Nanos::from_millis(10).into()).await;
        }
        node.stop().await;
        answer.lock().unwrap().take().unwrap()
    });
    ran.unwrap_or_else(|panic| panic!("{panic}"))
}

async fn open(
    runtime: SimRuntime,
    disk: &SimDisk,
    incarnation: &Incarnation,
) -> Result<RedbStore, OpenError> {
    let (disk, incarnation) = (disk.clone(), incarnation.clone());
    RedbStore::open_with_backend(runtime, "the disk", move || Ok(disk.open(&incarnation))).await
}

fn create(n: u64) -> Create {
    Create {
        run: RunId::from_random(n, n),
        key: Some(format!("key {n}")),
        digest: Digest::of(b"w"),
        id: Default::default(),
        workflow: "w".to_owned(),
        events: vec![Bytes::from(vec![b'e'; 300])],
        queue: Vec::new(),
        phase: RunPhase::Running,
        redrives: None,
        fields: Default::default(),
    }
}

/// The bytes of a store that was cut off in the middle of its work.
fn image() -> Vec<u8> {
    on_a_node(|runtime, incarnation| async move {
        let disk = SimDisk::new("n", DiskPlan::default(), &Records::new(false, 0));
        let store = open(runtime, &disk, &incarnation).await.unwrap();
        for n in 0..5 {
            store.create(create(n)).await.unwrap();
        }
        disk.image().durable().to_vec()
    })
}

/// Opens the store with EIO at the disk call `at`: what that gave, and how many runs it has when it
/// is opened once more.
fn opened(image: &Arc<Vec<u8>>, at: Option<u64>) -> (Option<OpenError>, u64, usize) {
    let image = Arc::clone(image);
    on_a_node(move |runtime, incarnation| {
        let image = Arc::clone(&image);
        async move {
            let eio = at.map(OpAt::Number).into_iter().collect();
            let plan = DiskPlan { eio, ..DiskPlan::default() };
            let records = Records::new(false, 0);
            let disk = SimDisk::holding(image.to_vec(), "n", plan, &records);
            let first = open(runtime.clone(), &disk, &incarnation).await;
            let calls = disk.ops();
            disk.heal();
            let (error, store) = match first {
                Ok(store) => (None, store),
                Err(error) => (Some(error), open(runtime, &disk, &incarnation).await.unwrap()),
            };
            let heads = store.heads(None, 100).await.unwrap();
            (error, calls, heads.runs.len())
        }
    })
}

#[test]
fn a_failing_disk_is_never_called_a_damaged_store() {
    let image = Arc::new(image());
    let (error, calls, runs) = opened(&image, None);
    assert!(error.is_none() && runs == 5);
    let mut failed = 0;
    for at in 0..calls {
        let (error, _, runs) = opened(&image, Some(at));
        let told = matches!(error, None | Some(OpenError::Io { .. }));
        assert!(told, "EIO at call {at} of {calls}: {error:?}");
        assert_eq!(runs, 5, "after EIO at call {at}");
        failed += u64::from(error.is_some());
    }
    // Closing what is not needed may fail without harm.
    assert!(failed + 3 >= calls && failed > 10, "{failed} of {calls}");
}
