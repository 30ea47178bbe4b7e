//! `retrial completions`: shell completions of the command line.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Generator, Shell};

use super::error::CliError;
use super::output::print;

/// Print completions for a shell.
///
/// For bash: `retrial completions bash > /usr/share/bash-completion/completions/retrial`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let mut command = super::Arguments::command();
    command.set_bin_name("retrial");
    command.build();
    let mut text = Vec::new();
    let written = arguments.shell.try_generate(&command, &mut text);
    written.map_err(|e| CliError::input(format!("the completions can't be written: {e}")))?;
    print(&String::from_utf8_lossy(&text))
}
