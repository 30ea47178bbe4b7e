//! The simulated world: clock, network, disk, endpoints, faults and oracles, all drawn from one seed.
#[cfg(not(madsim))]
compile_error!(
    "retrial-sim needs `--cfg madsim`. `.cargo/config.toml` sets it; an environment RUSTFLAGS (or \
     RUSTDOCFLAGS) replaces that file's flags, so add it there: RUSTFLAGS=\"--cfg madsim $RUSTFLAGS\""
);

pub mod clock;
pub mod evidence;
pub mod fault;
pub mod life;
pub mod oracle;
pub mod scenario;
pub mod trace;
pub mod workload;
