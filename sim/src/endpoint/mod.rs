//! Scripted HTTP endpoints, which the actions of the simulated world call.
//!
//! Decides how each request is answered, by an [`EndpointScript`] and the request's place among
//! those with the same receipt token, and records in a [`Ledger`] every request that arrived. Must
//! never know policies, runs or how a caller reads an answer. To add a reply, add a variant to
//! [`Reply`](crate::scenario::Reply), say in `answer` how it is given, and add a row to
//! `sim/tests/world/endpoint_replies.rs`.

mod answer;
mod ledger;
mod poison;
mod script;
mod serve;
mod service_call;

pub use ledger::{Delivery, Entry, Ledger};
pub(crate) use script::upwards;
pub use script::{EndpointScript, Route};
pub use serve::Endpoint;
pub(crate) use service_call::as_received;
