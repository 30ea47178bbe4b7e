//! A policy in a tree, in any dialect; the dialect is guessed where it is not given.

use super::tree::{Data, Fields, Node};
use super::{
    Diagnostic, Diagnostics, Errors, execution, ir, preset, retry_config, settings, work_config,
};
use crate::policy::{Dialect, Policy};

/// The keys under which a step or a default gives its policy.
pub const KEYS: [&str; 5] = ["retry", "work_config", "execution", "retry_config", "preset"];

/// The policy among `fields`, in whichever dialect.
///
/// # Errors
/// When there is more than one, or it is invalid.
pub fn own(fields: &Fields<'_>) -> Result<Option<Policy>, Diagnostic> {
    let found = fields.at_most_one(&KEYS)?;
    found.map(|(key, node)| read(dialect_of(key), node)).transpose()
}

fn dialect_of(key: &str) -> Dialect {
    match key {
        "work_config" => Dialect::WorkConfig,
        "execution" => Dialect::Execution,
        "retry_config" => Dialect::RetryConfig,
        "preset" => Dialect::Preset,
        _ => Dialect::Ir,
    }
}

fn read(dialect: Dialect, node: &Node) -> Result<Policy, Diagnostic> {
    match dialect {
        Dialect::Ir => ir::read(node),
        Dialect::WorkConfig => work_config::read(node),
        Dialect::Execution => execution::read(node),
        Dialect::RetryConfig => retry_config::read(node),
        Dialect::Preset => preset::read(node),
        Dialect::Builder => Err(node
            .place
            .error("the builder is Rust, not text")
            .help_with("use ir, work_config, execution, retry_config or preset")),
    }
}

/// A table alone, bare or under its dialect's key.
pub(super) fn tree(top: &Node, dialect: Option<Dialect>) -> Result<Policy, Diagnostics> {
    let given = |key: &&str| top.any_fields().is_ok_and(|fields| fields.get(key).is_some());
    if let Some(key) = KEYS.into_iter().find(given) {
        return Errors::of(top, |top| wrapped(top, key, dialect));
    }
    let dialect = dialect.map_or_else(|| guess(top), Ok)?;
    match dialect {
        Dialect::Execution if is_bare_policy(top) => Errors::of(top, execution::read_policy),
        dialect => Errors::of(top, |top| read(dialect, top)),
    }
}

fn wrapped(top: &Node, key: &str, wanted: Option<Dialect>) -> Result<Policy, Diagnostic> {
    let fields = top.fields(&KEYS)?;
    fields.at_most_one(&KEYS)?;
    let (dialect, node) = (dialect_of(key), fields.require(key, "give the policy")?);
    match wanted.filter(|wanted| *wanted != dialect) {
        Some(wanted) => Err(top
            .place
            .error(format!("the text is {}, not {}", dialect.name(), wanted.name()))
            .help_with("give the dialect that it is written in, or none")),
        None => read(dialect, node),
    }
}

fn is_bare_policy(top: &Node) -> bool {
    let Data::Table(entries) = &top.data else { return false };
    let known = |e: &super::tree::Entry| execution::POLICY_KEYS.contains(&e.key.as_str());
    !entries.is_empty() && entries.iter().all(known)
}

/// The dialect that knows most of the table's keys; on a tie the first of the list.
fn guess(top: &Node) -> Result<Dialect, Diagnostic> {
    let entries = top.entries()?;
    let score = |known: &[&str]| entries.iter().filter(|e| known.contains(&e.key.as_str())).count();
    let execution: Vec<&str> = execution::KEYS.into_iter().chain(execution::POLICY_KEYS).collect();
    let scores = [
        (Dialect::WorkConfig, score(&work_config::KEYS)),
        (Dialect::RetryConfig, score(&retry_config::KEYS)),
        (Dialect::Execution, score(&execution)),
    ];
    let best = scores.into_iter().rev().max_by_key(|(_, n)| *n);
    match best {
        Some((dialect, n)) if n > 0 => Ok(dialect),
        _ => Err(top.place.error("the text is in no known dialect").help_with(format!(
            "write {}, {} or {} fields, IR brackets such as [retry: 3], or any of them with {}",
            Dialect::WorkConfig.name(),
            Dialect::Execution.name(),
            Dialect::RetryConfig.name(),
            settings::KEYS.join(", "),
        ))),
    }
}
