//! Retrial: a retry engine. Policies in five dialects, durable runs, failure routing, replay.
//!
//! The shortest whole program: an action that fails once, a policy that tries it again, a run, and
//! its result.
//!
//! ```
//! use std::sync::Arc;
//!
//! use retrial::action::{Context, Registry};
//! use retrial::dialect::{Environment, Format, parse_workflow};
//! use retrial::engine::{Config, Engine, Submission, World};
//! use retrial::failure::Failure;
//! use retrial::runtime::TokioRuntime;
//! use retrial::store::MemoryStore;
//!
//! struct Here;
//!
//! impl World for Here {
//!     type Runtime = TokioRuntime;
//!     type Store = MemoryStore<TokioRuntime>;
//!     type Actions = Registry;
//! }
//!
//! const WORKFLOW: &str = r#"
//!     workflow = "greeting"
//!     steps = [{ id = "greet", action = "greet", retry = "[retry: 2, backoff: 10ms]" }]
//! "#;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let mut actions = Registry::new();
//!     actions.register("greet", |context: Context| async move {
//!         match context.attempt() {
//!             1 => Err(Failure::http(503, "busy")),
//!             n => Ok(format!("hello at attempt {n}")),
//!         }
//!     });
//!     let workflow = parse_workflow("w.toml", WORKFLOW, Format::Toml, &Environment::default())?.workflow;
//!
//!     let runtime = TokioRuntime::current();
//!     let store = MemoryStore::new(runtime.clone());
//!     let engine = Engine::<Here>::start(runtime, store, actions, Config::default(), vec![]).await;
//!     let handle = engine.submit(Submission::new(Arc::new(workflow))).await?;
//!     let greeting: String = handle.result("greet").await?;
//!     assert_eq!(greeting, "hello at attempt 2");
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
