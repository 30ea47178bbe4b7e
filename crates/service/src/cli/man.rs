//! `retrial man`: the manual pages, generated from the same texts as `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;

use super::error::CliError;
use super::output::print;

/// Print the manual page, or write one for each command.
///
/// To read it: `retrial man | man -l -`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Write all pages to this existing folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, CliError> {
    // As its pages do: `--help` says as much.
    let command = super::Arguments::command().disable_help_subcommand(true);
    let Some(folder) = &arguments.out else {
        let mut page = Vec::new();
        let made = Man::new(command).render(&mut page);
        made.map_err(|e| CliError::input(format!("the page can't be written: {e}")))?;
        return print(&String::from_utf8_lossy(&page));
    };
    clap_mangen::generate_to(command, folder).map_err(|e| {
        CliError::input(format!("the pages can't be written to `{}`: {e}", folder.display()))
            .help("name an existing folder with --out DIR")
    })?;
    Ok(ExitCode::SUCCESS)
}
