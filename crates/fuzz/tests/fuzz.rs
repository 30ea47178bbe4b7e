//! The fuzzer: runs the target that the variable `TARGET` names, with libFuzzer's arguments. See
//! `scripts/fuzz.sh`.
#![no_main]
#![allow(clippy::panic, reason = "a fuzzer fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "this is the edge: libFuzzer takes the arguments")]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use retrial_fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fn target() -> Target {
    let name = std::env::var("TARGET").unwrap_or_default();
    retrial_fuzz::target(&name).unwrap_or_else(|| panic!("TARGET=`{name}` is no target"))
}

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(target)(bytes));
