//! The seam to what a step invokes, and its implementations.
//!
//! Decides how an invocation is made and how its answer is read as success or failure. Must never
//! know policies, stores or what happens after. To add a kind of action, implement [`Actions`] or
//! add a branch to [`ActionSet`], and run the conformance tests over it.

mod call;
mod context;
#[cfg(feature = "http")]
mod http;
mod lent;
mod registry;
mod reports;
mod result;
#[cfg(feature = "http")]
mod set;
mod staged;

use std::future::Future;

pub use call::{Call, Cancelled, Canceller, Outcome};
pub use context::Context;
#[cfg(feature = "http")]
pub use http::{Http, HttpActions, Request, Response};
pub use lent::Lent;
pub use registry::Registry;
pub use reports::Reports;
pub use result::MAX_RESULT;
#[cfg(feature = "http")]
pub use set::ActionSet;
pub use staged::{Runs, Staged};

use crate::workflow::Able;

/// What a node can invoke.
pub trait Actions: Send + Sync + 'static {
    /// Runs one attempt. Dropping the future abandons it; before that the call's cancellation
    /// fires (C4). Timeouts are the engine's.
    fn invoke(&self, call: Call) -> impl Future<Output = Outcome> + Send;

    /// What can be invoked: a node claims nothing else (X12). Asked once, when its engine starts.
    fn able(&self) -> Able {
        Able::Anything
    }
}
