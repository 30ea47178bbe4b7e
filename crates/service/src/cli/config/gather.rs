//! Where settings come from: flags, before the environment, before a file, before defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use retrial::dialect::tree::{Data, Node};
use retrial::dialect::{Diagnostic, Format, Place, Source};

use super::super::error::CliError;
use super::super::{Lookup, input};
use super::keys::{KEYS, LISTS, TOKEN};

/// The file that is read if no other is named and it exists.
const DEFAULT_FILE: &str = "retrial.toml";
/// The variable that names the file, like the flag `--config`.
const FILE_VARIABLE: &str = "RETRIAL_CONFIG";

/// The settings that have flags of their own.
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// The file of settings, TOML [default: retrial.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The store: a file, or postgres://...
    #[arg(long, value_name = "STORE")]
    store: Option<String>,

    /// The address and port to answer on
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// The file with the bearer token, required unless on loopback
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,

    /// The most attempts in progress at once
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,

    /// Any other setting, such as `--set limits.streams=10`
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// Where a setting's value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(String),
    Variable(String),
    File(String, usize),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::File(file, line) => write!(f, "{file}:{line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting's value, and where it was found.
pub(crate) struct SettingValue {
    pub(crate) node: Node,
    pub(crate) origin: Origin,
}

/// The settings that have a value.
pub(crate) type Gathered = BTreeMap<&'static str, SettingValue>;

/// Every setting, from its strongest source, and what is wrong where settings are given. A file that
/// can't be read is an error.
pub(crate) fn gather(
    flags: &Flags,
    lookup: Lookup,
) -> Result<(Gathered, Vec<Diagnostic>), CliError> {
    let mut wrong = Vec::new();
    let mut all: Gathered = KEYS
        .iter()
        .filter_map(|key| Some((key.name, default_value(key.name, key.default?))))
        .collect();
    if let Some(path) = file(flags, lookup) {
        let name = path.display().to_string();
        match Node::parse(&name, &input::read(&name)?, Format::Toml) {
            Ok(top) => wrong.extend(from_file(&top, &name, &mut all)),
            Err(unreadable) => wrong.push(unreadable),
        }
    }
    for key in &KEYS {
        let variable = key.variable();
        // An empty list is a list; an empty text sets nothing.
        let set = |value: &String| LISTS.contains(&key.name) || !value.trim().is_empty();
        if let Some(value) = lookup(&variable).filter(set) {
            let shown = if key.name == TOKEN { "***" } else { value.trim() };
            let node = written("environment", &variable, key.name, value.trim(), shown);
            all.insert(key.name, SettingValue { node, origin: Origin::Variable(variable) });
        }
    }
    wrong.extend(from_flags(flags, &mut all));
    Ok((all, wrong))
}

fn default_value(name: &'static str, text: &str) -> SettingValue {
    SettingValue { node: written("default", name, name, text, text), origin: Origin::Default }
}

/// A value from one line. Diagnostics show `shown` in its place.
fn written(from: &str, before: &str, name: &str, value: &str, shown: &str) -> Node {
    let source = Source::new(from, &format!("{before}={shown}"));
    let place = Place::whole(&source).child(name).at(before.len() + 1..source.text.len());
    let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let data = if is_number { Data::Number(value.into()) } else { Data::Text(value.into()) };
    Node { place, data }
}

fn file(flags: &Flags, lookup: Lookup) -> Option<PathBuf> {
    let named = flags.config.clone().or_else(|| lookup(FILE_VARIABLE).map(PathBuf::from));
    named.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.is_file()))
}

/// Keeps what the file `name` sets, and says what is wrong there.
fn from_file(top: &Node, name: &str, all: &mut Gathered) -> Vec<Diagnostic> {
    let heads: Vec<&str> =
        KEYS.iter().map(|key| key.name.split('.').next().unwrap_or_default()).collect();
    let mut wrong: Vec<_> = top.unknown_keys(&heads).collect();
    for entry in top.entries().unwrap_or_default() {
        match (entry.key.as_str(), entry.node.entries()) {
            (TOKEN, _) => {
                let error = entry.place.error("the token must not be in this file");
                let help = "put it in a separate file and name that file in token_file";
                wrong.push(error.help_with(help));
            }
            ("limits", Ok(limits)) => {
                let known: Vec<&str> =
                    KEYS.iter().filter_map(|key| key.name.strip_prefix("limits.")).collect();
                wrong.extend(entry.node.unknown_keys(&known));
                for limit in limits {
                    keep(&format!("limits.{}", limit.key), &limit.node, name, all);
                }
            }
            ("limits", Err(no_table)) => wrong.push(no_table),
            (key, _) => keep(key, &entry.node, name, all),
        }
    }
    wrong
}

fn keep(name: &str, node: &Node, file: &str, all: &mut Gathered) {
    let Some(key) = KEYS.iter().find(|key| key.name == name) else { return };
    let line = node.place.error("").line();
    let origin = Origin::File(file.to_owned(), line);
    all.insert(key.name, SettingValue { node: node.clone(), origin });
}

fn from_flags(flags: &Flags, all: &mut Gathered) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    let Flags { store, listen, token_file, concurrency, .. } = flags;
    let own = [
        ("store", "--store", store),
        ("listen", "--listen", listen),
        ("token_file", "--token-file", token_file),
        ("concurrency", "--concurrency", concurrency),
    ];
    for (name, flag, value) in own {
        if let Some(value) = value {
            let node = written("command line", flag, name, value, value);
            all.insert(name, SettingValue { node, origin: Origin::Flag(flag.to_owned()) });
        }
    }
    for text in &flags.set {
        match parse_set(text) {
            Ok((name, value)) => {
                let flag = format!("--set {name}");
                let node = written("command line", &flag, name, value, value);
                all.insert(name, SettingValue { node, origin: Origin::Flag(flag) });
            }
            Err(unreadable) => wrong.push(unreadable),
        }
    }
    wrong
}

/// The setting and the value of `--set NAME=VALUE`.
fn parse_set(text: &str) -> Result<(&'static str, &str), Diagnostic> {
    let place = |shown: &str| Place::whole(&Source::new("command line", &format!("--set {shown}")));
    let Some((name, value)) = text.split_once('=') else {
        return Err(place(text).error("`--set` takes NAME=VALUE"));
    };
    if name == TOKEN {
        return Err(place("token=***")
            .error("a token on the command line is visible to other users of this machine")
            .help_with("give the token as RETRIAL_TOKEN, or in a file: --token-file"));
    }
    let known = KEYS.iter().find(|key| key.name == name);
    known.map(|key| (key.name, value)).ok_or_else(|| {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        place(name)
            .error(format!("unknown setting `{name}`"))
            .help_with(format!("settings are {}", names.join(", ")))
    })
}
