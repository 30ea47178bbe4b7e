//! Random scripts over the memory store, the redb store and a naive model written from the seam's
//! words: all three answer alike, and redb still does after it was closed and opened.
#![cfg(feature = "redb")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod store_model {
    pub(crate) mod naive;
    mod naive_guards;
    pub(crate) mod script;
}
mod store_world;

use proptest::prelude::*;
use retrial::store::{MemoryStore, RedbStore, Store};
use retrial::time::{Nanos, Timestamp};
use store_model::naive::Naive;
use store_model::script::{Answer, Call, Op, Script};
use store_world::{Disk, Turned};

const START: u64 = 1_000_000;

async fn ask(store: &impl Store, call: Call) -> Answer {
    match call {
        Call::Create(create) => Answer::of(store.create(create).await.map(Answer::Created)),
        Call::Claim(claim) => Answer::of(store.claim(claim).await.map(Answer::Claimed)),
        Call::Commit(commit) => Answer::of(store.commit(commit).await.map(Answer::Committed)),
        Call::Renew(held) => Answer::of(store.renew(held).await.map(Answer::Renewed)),
        Call::Expired(limit) => Answer::of(store.expired(limit).await.map(Answer::Expired)),
        Call::Load(run, after) => Answer::of(store.load(run, after).await.map(Answer::Loaded)),
        Call::Heads(after, limit) => Answer::of(store.heads(after, limit).await.map(Answer::Heads)),
        Call::Queue(run) => Answer::of(store.queue(run).await.map(Answer::Rows)),
        Call::Trim(run, below) => Answer::of(store.trim(run, below).await.map(Answer::Trimmed)),
        Call::Letters(ask) => Answer::of(store.letters(ask).await.map(Answer::Letters)),
        Call::Letter(id) => Answer::of(store.letter(id).await.map(Answer::Letter)),
        Call::Discard(id, why) => Answer::of(store.discard(id, why).await.map(Answer::Discarded)),
        Call::Archive(run) => Answer::of(store.archive(run).await.map(Answer::Archived)),
        Call::Prune(prune) => Answer::of(store.prune(prune).await.map(Answer::Pruned)),
        Call::List(ask) => Answer::of(store.list(ask).await.map(Answer::Listed)),
        Call::Tally => Answer::of(store.tally().await.map(Answer::Tally)),
        Call::Define(definition) => Answer::of(store.define(definition).await.map(Answer::Defined)),
        Call::Definition(name) => Answer::of(store.definition(name).await.map(Answer::Definition)),
        Call::Definitions(after, limit) => {
            Answer::of(store.definitions(after, limit).await.map(Answer::Definitions))
        }
    }
}

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
        let from_naive = naive.ask(&call, &Answer::Trimmed(()));
        let from_redb = ask(&redb, call.clone()).await;
        // The clock may have fallen back to the last commit's time.
        prop_assert_eq!(from_redb.untimed(), from_naive.untimed(), "reopened: {:?}", call);
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
