//! Compiles the engine for the usual worlds, once. In builds that are optimised little a crate takes
//! generic code from the crates beneath it, so that programs with these worlds need not compile the
//! engine again. Optimised builds compile it in each program, whatever is here.

use std::pin::Pin;

use super::{Engine, Submission, World};
#[cfg(feature = "redb")]
use crate::{runtime::TokioRuntime, store::RedbStore};

type Compiled = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a program does with an engine.
async fn used<W: World>(start: impl Future<Output = Engine<W>>, submission: Submission) {
    let engine = start.await;
    if let Ok(handle) = engine.submit(submission).await {
        let _ = handle.outcome().await;
        let _ = handle.result::<serde_json::Value>("").await;
    }
    engine.shutdown().await;
}

/// The engine on tokio with functions, on each embedded store. Nothing calls it.
#[must_use]
pub fn usual_worlds(submission: &Submission) -> Vec<Compiled> {
    Vec::from([
        Box::pin(used(Engine::builder().start(), submission.clone())) as Compiled,
        #[cfg(feature = "redb")]
        Box::pin(on_file(submission.clone())),
    ])
}

#[cfg(feature = "redb")]
async fn on_file(submission: Submission) {
    if let Ok(store) = RedbStore::open(TokioRuntime::current(), "").await {
        used(Engine::builder().store(store).start(), submission).await;
    }
}
