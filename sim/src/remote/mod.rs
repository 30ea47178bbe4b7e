//! A store reached over the simulated network: [`serve`] at the store's node, [`RemoteStore`] at
//! the others.
//!
//! Decides how a request to a store crosses the network and what a lost request or answer means for
//! the caller. Must never know what a store keeps: it passes requests and answers on. To add a fault,
//! add a variant to [`StoreEffect`] and apply it in `serve.rs`. A new method of
//! [`Store`](retrial::store::Store) needs only its name in [`StoreOp`].
//!
//! What the caller is told: a request whose first byte may have left and whose answer did not come
//! in time, is [`StoreError::Unknown`](retrial::store::StoreError::Unknown); one that never left is
//! [`StoreError::NotDone`](retrial::store::StoreError::NotDone). A call that runs out of time takes
//! its connection with it, for the peer may be dead and silent.

mod client;
mod link;
mod plan;
mod protocol;
mod serve;

pub use client::RemoteStore;
pub use plan::{StoreEffect, StoreFault, StoreFaults, StoreOp, StorePlan};
pub use serve::serve;
