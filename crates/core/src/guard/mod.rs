//! What protects an action from those who call it: circuit breaker, concurrency and rate limits,
//! retry budget; and its error budget, which holds nothing back and raises alerts.
//!
//! Decides, from the outcomes of an action's attempts, whether another may start now. Must never
//! know runs, stores, text syntaxes or clocks: time is an argument, and the caller names attempts.
//! To add a guard, add its rules to [`GuardRules`], its part to `GuardState`, its word to [`HeldBy`]
//! and its check to `admit`.
//!
//! The store keeps one `GuardState` for each action. It folds every `GuardInput` of a commit in the
//! commit's own transaction, at its own time. So all nodes share the state, it outlives them, and
//! each attempt counts exactly once. `GuardState::take` either takes an input, which may raise
//! alerts, or refuses it and changes nothing.

mod alerts;
mod breaker;
mod bucket;
mod error;
mod rate_limit;
mod rules;
mod standing;
mod state;
mod window;

pub use alerts::{Alert, ErrorBudget};
pub use error::GuardError;
pub use rules::{Breaker, FailureRate, GuardRules, Pace};
pub use state::{HeldBy, Refusal};

unstable! {
    use state::{Ended, GuardInput, GuardState};
    use standing::{BreakerStanding, Outcomes, Standing};
    use bucket::{Bucket};
}

use crate::time::Nanos;

/// When to look again where nobody can tell: an attempt in progress has to end first, and its end
/// is announced sooner where the store can.
pub const RECHECK: Nanos = Nanos::from_secs(1);
