//! Random scripts over the memory store, the redb store and a naive model written from the seam's
//! words: all three answer alike, and redb still does after it was closed and opened.
#![cfg(feature = "redb")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::store_model;
use crate::store_world;

use proptest::prelude::*;
use retrial::store::{Answer, MemoryStore, RedbStore};
use retrial::time::{Nanos, Timestamp};
use store_model::naive::Naive;
use store_model::script::{Op, Script, ask, untimed};
use store_world::{Disk, Turned};

const START: u64 = 1_000_000;

async fn check(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let (runtime, disk) = (Turned::at(START), Disk::default());
    let memory = MemoryStore::starting_at(runtime.clone(), Timestamp::from_nanos(START));
    let open = || {
        let disk = disk.clone();
        RedbStore::open_with_backend(runtime.clone(), "disk", move || Ok(disk.clone()))
    };
    let redb = open().await.unwrap();
    let mut naive = Naive::new(Timestamp::from_nanos(START));
    let mut script = Script::default();
    for op in ops {
        // Whole microseconds, so that no two rows become due at the same instant by chance.
        let turned = Nanos::new(op.turn * 1_000);
        runtime.turn(turned);
        naive.now = naive.now.after(turned);
        let call = script.call(op);
        let from_memory = ask(&memory, call.clone()).await;
        let from_redb = ask(&redb, call.clone()).await;
        prop_assert_eq!(&from_memory, &from_redb, "memory, redb: {:?}", call);
        let from_naive = naive.ask(&call, &from_memory);
        prop_assert_eq!(&from_memory, &from_naive, "memory, naive: {:?}", call);
        script.saw(&call, &from_memory);
    }
    redb.close().await;
    let redb = open().await.unwrap();
    for call in Script::everything() {
        let from_naive = naive.ask(&call, &Ok(Answer::Trim));
        let from_redb = ask(&redb, call.clone()).await;
        // The clock may have fallen back to the last commit's time.
        prop_assert_eq!(untimed(from_redb), untimed(from_naive), "reopened: {:?}", call);
    }
    redb.close().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn the_stores_answer_as_the_naive_model(ops in prop::collection::vec(Op::any(), 1..60)) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(check(ops))?;
    }
}
