//! How a lane takes in what other nodes have written.

use std::sync::Arc;

use bytes::Bytes;

use super::{Lane, LaneError};
use crate::engine::World;
use crate::engine::restore::extend;
use crate::store::Tail;

impl<W: World> Lane<W> {
    /// Reads what other nodes have written since.
    pub(super) async fn refresh(&mut self) -> Result<(), LaneError> {
        let run = self.state.id();
        let loaded = self.node.load(run, Some(self.state.version())).await?;
        let loaded = loaded.ok_or(LaneError::Missing(run))?;
        if loaded.snapshot.is_none() {
            return self.catch_up(&loaded.tail);
        }
        self.reload().await
    }

    /// Starts again from the stored state: the events in between are compacted away.
    pub(super) async fn reload(&mut self) -> Result<(), LaneError> {
        *self = Self::load(Arc::clone(&self.node), self.state.id()).await?;
        self.node.call_off_ended(&self.state);
        Ok(())
    }

    /// Applies the events that another node committed first.
    pub(super) fn catch_up(&mut self, tail: &Tail) -> Result<(), LaneError> {
        let first = self.state.version();
        extend(&mut self.state, tail)?;
        self.tail_bytes += tail.events.iter().map(Bytes::len).sum::<usize>();
        tracing::debug!(run = %self.state.id(), from = first.0, "another node wrote first");
        self.node.news.notify(self.state.id());
        self.node.call_off_ended(&self.state);
        Ok(())
    }
}
