//! A store behind the simulated network: [`serve`] runs at the store's node, [`RemoteStore`] at the
//! others.
//!
//! Decides how a request to a store crosses the network and what a lost request or answer means for
//! the caller. Must never know what a store keeps: it passes requests and answers on. To add a fault,
//! add a variant to [`StoreEffect`] and apply it in `serve.rs`. A new method of
//! [`Store`](retrial::store::Store) needs only its name in [`StoreOp`].
//!
//! If the first byte of a request may have left and no answer arrives in time, the caller gets
//! [`StoreError::Unknown`](retrial::store::StoreError::Unknown); if the request never left, it gets
//! [`StoreError::NotDone`](retrial::store::StoreError::NotDone). A call that times out closes its
//! connection, because the peer may be dead and silent.

mod client;
mod link;
mod plan;
mod protocol;
mod serve;

pub use client::RemoteStore;
pub use plan::{StoreEffect, StoreFault, StoreFaults, StoreOp, StorePlan};
pub use serve::serve;
