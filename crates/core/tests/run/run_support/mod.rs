//! A tiny driver of the pure heart: virtual time, no async, no store. It claims what the events
//! say is due, plays the attempts from a script, and keeps its own model of the queue.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

pub mod build;
pub mod show;
pub mod world;

use retrial_core::failure::Failure;
use retrial_core::time::Nanos;
use serde_json::Value;

/// How one attempt goes.
#[derive(Clone, Debug)]
pub struct Shot {
    /// How long until it ends. One that is longer than the attempt's time is cut then.
    pub takes: Nanos,
    /// How it ends.
    pub end: End,
}

/// How an attempt ends.
#[derive(Clone, Debug)]
pub enum End {
    Ok(Value),
    Fail(Failure),
    /// The node is gone: after `takes` its lease is found to have passed.
    Lost,
    /// Nothing ever comes back; only the attempt's time ends it, and without one a lost lease.
    Hang,
}

const SECOND: Nanos = Nanos::from_secs(1);

/// An attempt that takes a second and succeeds with null.
pub fn ok() -> Shot {
    gives(Value::Null)
}

/// An attempt that takes a second and succeeds with `value`.
pub fn gives(value: impl Into<Value>) -> Shot {
    Shot { takes: SECOND, end: End::Ok(value.into()) }
}

/// An attempt that takes a second and fails.
pub fn fails(failure: Failure) -> Shot {
    Shot { takes: SECOND, end: End::Fail(failure) }
}

/// An attempt that takes a second and is answered with an HTTP status.
pub fn status(code: u16) -> Shot {
    fails(Failure::http(code, "from the endpoint"))
}

/// An attempt whose node dies; the lease passes after 30 s.
pub fn lost() -> Shot {
    Shot { takes: Nanos::from_secs(30), end: End::Lost }
}

/// An attempt that never answers.
pub fn hangs() -> Shot {
    Shot { takes: Nanos::from_secs(30), end: End::Hang }
}

impl Shot {
    /// The same attempt, taking another time.
    pub fn taking(mut self, takes: Nanos) -> Self {
        self.takes = takes;
        self
    }
}
