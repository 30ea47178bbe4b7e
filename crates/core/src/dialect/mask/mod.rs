//! A definition as it may be shown: its structure, and no value that could be a secret.
//!
//! Masks the tree, never the text: a secret can be spelled in many ways. Only what is known to be
//! structure stays as it is; every other value is masked. Comments are left out, and the layout is
//! not that of the text.

mod program;

use std::collections::BTreeSet;

use super::file::{ACTION_KEYS, STEP_KEYS, header_parts};
use super::tree::print::print;
use super::tree::{Data, Entry, Format, Node};
use super::{Diagnostic, Place, ir, policy, write};
use crate::failure::sanitise::{self, MASK};
use crate::policy::{Policy, PolicyParts, Scope};
use crate::workflow::{HeaderText, Template};

pub use program::masked_program;

/// A workflow file without its secrets, in the same format and with the same keys. Shown are ids,
/// names, policies, paths of conditions, hosts, and of a URL's path short words of lower-case
/// letters. Masked is every value of the input, of arguments, of lists to fan out over, of
/// conditions, of headers and of the simulation. A reference such as `${input.x}` and a header's
/// `env:NAME` stay.
///
/// # Errors
/// The first place where the text breaks the format's grammar.
pub fn masked_workflow(file: &str, text: &str, format: Format) -> Result<String, Diagnostic> {
    let top = Node::parse(file, text, format)?;
    Ok(print(&shown(&top, Part::Workflow), format))
}

/// What a node is.
#[derive(Clone, Copy)]
enum Part {
    Workflow,
    Actions,
    Action,
    Headers,
    Header,
    Url,
    Step,
    Transition,
    Condition,
    Brackets,
    /// Structure: ids, names, policies.
    Plain,
    /// Anything that a user may put a secret in.
    Value,
}

impl Part {
    /// What stands under `key`.
    fn under(self, key: &str) -> Self {
        match (self, key) {
            (Self::Workflow, "actions") => Self::Actions,
            (Self::Workflow, "steps") => Self::Step,
            (Self::Workflow, "transitions") => Self::Transition,
            (Self::Workflow, "workflow" | "rollback" | "defaults") => Self::Plain,
            (Self::Actions, _) => Self::Action,
            (Self::Action, "http") => Self::Url,
            (Self::Action, "headers") => Self::Headers,
            (Self::Headers, _) => Self::Header,
            (Self::Step, "args" | "for_each") => Self::Value,
            (Self::Step, "requires" | "ensures") | (Self::Transition, "condition") => {
                Self::Condition
            }
            (Self::Action | Self::Step | Self::Plain, "retry") => Self::Brackets,
            (Self::Action | Self::Step, key) if policy::KEYS.contains(&key) => Self::Plain,
            (Self::Action, key) if ACTION_KEYS.contains(&key) => Self::Plain,
            (Self::Step, key) if STEP_KEYS.contains(&key) => Self::Plain,
            (Self::Transition, "from" | "to" | "priority" | "on_error") => Self::Plain,
            (Self::Condition, "type" | "field" | "path") => Self::Plain,
            (Self::Condition, "condition" | "conditions") => Self::Condition,
            (Self::Plain, _) => Self::Plain,
            _ => Self::Value,
        }
    }

    fn text(self, place: &Place, text: &str) -> String {
        match self {
            Self::Header => header(text),
            Self::Url => endpoint(text),
            Self::Brackets => {
                let policy = ir::brackets(place, text).ok();
                policy.and_then(brackets).unwrap_or_else(|| MASK.to_owned())
            }
            Self::Value => value(text),
            _ => plain(text),
        }
    }
}

fn shown(node: &Node, part: Part) -> Node {
    let data = match &node.data {
        Data::Null => Data::Null,
        Data::Text(text) => Data::Text(part.text(&node.place, text).into()),
        Data::List(items) => Data::List(items.iter().map(|item| shown(item, part)).collect()),
        Data::Table(entries) => Data::Table(entries_shown(entries, part)),
        Data::Bool(_) | Data::Number(_) => match part {
            Part::Value | Part::Header | Part::Url => Data::Text(MASK.into()),
            _ => node.data.clone(),
        },
    };
    Node { place: node.place.clone(), data }
}

/// A key that is masked is numbered where another is masked too: keys are unique.
fn entries_shown(entries: &[Entry], part: Part) -> Box<[Entry]> {
    let mut taken: BTreeSet<&str> = entries.iter().map(|e| e.key.as_str()).collect();
    taken.insert(MASK);
    let mut masked = 0_usize;
    let mut key = |key: &str| match plain(key) {
        same if same == key => same,
        _ => loop {
            masked += 1;
            let numbered = format!("{MASK}{masked}");
            if !taken.contains(numbered.as_str()) {
                return numbered;
            }
        },
    };
    let entry = |e: &Entry| Entry {
        key: key(&e.key),
        place: e.place.clone(),
        node: shown(&e.node, part.under(&e.key)),
    };
    entries.iter().map(entry).collect()
}

/// A text of the structure, unless something in it looks like a secret.
fn plain(text: &str) -> String {
    let clean = sanitise::message(text, text.len());
    if clean == text { clean } else { MASK.to_owned() }
}

/// A policy as IR brackets; `None` where it says nothing.
fn brackets(policy: Policy) -> Option<String> {
    let mut parts = PolicyParts::from(policy);
    for rule in &mut parts.rules {
        if let Scope::Names(names) = &mut rule.matcher.scope {
            *names = names.iter().map(|name| plain(name)).collect();
        }
    }
    write::ir(&Policy::try_from(parts).ok()?)
}

/// The references of a text; all else is masked.
fn value(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((path, after)) = after.split_once('}') else { break };
        if !before.is_empty() {
            shown.push_str(MASK);
        }
        let reference = format!("${{{path}}}");
        let is_one = Template::try_from(serde_json::Value::from(reference.as_str())).is_ok();
        shown.push_str(if is_one && plain(&reference) == reference { &reference } else { MASK });
        rest = after;
    }
    if !rest.is_empty() || shown.is_empty() {
        shown.push_str(MASK);
    }
    shown
}

/// The names of a header's variables; all else is masked.
fn header(text: &str) -> String {
    let part = |part: &HeaderText| match part {
        HeaderText::Env(name) => plain(&format!("env:{name}")),
        // What stands before a variable shows where its name begins.
        HeaderText::Literal(text) if text.ends_with(' ') => format!("{MASK} "),
        HeaderText::Literal(_) | HeaderText::Joined(_) => MASK.to_owned(),
    };
    let read = header_parts(text);
    read.map_or_else(|| MASK.to_owned(), |read| read.parts().into_iter().map(part).collect())
}

/// The longest part of a path that is shown.
const WORD: usize = 20;

/// `POST http://host/path?query`: the host, and words of the path.
fn endpoint(text: &str) -> String {
    let Some((method, url)) = text.trim().split_once(char::is_whitespace) else {
        return MASK.to_owned();
    };
    let Some((scheme @ ("http" | "https"), rest)) = url.trim().split_once("://") else {
        return MASK.to_owned();
    };
    let (path, query) = match rest.split_once(['?', '#']) {
        Some((path, _)) => (path, format!("?{MASK}")),
        None => (rest, String::new()),
    };
    let mut parts = path.split('/');
    let host = parts.next().map(plain).filter(|host| !host.contains('@'));
    let mut shown = format!("{} {scheme}://{}", plain(method), host.as_deref().unwrap_or(MASK));
    let mut before = "";
    for part in parts {
        let shown_as_is = is_word(part) || is_argument(part);
        let hidden = sanitise::names_a_secret(before) || !shown_as_is;
        shown.push('/');
        shown.push_str(if hidden { MASK } else { part });
        before = part;
    }
    shown + &query
}

/// `${args.NAME}`.
fn is_argument(part: &str) -> bool {
    let name = part.strip_prefix("${args.").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(is_word)
}

/// A word of lower-case letters, or a version such as `v1`.
fn is_word(part: &str) -> bool {
    let is_version = part.strip_prefix('v').is_some_and(|n| n.len() == 1);
    let is_plain = |b: u8| b.is_ascii_lowercase() || matches!(b, b'-' | b'_');
    part.len() <= WORD && (part.bytes().all(is_plain) || is_version) && plain(part) == part
}
