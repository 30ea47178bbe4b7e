//! The pure core of Retrial: policies in five dialects, workflows, and every decision about a run.
//!
//! Nothing here reads a clock, draws random numbers, does I/O or waits. Time is an argument, jitter
//! is a function of the run's seed, and everything that happens to a run is a list of events. The
//! crate is usable alone; `retrial` re-exports it and adds the engine that executes its decisions.
//!
//! # One decision
//!
//! Read a policy, describe what a task has been through, and ask whether and when to try again:
//!
//! ```
//! use retrial_core::dialect::{Environment, Policies, parse_policy};
//! use retrial_core::failure::Failure;
//! use retrial_core::policy::{Functions, Used, Verdict};
//! use retrial_core::time::Timestamp;
//!
//! let text = "[retry: 3, backoff: 2s]";
//! let read = parse_policy("policy.ir", text, None, &Environment::default());
//! let Ok(Policies::One(policy)) = read else { panic!("{read:?}") };
//!
//! let start = Timestamp::default();
//! let used = Used::first(start);
//! match policy.verdict(&Failure::http(503, "busy"), &used, start, 0, &Functions::default()) {
//!     Verdict::Retry { delay, .. } => println!("retry in {delay}"), // retry in 2s
//!     Verdict::GiveUp(reason) => println!("give up: {reason}"),
//! }
//! ```
//!
//! # One run
//!
//! A run is a value. Each input returns the events it causes; replaying them gives the same state:
//!
//! ```
//! use retrial_core::{failure::Failure, policy::*, run::*, time::Timestamp, workflow::*};
//!
//! let policy = Policy::builder().attempts(2).build()?;
//! let steps = vec![Step::new("charge", "charge", policy)];
//! let workflow = Workflow::try_from(WorkflowParts { steps, ..Default::default() })?;
//! let (id, now, functions) = (RunId::from_random(1, 2), Timestamp::default(), Functions::default());
//! let (mut run, mut log) = RunState::create(id, 7, workflow.into(), Default::default(), now)?;
//!
//! let (task, token) = (TaskId { step: StepIx(0), item: 0 }, Token::from_random(3, 4));
//! let failure = Failure::http(503, "busy");
//! for input in [
//!     Input::Claimed { task, attempt: 1, token, default_timeout: None },
//!     Input::Failed { task, token, failure, denied: false },
//! ] {
//!     log.extend(run.handle(&input, now, &functions)?);
//! }
//! assert!(matches!(log.last().unwrap().event, Event::RetryScheduled { .. }));
//! assert_eq!(RunState::replay(id, &log)?, run);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(
    not(feature = "unstable"),
    allow(dead_code, unreachable_pub, reason = "public only under the feature `unstable`")
)]

/// Makes items public under the feature `unstable`, and crate-private without it.
macro_rules! unstable {
    ($(use $module:ident::$items:tt;)+) => { $(
        #[cfg(feature = "unstable")]
        #[doc(hidden)]
        pub use $module::$items;
        #[cfg(not(feature = "unstable"))]
        #[allow(unused_imports, reason = "the crate itself needs a part of them")]
        pub(crate) use $module::$items;
    )+ };
}

/// Asserts what must hold before or after a change of state: in debug builds, and under the feature
/// `assertions`, so that the release build of the simulation has it and production has not.
macro_rules! invariant {
    ($($holds:tt)+) => {
        if cfg!(any(debug_assertions, feature = "assertions")) {
            assert!($($holds)+);
        }
    };
}

/// [`invariant`] for two values that must be equal.
macro_rules! invariant_eq {
    ($($equal:tt)+) => {
        if cfg!(any(debug_assertions, feature = "assertions")) {
            assert_eq!($($equal)+);
        }
    };
}

pub mod dialect;
pub mod explain;
pub mod failure;
pub mod guard;
pub mod policy;
pub mod run;
pub mod time;
pub mod workflow;

#[cfg(feature = "unstable")]
#[doc(hidden)]
pub mod schedule;
#[cfg(not(feature = "unstable"))]
mod schedule;
