//! Deterministic simulation of retrial: a simulated clock, network, disk and endpoints, faults, and the
//! oracles that judge the result. One seed determines everything.
#![cfg_attr(
    not(feature = "unstable"),
    allow(
        dead_code,
        unused_imports,
        unreachable_pub,
        reason = "public only under the feature `unstable`"
    )
)]

#[cfg(not(madsim))]
compile_error!(
    "retrial-sim needs `--cfg madsim`. `.cargo/config.toml` sets it; an environment RUSTFLAGS (or \
     RUSTDOCFLAGS) replaces that file's flags, so add it there: RUSTFLAGS=\"--cfg madsim $RUSTFLAGS\""
);

pub mod check;
pub mod fault;
mod sync;

/// The rooms that users do not see.
#[path = ""]
mod rooms {
    pub mod blame;
    pub mod capsule;
    pub mod clock;
    pub mod crash_points;
    pub mod disk;
    pub mod disk_states;
    pub mod endpoint;
    pub mod evidence;
    pub mod explore;
    pub mod history;
    pub mod incarnation;
    pub mod net;
    pub mod node;
    pub mod oracle;
    pub mod page;
    pub mod records;
    pub mod remote;
    pub mod report;
    pub mod runtime;
    pub mod scenario;
    pub mod shrink;
    pub mod source;
    pub mod sweep;
    pub mod trace;
    pub mod user;
    pub mod verify;
    pub mod watchdog;
    pub mod workload;
    pub mod world;
}

use rooms::*;

/// The rooms, for the binary and for this project's own tests. They may change at any time.
#[cfg(feature = "unstable")]
pub mod unstable {
    pub use crate::rooms::*;
    /// The release that is simulated.
    pub use retrial;
}
