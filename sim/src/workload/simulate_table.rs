//! The `[simulate]` table of a user's file.

use std::collections::{BTreeMap, BTreeSet};

use retrial::dialect::tree::{Entry, Node};
use retrial::dialect::{Diagnostic, Place};
use retrial::workflow::Workflow;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::fault::FaultKind;
use crate::scenario::Reply;

/// The most runs of one simulated world.
const MAX_RUNS: u32 = 100;

/// The `[simulate]` table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    /// Engines: 1 is one on its own store, 2 or 3 share one. Drawn where absent.
    pub(super) nodes: Option<u32>,
    /// Runs submitted. Drawn from 1 to 4 where absent.
    pub(super) runs: Option<u32>,
    /// The kinds of faults that may be drawn; all where absent, none where empty.
    pub(super) faults: Option<BTreeSet<FaultKind>>,
    /// When everything heals, in milliseconds. Drawn from 2 s to 20 s where absent.
    pub(super) heal_after_ms: Option<u64>,
    /// Whether endpoints answer well once healed.
    pub(super) endpoints_heal: Option<bool>,
    /// The replies of endpoints, by action; drawn if absent.
    pub(super) endpoints: BTreeMap<String, Script>,
}

/// The replies of one endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    /// The replies to each task's attempts, in turn.
    #[serde(default)]
    pub(super) replies: Vec<Reply>,
    /// The reply to all further ones.
    #[serde(default = "success")]
    pub(super) then: Reply,
}

fn success() -> Reply {
    Reply::SuccessTrue
}

impl Table {
    /// Reads the table at `node`.
    pub(super) fn read(node: &Node, workflow: &Workflow) -> Result<Self, Diagnostic> {
        let read = parse::<Self>(node).map_err(|e| blame(node, e))?;
        read.check(node, workflow)?;
        Ok(read)
    }

    fn check(&self, node: &Node, workflow: &Workflow) -> Result<(), Diagnostic> {
        if self.nodes.is_some_and(|n| !(1..=3).contains(&n)) {
            return Err(at(node, &["nodes"]).error("`nodes` must be 1, 2 or 3"));
        }
        if self.runs.is_some_and(|n| !(1..=MAX_RUNS).contains(&n)) {
            return Err(at(node, &["runs"]).error(format!("`runs` must be 1 to {MAX_RUNS}")));
        }
        let known = workflow.actions();
        match self.endpoints.keys().find(|name| !known.contains_key(*name)) {
            Some(name) => {
                let place = at(node, &["endpoints", name]);
                Err(place.error(format!("no action has the name `{name}`")))
            }
            None => Ok(()),
        }
    }
}

fn parse<T: DeserializeOwned>(node: &Node) -> Result<T, String> {
    let value = node.to_json().map_err(|e| e.message().to_owned())?;
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// The place of the value under `keys`, or of the last key that exists.
fn at<'n>(node: &'n Node, keys: &[&str]) -> &'n Place {
    let found = keys.split_first().and_then(|(key, rest)| {
        let entry = node.entries().ok()?.iter().find(|e| e.key == *key)?;
        Some(if rest.is_empty() { &entry.node.place } else { at(&entry.node, rest) })
    });
    found.unwrap_or(&node.place)
}

/// The error of a table that can't be read, at the first entry that is wrong by itself; `why` if
/// each entry is right.
fn blame(table: &Node, why: String) -> Diagnostic {
    let entries = table.entries().unwrap_or_default();
    let culprit = entries.iter().find_map(|entry| {
        if entry.key == "endpoints" {
            return entry.node.entries().ok()?.iter().find_map(blame_script);
        }
        let alone = serde_json::json!({ &entry.key: entry.node.to_json().ok()? });
        let refused = serde_json::from_value::<Table>(alone).err()?;
        Some(said_of(entry, &refused.to_string()))
    });
    culprit.unwrap_or_else(|| table.place.error(why))
}

fn blame_script(script: &Entry) -> Option<Diagnostic> {
    let why = parse::<Script>(&script.node).err()?;
    let entries = script.node.entries().unwrap_or_default();
    let replies = entries.iter().flat_map(|entry| match &entry.node.data {
        retrial::dialect::tree::Data::List(items) => items.iter().collect(),
        _ if entry.key == "then" => vec![&entry.node],
        _ => vec![],
    });
    let mut wrong = replies.filter_map(|r| Some(r.place.error(parse::<Reply>(r).err()?)));
    Some(wrong.next().unwrap_or_else(|| said_of(script, &why)))
}

/// An unknown key is wrong itself, else its value is.
fn said_of(entry: &Entry, why: &str) -> Diagnostic {
    let of_key = why.starts_with("unknown field");
    if of_key { entry.place.error(why) } else { entry.node.place.error(why) }
}
