//! Retrial: a retry engine. Policies in five dialects, durable runs, failure routing, replay.
//!
//! The shortest whole program: an action that fails once, a policy that tries it again, a run, and
//! its result.
//!
//! ```
//! use retrial::action::Context;
//! use retrial::engine::{Engine, Submission};
//! use retrial::failure::Failure;
//! use retrial::workflow::Workflow;
//!
//! async fn greet(context: Context) -> Result<String, Failure> {
//!     match context.attempt() {
//!         1 => Err(Failure::http(503, "busy")),
//!         n => Ok(format!("hello at attempt {n}")),
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let retry = "[retry: 2, backoff: 10ms]".parse()?;
//!     let greeting = Workflow::builder("greeting").step("greet", "greet").retry(retry).build()?;
//!     let engine = Engine::builder().action("greet", greet).start().await;
//!     let handle = engine.submit(Submission::new(greeting)).await?;
//!     assert_eq!(handle.result::<String>("greet").await?, "hello at attempt 2");
//!     Ok(())
//! }
//! ```
//!
//! `examples/` has longer ones: a durable store, heartbeats with progress, typed actions with the
//! run's events. See `docs/architecture.md` for the rooms and their order.
#![cfg_attr(
    not(feature = "unstable"),
    allow(dead_code, unreachable_pub, reason = "public only under the feature `unstable`")
)]

/// Makes items public under the feature `unstable`, and crate-private without it.
macro_rules! unstable {
    ($(use $module:ident::$items:tt;)+) => { $(
        #[cfg(feature = "unstable")]
        pub use $module::$items;
        #[cfg(not(feature = "unstable"))]
        #[allow(unused_imports, reason = "the crate itself needs a part of them")]
        pub(crate) use $module::$items;
    )+ };
}

pub mod action;
pub mod engine;
pub mod net;
pub mod observe;
pub mod retry;
pub mod runtime;
pub mod store;

#[doc(no_inline)]
pub use retrial_core::{dialect, explain, failure, guard, policy, run, schedule, time, workflow};

/// The programs of the README run as tests of documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
