//! The PostgreSQL store on a server of its own: the suite that every store passes, and what only it
//! has.
#![allow(dead_code)]

mod conformance;
mod engines;
pub(crate) mod kit;
mod loads;
mod model;
mod news;
mod own;
mod tls;
