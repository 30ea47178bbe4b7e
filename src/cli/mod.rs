//! The command line: `retrial run` and `retrial explain`.
//!
//! Decides what a command prints, in which order, and with which code it ends. Must never decide
//! what happens to a run. To add a command, write a module with its arguments and its function,
//! and add a variant to [`Command`].

mod events;
mod explain;
mod lint;
mod log;
mod one_run;
mod report;
mod results;
mod resume;
mod run;
mod signals;
mod text;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks a variable of the environment up.
type Lookup = fn(&str) -> Option<String>;

/// Retries that survive crashes: policies in five dialects, durable runs.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "RETRIAL_LOG sets what is logged to stderr, as in `RETRIAL_LOG=debug`.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Explain(explain::Arguments),
    Lint(lint::Arguments),
}

/// Does what the process's arguments say.
pub(crate) fn main(lookup: Lookup) -> ExitCode {
    let arguments = Arguments::parse();
    let done = log::start(lookup("RETRIAL_LOG")).and_then(|()| match arguments.command {
        Command::Run(arguments) => run::main(arguments, lookup),
        Command::Explain(arguments) => explain::main(&arguments, lookup),
        Command::Lint(arguments) => lint::main(&arguments, lookup),
    });
    done.unwrap_or_else(|trouble| {
        trouble.show();
        trouble.code()
    })
}
