//! The `retrial` binary: hands the process's arguments, environment and terminal to `cli`.

mod cli;

use std::process::ExitCode;

/// A node frees in one thread what another took: that costs a quarter of its time with glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main(variable)
}

/// A variable of the environment. One that is not Unicode counts as unset.
#[expect(clippy::disallowed_methods, reason = "this is the edge where the environment is read")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
