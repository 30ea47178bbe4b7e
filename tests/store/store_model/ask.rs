//! Asks a store.

use retrial::store::Store;

use super::script::{Answer, Call};

pub(crate) async fn ask(store: &impl Store, call: Call) -> Answer {
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
