//! The command line: `retrial run`, `retrial explain`, the commands over a store, `retrial serve`.
//!
//! Decides what a command prints, in which order, and with which code it ends. Must never decide
//! what happens to a run. To add a command, write a module with its arguments and its function,
//! and add a variant to [`Command`].

mod bench;
mod client;
mod completions;
mod config;
mod dlq;
mod error;
mod events;
mod explain;
mod filters;
mod fsck;
mod input;
mod inspect;
mod lint;
mod list;
mod log;
mod man;
mod network;
mod output;
mod prune;
mod query;
mod results;
mod resume;
mod run;
mod run_commands;
mod run_printer;
mod run_text;
mod serve;
mod signals;
mod single_run_store;
mod stores;
mod target;
mod token;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks up a variable of the environment.
type Lookup = fn(&str) -> Option<String>;

/// Retries that survive crashes: policies in five dialects, durable runs.
#[derive(Debug, Parser)]
#[command(name = "retrial", version, arg_required_else_help = true, after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "RETRIAL_LOG sets the log level on stderr, such as `RETRIAL_LOG=debug`.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Explain(explain::Arguments),
    List(list::Arguments),
    Inspect(inspect::Arguments),
    Dlq(dlq::Arguments),
    Pause(run_commands::Pause),
    Resume(run_commands::Resume),
    Fail(run_commands::Fail),
    Release(run_commands::Release),
    Cancel(run_commands::Cancel),
    Deactivate(run_commands::Deactivate),
    Activate(run_commands::Activate),
    Archive(run_commands::Archive),
    Prune(prune::Arguments),
    Fsck(fsck::Arguments),
    Lint(lint::Arguments),
    Serve(serve::Arguments),
    Config(config::Arguments),
    Token(token::Arguments),
    Bench(bench::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Runs the command that the process's arguments name.
pub(crate) fn main(lookup: Lookup) -> ExitCode {
    let arguments = Arguments::parse();
    let started = match arguments.command {
        // `serve` has a setting for the log.
        Command::Serve(_) => Ok(()),
        _ => log::start(lookup("RETRIAL_LOG")),
    };
    let done = started.and_then(|()| match arguments.command {
        Command::Run(arguments) => run::main(&arguments, lookup),
        Command::Explain(arguments) => explain::main(&arguments, lookup),
        Command::List(arguments) => list::main(&arguments, lookup),
        Command::Inspect(arguments) => inspect::main(&arguments, lookup),
        Command::Dlq(arguments) => dlq::main(&arguments, lookup),
        Command::Pause(arguments) => arguments.main(lookup),
        Command::Resume(arguments) => arguments.main(lookup),
        Command::Fail(arguments) => arguments.main(lookup),
        Command::Release(arguments) => arguments.main(lookup),
        Command::Cancel(arguments) => arguments.main(lookup),
        Command::Deactivate(arguments) => arguments.main(lookup),
        Command::Activate(arguments) => arguments.main(lookup),
        Command::Archive(arguments) => arguments.main(lookup),
        Command::Prune(arguments) => prune::main(&arguments, lookup),
        Command::Fsck(arguments) => fsck::main(&arguments, lookup),
        Command::Lint(arguments) => lint::main(&arguments, lookup),
        Command::Serve(arguments) => serve::main(&arguments, lookup),
        Command::Config(arguments) => config::main(&arguments, lookup),
        Command::Token(arguments) => token::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Completions(arguments) => completions::main(&arguments),
        Command::Man(arguments) => man::main(&arguments),
    });
    done.unwrap_or_else(|trouble| {
        trouble.show();
        trouble.code()
    })
}
