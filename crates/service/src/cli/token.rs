//! `retrial token new`: makes a token and its line for the file of tokens.

use std::fmt::Write as _;
use std::io::Read as _;
use std::process::ExitCode;

use retrial_service::server::{AccessToken, NamedToken, Role};

use super::error::CliError;
use super::output::print;

/// Make tokens for `retrial serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print a new token, once, and its line for the file that `tokens_file` names
    New {
        /// Who it is for; the audit trail shows it
        name: String,

        /// What it may do: read, submit, reveal, operate or admin. Each may do what those before it may
        #[arg(long, value_name = "ROLE")]
        role: Role,

        /// The most unfinished runs that it may have submitted
        #[arg(long, value_name = "N")]
        unfinished: Option<u64>,

        /// The most bytes of the requests that submitted them
        #[arg(long, value_name = "N")]
        bytes: Option<u64>,
    },
}

pub(super) fn main(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let Command::New { name, role, unfinished, bytes } = &arguments.command;
    let text = random()?;
    let token = AccessToken::new(&text).map_err(|e| CliError::input(e.to_string()))?;
    let (name, role) = (name.as_str().into(), *role);
    let line = NamedToken { name, role, token, unfinished: *unfinished, bytes: *bytes }.to_string();
    // Reading it back refuses a name that the file could not have.
    line.parse::<NamedToken>().map_err(CliError::input)?;
    print(&format!(
        "The token, which is shown only now:\n  {text}\nIts line for the file of tokens:\n  {line}\n"
    ))
}

/// 256 bits of the system's chance, in hexadecimal.
fn random() -> Result<String, CliError> {
    let mut bytes = [0; 32];
    let drawn = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    drawn.map_err(|e| {
        CliError::store(format!("this system gives no random numbers: {e}"))
            .help("make a token otherwise and write its SHA-256 digest into the line")
    })?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
