//! The HTTP API over a running engine, and the inspector.
//!
//! Decides who may send requests, how many and how large, and the status and shape of each answer.
//! Must never decide what happens to a run (the engine does) nor know which store it uses. Every
//! text in an answer passes the sanitiser, and inputs and results are masked; only the routes of
//! `values` give them out. Everything in a request is bounded.
//!
//! To add a route, write its handler in the module of its subject and add a row to `routes::table`,
//! from which the router and the OpenAPI document are built; describe its answer in
//! `openapi/schemas.json`.

mod actions;
mod audit;
mod background_work;
mod caller;
mod commands;
mod definitions;
mod events;
mod extract;
mod health;
mod inspector;
mod json;
mod letters;
mod listing;
mod middleware;
mod monitor;
mod openapi;
mod problem;
mod prune;
mod recent;
mod routes;
mod run_quotas;
mod runs;
mod serve;
mod service;
mod settings;
mod sse;
mod stream_workflows;
mod strict_heads;
mod submit;
mod tokens;
mod values;
mod workflows;
mod write_timeout;
mod writes;

pub use audit::Audit;
pub use monitor::Monitor;
pub use serve::ServeError;
pub use service::Service;
pub use settings::{Functions, Limits, Settings};
pub use tokens::{AccessToken, AccessTokenError, NamedToken, Role, Tokens, TokensError};
pub use writes::{StoreWrites, WatchedStore};
