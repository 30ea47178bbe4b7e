//! A tree back to text: reading it gives the same values under the same keys again.

use std::fmt::Write;

use super::{Data, Entry, Format, Node};
use crate::dialect::scan::quote;

/// How deep JSON is indented. Deeper values stand on one line, so that the text stays short.
const INDENTED: usize = 4;

/// `node`, a table, as text.
pub(in crate::dialect) fn print(node: &Node, format: Format) -> String {
    let mut text = String::new();
    match (format, &node.data) {
        (Format::Toml, Data::Table(entries)) => toml(entries, &mut text),
        _ => json(node, 0, &mut text),
    }
    text
}

fn json(node: &Node, depth: usize, to: &mut String) {
    match &node.data {
        Data::List(items) => {
            enclosed(to, ['[', ']'], depth, items, |item, to| json(item, depth + 1, to));
        }
        Data::Table(entries) => enclosed(to, ['{', '}'], depth, entries, |entry, to| {
            to.push_str(&quote(&entry.key));
            to.push_str(": ");
            json(&entry.node, depth + 1, to);
        }),
        _ => scalar(node, to),
    }
}

fn enclosed<T>(
    to: &mut String,
    [open, close]: [char; 2],
    depth: usize,
    all: &[T],
    mut each: impl FnMut(&T, &mut String),
) {
    let line = |depth: usize, to: &mut String| {
        to.push('\n');
        to.extend(std::iter::repeat_n("  ", depth));
    };
    let indented = depth < INDENTED && !all.is_empty();
    to.push(open);
    for (n, one) in all.iter().enumerate() {
        match (n, indented) {
            (0, false) => {}
            (0, true) => line(depth + 1, to),
            (_, false) => to.push_str(", "),
            (_, true) => {
                to.push(',');
                line(depth + 1, to);
            }
        }
        each(one, to);
    }
    if indented {
        line(depth, to);
    }
    to.push(close);
}

/// TOML has no null: a table that was read from it holds none.
fn scalar(node: &Node, to: &mut String) {
    match &node.data {
        Data::Bool(b) => to.push_str(if *b { "true" } else { "false" }),
        Data::Number(number) => to.push_str(number),
        Data::Text(text) => to.push_str(&quote(text)),
        Data::Null | Data::List(_) | Data::Table(_) => to.push_str("null"),
    }
}

/// What is no table first: whatever follows the head of a table belongs to it.
fn toml(entries: &[Entry], to: &mut String) {
    let (tables, values): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|e| is_table(&e.node) || tables_of(&e.node).is_some());
    values.iter().for_each(|entry| line(entry, to));
    for entry in tables {
        let key = key(&entry.key);
        match (&entry.node.data, tables_of(&entry.node)) {
            (_, Some(items)) => items.for_each(|inner| section(&format!("[[{key}]]"), inner, to)),
            (Data::Table(inner), None) if holds_tables(inner) => {
                let heads = inner.iter().map(|e| format!("[{key}.{}]", self::key(&e.key)));
                heads.zip(inner).for_each(|(head, e)| section(&head, entries_of(&e.node), to));
            }
            (_, None) => section(&format!("[{key}]"), entries_of(&entry.node), to),
        }
    }
}

fn section(head: &str, entries: &[Entry], to: &mut String) {
    if !to.is_empty() {
        to.push('\n');
    }
    to.push_str(head);
    to.push('\n');
    entries.iter().for_each(|entry| line(entry, to));
}

fn line(entry: &Entry, to: &mut String) {
    let _ = write!(to, "{} = ", key(&entry.key));
    inline(&entry.node, to);
    to.push('\n');
}

fn inline(node: &Node, to: &mut String) {
    match &node.data {
        Data::List(items) => separated(to, ["[", "]"], items, inline),
        Data::Table(entries) if entries.is_empty() => to.push_str("{}"),
        Data::Table(entries) => separated(to, ["{ ", " }"], entries, |entry, to| {
            let _ = write!(to, "{} = ", key(&entry.key));
            inline(&entry.node, to);
        }),
        _ => scalar(node, to),
    }
}

fn separated<T>(
    to: &mut String,
    [open, close]: [&str; 2],
    all: &[T],
    mut each: impl FnMut(&T, &mut String),
) {
    to.push_str(open);
    for (n, one) in all.iter().enumerate() {
        if n > 0 {
            to.push_str(", ");
        }
        each(one, to);
    }
    to.push_str(close);
}

/// A key is bare where it can be.
fn key(key: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { quote(key) }
}

fn is_table(node: &Node) -> bool {
    matches!(node.data, Data::Table(_))
}

fn holds_tables(entries: &[Entry]) -> bool {
    !entries.is_empty() && entries.iter().all(|e| is_table(&e.node))
}

/// The tables of a list that holds nothing else.
fn tables_of(node: &Node) -> Option<impl Iterator<Item = &[Entry]>> {
    let Data::List(items) = &node.data else { return None };
    let tables = !items.is_empty() && items.iter().all(is_table);
    tables.then(|| items.iter().map(entries_of))
}

fn entries_of(node: &Node) -> &[Entry] {
    node.entries().unwrap_or_default()
}
