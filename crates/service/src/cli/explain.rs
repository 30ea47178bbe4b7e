//! `retrial explain`: explains a policy.

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use retrial::dialect::{Environment, Policies, parse_policy};
use retrial::explain::{Explained, explain_all};
use retrial::policy::{Dialect, Functions};

use super::error::CliError;
use super::output::print;
use super::{Lookup, input};

/// Explain a policy in words and as a table of delays.
///
/// Exits with 0, or with 2 if the text is invalid.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A policy, a preset (aws-standard-2.1, google-sre, none), an IR program or a workflow: the
    /// text itself, a file, or - for standard input
    #[arg(value_name = "TEXT-or-FILE", allow_hyphen_values = true)]
    subject: String,

    /// The dialect [default: detected from the text]
    #[arg(long, value_enum)]
    dialect: Option<DialectName>,

    /// List the delays of at most this many attempts, the first included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A dialect that is text.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum DialectName {
    Ir,
    WorkConfig,
    Execution,
    RetryConfig,
    Preset,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Ir => Self::Ir,
            DialectName::WorkConfig => Self::WorkConfig,
            DialectName::Execution => Self::Execution,
            DialectName::RetryConfig => Self::RetryConfig,
            DialectName::Preset => Self::Preset,
        }
    }
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let environment = Environment::read(lookup)?;
    let explained = explained(arguments, &environment)?;
    if arguments.json {
        print(&format!("{:#}\n", explained.to_json()))
    } else {
        print(&explained.to_string())
    }
}

fn explained(arguments: &Arguments, environment: &Environment) -> Result<Explained, CliError> {
    let dialect = arguments.dialect.map(Dialect::from);
    let policies = policies(&arguments.subject, dialect, environment)?;
    Ok(explain_all(&policies, arguments.attempts, &Functions::default()))
}

/// The policies in `subject`, which is a text or a file.
pub(super) fn policies(
    subject: &str,
    dialect: Option<Dialect>,
    environment: &Environment,
) -> Result<Policies, CliError> {
    let is_file = Path::new(subject).exists() || input::is_path(subject);
    let (name, text) =
        if is_file { (subject, input::read(subject)?) } else { ("TEXT", subject.to_owned()) };
    parse_policy(name, &text, dialect, environment).map_err(|found| {
        let trouble = CliError::from(found);
        let word = !is_file && !text.contains(['[', '{', '=', '\n']);
        if word { trouble.note(NO_FILE) } else { trouble }
    })
}

const NO_FILE: &str = "There is no file with that name, so it was read as text.";
