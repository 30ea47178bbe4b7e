//! The settings of `retrial serve`, and `retrial config check`.
//!
//! Decides where each setting comes from and what it means. Must never show a secret. To add a
//! setting, add a row to [`keys::KEYS`], read it in `read`, and describe it in `docs/service.md`.

mod gather;
mod keys;
mod read;

use std::process::ExitCode;

use retrial::dialect::tree::{Data, Node};
use retrial::failure::sanitise;
use serde_json::{Value, json};

use super::error::CliError;
use super::{Lookup, output};
pub(super) use gather::Flags;
use gather::{Gathered, gather};
use keys::{KEYS, TOKEN, TRACES};
pub(super) use read::{Configuration, tokens_in};

/// Check the settings of `retrial serve`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print every setting and its source, and report invalid ones
    Check {
        #[command(flatten)]
        flags: Flags,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let Command::Check { flags, json } = &arguments.command;
    let (given, wrong) = gather(flags, lookup)?;
    read::read(&given, wrong, lookup)?;
    if *json {
        return output::print_json(&object(&given));
    }
    let names = ["SETTING", "VALUE", "FROM", "WHAT"].map(str::to_owned).to_vec();
    let rows = KEYS.iter().map(|key| {
        let (value, from) = shown_value(key.name, &given);
        vec![
            key.name.to_owned(),
            value.unwrap_or_else(|| "-".to_owned()),
            from,
            key.what.to_owned(),
        ]
    });
    let rows: Vec<_> = std::iter::once(names).chain(rows).collect();
    output::print(&output::table(&rows))
}

/// The configuration from flags, environment and file, if it is valid.
pub(super) fn resolve(flags: &Flags, lookup: Lookup) -> Result<Configuration, CliError> {
    let (given, wrong) = gather(flags, lookup)?;
    read::read(&given, wrong, lookup)
}

/// A setting's value as it may be shown, and where it comes from.
fn shown_value(name: &str, given: &Gathered) -> (Option<String>, String) {
    let Some(given) = given.get(name) else { return (None, "-".to_owned()) };
    let value = match name {
        TOKEN => "***".to_owned(),
        "store" | TRACES => sanitise::url(&text_of(&given.node)),
        _ => sanitise::message(&text_of(&given.node), 500),
    };
    (Some(value), given.origin.to_string())
}

fn text_of(node: &Node) -> String {
    match &node.data {
        Data::Text(text) | Data::Number(text) => text.to_string(),
        Data::List(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        Data::Bool(yes) => yes.to_string(),
        Data::Null | Data::Table(_) => String::new(),
    }
}

fn object(given: &Gathered) -> Value {
    let all = KEYS.iter().map(|key| {
        let (value, from) = shown_value(key.name, given);
        let (variable, what) = (key.variable(), key.what);
        let told = json!({ "value": value, "from": from, "variable": variable, "what": what });
        (key.name.to_owned(), told)
    });
    Value::Object(all.collect())
}
