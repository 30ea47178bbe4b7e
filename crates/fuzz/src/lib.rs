//! Targets of fuzzing: one function for each place that reads bytes from outside.
//!
//! A target takes any bytes and panics where a promise about them is broken. `tests/corpus.rs` gives
//! each target the inputs kept in `corpus/`; `tests/fuzz.rs` is the fuzzer, which `scripts/fuzz.sh`
//! builds and runs. To add a target, add a function, a row in [`TARGETS`], and a folder with seeds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "nothing here is on a simulated path")]

mod answer;
mod capsule;
mod mask;
mod record;
mod store;
mod text;
mod wire;

/// Takes any bytes; panics where a promise about them is broken.
pub type Target = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: [(&str, Target); 9] = [
    ("answer", answer::answer),
    ("capsule", capsule::capsule),
    ("definition", text::definition),
    ("mask", mask::mask),
    ("policy", text::policy),
    ("record", record::record),
    ("store", store::store),
    ("wire", wire::wire),
    ("words", text::words),
];

/// The target of this name, if there is one.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Runs `future` to its end on one thread. Time stands still while anything can happen, and then
/// jumps to the next timer, so that no target waits.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}
