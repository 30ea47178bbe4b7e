//! The HTTP interface: what programs and people ask of a running engine, and the answers.
//!
//! Decides who may ask, how much, what an answer looks like and with which status. Must never decide
//! what happens to a run (it asks the engine) nor know which store there is. Every text that goes
//! out passes the sanitiser, inputs and results are masked; whatever comes in is bounded.
//!
//! To add a route, write its handler beside those of its subject and add a row to
//! `routes::table`, which both the router and the OpenAPI document are made of; describe its
//! answer in `openapi/schemas.json`.

mod actions;
mod commands;
mod definitions;
mod events;
mod extract;
mod health;
mod hosts;
mod inspector;
mod json;
mod letters;
mod listing;
mod masking;
mod middleware;
mod monitor;
mod openapi;
mod problem;
mod prune;
mod routes;
mod runs;
mod serve;
mod service;
mod settings;
mod sse;
mod submit;
mod workflows;
mod write_timeout;

pub use hosts::{Hosts, HostsError, RestrictedNetwork};
pub use monitor::Monitor;
pub use serve::ServeError;
pub use service::Service;
pub use settings::{AccessToken, AccessTokenError, Functions, Limits, Settings};
