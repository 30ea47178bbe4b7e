//! The seam to the actions that steps invoke, and its implementations.
//!
//! Decides how an action is invoked and whether its answer is a success or a failure. Must never
//! know policies, stores or what happens to the outcome. To add a kind of action, implement
//! [`Actions`] or add a branch to `ActionSet`.

mod call;
mod context;
mod context_runtime;
mod contract;
mod function;
#[cfg(feature = "http")]
mod http;
mod registry;
mod reports;
mod result;

use std::future::Future;

pub use call::{Call, Cancelled, Outcome};
pub use context::Context;
pub use contract::{ActionBuilder, Contract};
pub use function::{ActionError, Args, Attempt, FromContext, Function};
#[cfg(feature = "http")]
pub use http::{ActionSet, Http, HttpActions, Request, Response};
pub use registry::Registry;
pub use result::MAX_RESULT;

unstable! {
    use reports::{Reports};
    use context_runtime::{ContextRuntime};
    use call::{Canceller};
}

use crate::workflow::Able;

/// The actions that a node can invoke.
pub trait Actions: Send + Sync + 'static {
    /// Runs one attempt. Dropping the future abandons the attempt; the engine fires the call's
    /// cancellation first. The engine enforces timeouts.
    fn invoke(&self, call: Call) -> impl Future<Output = Outcome> + Send;

    /// The actions that can be invoked: a node claims no others. Called once, when its engine
    /// starts.
    fn able(&self) -> Able {
        Able::Anything
    }
}
