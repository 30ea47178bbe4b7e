//! How long runs are kept: archiving, pruning.

use std::sync::Arc;

use super::node::Node;
use super::{CommandError, Engine, World};
use crate::run::RunId;
use crate::store::{Archived, Prune, Store, StoreError};
use crate::time::Nanos;

/// The most runs looked at in one transaction.
const BATCH: usize = 256;
/// The longest and shortest pause between two rounds.
const PAUSES: (Nanos, Nanos) = (Nanos::from_secs(60), Nanos::from_secs(3_600));

/// How long ended runs are kept.
///
/// Pruning removes a run's events, snapshot, results, dead letters and submission key. Choose
/// `older_than` longer than a submission may be delayed: a repeated request that arrives after its run
/// was pruned starts a new run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Runs that ended at least this long ago, by the store's clock, are removed.
    pub older_than: Nanos,
    /// Whether only archived runs are removed.
    pub archived_only: bool,
    /// Whether a run is removed although it has open dead letters.
    pub with_letters: bool,
}

impl Retention {
    /// Removes every run that ended so long ago, unless it has open dead letters.
    #[must_use]
    pub fn older_than(length: impl Into<Nanos>) -> Self {
        Self { older_than: length.into(), archived_only: false, with_letters: false }
    }
}

impl<W: World> Engine<W> {
    /// Archives a run that has ended or is deactivated: recovery and claiming skip it; it
    /// stays readable. Repeating it does nothing. [`Engine::activate`] undoes it.
    ///
    /// # Errors
    /// [`CommandError::NotAtRest`] where it has work left.
    pub async fn archive(&self, run: RunId) -> Result<(), CommandError> {
        let node = self.node();
        match node.until_answered(|| node.store.archive(run)).await? {
            Archived::Done { .. } => Ok(()),
            Archived::Active => Err(CommandError::NotAtRest(run)),
            Archived::Unknown => Err(CommandError::UnknownRun(run)),
        }
    }

    /// Removes old runs now, in bounded batches, and returns their ids.
    ///
    /// # Errors
    /// When the store is damaged. What was removed before stays so.
    pub async fn prune(&self, retention: Retention) -> Result<Vec<RunId>, CommandError> {
        Ok(prune(self.node(), retention).await?)
    }
}

async fn prune<W: World>(node: &Node<W>, retention: Retention) -> Result<Vec<RunId>, StoreError> {
    let Retention { older_than, archived_only, with_letters } = retention;
    let (mut after, mut gone) = (None, Vec::new());
    loop {
        let batch = Prune { after, limit: BATCH, older_than, archived_only, with_letters };
        let pruned = node.until_answered(|| node.store.prune(batch)).await?;
        gone.extend(pruned.runs);
        after = pruned.next;
        if after.is_none() {
            return Ok(gone);
        }
    }
}

/// Prunes at intervals.
pub(super) async fn retain<W: World>(node: Arc<Node<W>>, retention: Retention) {
    let pause = Nanos::new(retention.older_than.get() / 10).clamp(PAUSES.0, PAUSES.1);
    loop {
        match prune(&node, retention).await {
            Ok(gone) if gone.is_empty() => {}
            Ok(gone) => tracing::info!(runs = gone.len(), "old runs were pruned"),
            Err(error) => tracing::warn!(%error, "old runs could not be pruned"),
        }
        node.sleep(pause).await;
    }
}
