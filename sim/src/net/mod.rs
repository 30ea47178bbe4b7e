//! The simulated network: a byte-level fault shim around madsim's TCP.
//!
//! Decides which bytes pass between two nodes, in which pieces and when, and how a connection ends.
//! Everything follows from a [`NetPlan`] and the seed. Must never know HTTP, stores or what the
//! bytes mean. To add a fault, add a variant to [`Effect`], say in [`Net`] where it takes effect,
//! count it there with [`FaultKind`](crate::fault::FaultKind), and add a row to
//! `sim/tests/world/net_faults.rs`.
//!
//! Where it differs from madsim, and why:
//! - a write is sent at once, in pieces, as a kernel would: madsim waits for a flush;
//! - faults that hold bytes back (partition, stall, delay) act at the reader; writers never notice;
//! - a connection ends at a byte position: the reader first gets every byte before it;
//! - the stream of a dead [`Incarnation`](crate::incarnation::Incarnation) neither sends nor
//!   closes. Its peer sees silence, and a reset once [`Net::node_restarted`] says that the node is
//!   back. A node that is down refuses connections: its process has ended, but its host still runs.

mod conn;
mod connect;
mod listen;
mod network;
mod plan;
mod stream;

pub use connect::SimConnector;
pub use listen::SimListener;
pub use network::Net;
pub use plan::{Direction, Effect, NetFault, NetPlan, Which, Window};
pub use stream::{Breaker, ShimStream};
