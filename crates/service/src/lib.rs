//! Retrial as a service: an HTTP API over a running engine, and the inspector, its web page. The
//! binary `retrial` of this package starts it with `retrial serve`.
//!
//! Clients submit workflows, follow runs, send commands (pause, cancel, fail a step), redrive dead
//! letters and read metrics. `GET /openapi.json` describes every route; the inspector is at `/`.
//!
//! To embed the service, give the engine a [`Monitor`](server::Monitor) as an observer and serve
//! both:
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use retrial::action::{ActionSet, HttpActions, Registry};
//! use retrial::engine::Engine;
//! use retrial::net::TcpConnect;
//! use retrial::runtime::TokioRuntime;
//! use retrial::store::RedbStore;
//! use retrial_service::server::{Monitor, Service, Settings};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedbStore::open(TokioRuntime::current(), Path::new("retrial.redb")).await?;
//! let http = HttpActions::new(TcpConnect::new(), |_: &str| None);
//! let actions = ActionSet::new(Registry::new(), http);
//! let monitor = Monitor::new()?;
//! let engine = Engine::builder().store(store).actions(actions).observer(Arc::clone(&monitor));
//! let engine = engine.start().await;
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7070").await?;
//! let service = Service::new(engine, monitor, Settings::default());
//! service.serve(listener, async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The default [`Settings`](server::Settings) suit a service on loopback. On any other address
//! [`Service::serve`](server::Service::serve) requires an access token.

pub mod server;
