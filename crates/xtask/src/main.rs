//! `cargo xtask`: tools for those who maintain Retrial.

mod command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tools for those who maintain Retrial.
#[derive(Parser)]
#[command(name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plants bugs, finds what kills each, and writes docs/mutants.md. Exit 0: enough are killed
    /// and each survivor is explained. 1: not. 2: a patch does not apply or build, the run is void,
    /// bad usage.
    Mutants(command::Mutants),
    /// Counts in how many seeds each branch of the core is taken, and writes docs/branches.md. Exit 0:
    /// each is taken, or it is said why not. 1: not. 2: the marked copy does not build, a seed fails,
    /// bad usage.
    Branches(command::Branches),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Mutants(asked) => command::mutants(&asked),
        Command::Branches(asked) => command::branches(&asked),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}
