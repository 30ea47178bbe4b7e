//! `retrial lint`: finds likely mistakes in policies.

use std::fmt::Write as _;
use std::process::ExitCode;

use retrial::dialect::{
    Environment, Format, Place, Policies, Source, parse_actions, parse_ir_program,
};
use retrial::explain::{Explained, explain_all};
use retrial::policy::{Functions, PolicyParts};

use super::error::CliError;
use super::output::print;
use super::{Lookup, explain, input};

/// Find likely mistakes in the policies of a file.
///
/// Prints one line for each finding: where it is, why it matters and what to do. Exits with 0 if
/// there are none, with 1 if there are some, with 2 if the text is invalid.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A workflow, an IR program or a policy: a file, the text itself, or - for standard input
    #[arg(value_name = "FILE", allow_hyphen_values = true)]
    subject: String,

    /// The file with the actions of an IR program, TOML or JSON: its tables `actions`, `input` and
    /// `defaults`
    #[arg(long, value_name = "FILE")]
    actions: Option<String>,
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let environment = Environment::read(lookup)?;
    let policies = policies(arguments, &environment)?;
    let explained = explain_all(&policies, Some(1), &Functions::default());
    let all = match explained {
        Explained::One(one) => vec![*one],
        Explained::Steps { steps, .. } => steps,
    };
    let mut lines = String::new();
    for explanation in &all {
        let place = match &explanation.step {
            Some(named) => named.place.clone(),
            None => Place::whole(&Source::new(&arguments.subject, "")),
        };
        for finding in &explanation.warnings {
            let _ = writeln!(lines, "{}", finding.at(&place));
        }
    }
    print(&lines)?;
    let unlimited = all.iter().filter(|e| e.policy.attempt_timeout().is_none()).count();
    if unlimited > 0 {
        let limit = PolicyParts::DEFAULT_TIMEOUT;
        eprintln!(
            "Note: {unlimited} of {} policies set no attempt timeout; the node's holds, {limit} unless configured.",
            all.len()
        );
    }
    Ok(if lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn policies(arguments: &Arguments, environment: &Environment) -> Result<Policies, CliError> {
    let Some(path) = &arguments.actions else {
        return explain::policies(&arguments.subject, None, environment);
    };
    let declared = input::read(path)?;
    let format = Format::from_extension(path).unwrap_or(Format::of_text(&declared));
    let declared = parse_actions(path, &declared, format)?;
    let program = input::read(&arguments.subject)?;
    let document = parse_ir_program(&arguments.subject, &program, &declared, environment)?;
    Ok(Policies::of(document))
}
