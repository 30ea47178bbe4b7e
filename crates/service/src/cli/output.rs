//! Output on stdout: cleaned texts of users and endpoints, tables, JSON.

use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;

use retrial::failure::sanitise;
use serde_json::Value;

use super::error::CliError;

/// The longest text shown, in characters.
const MAX_TEXT: usize = 500;

/// `text` on one line, without secrets.
pub(super) fn clean(text: &str) -> String {
    let shown = sanitise::message(text, MAX_TEXT);
    shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The cleaned text in a field; `None` if there is none.
pub(super) fn text(of: &Value, name: &str) -> Option<String> {
    of[name].as_str().map(clean)
}

/// The cleaned text in a field; empty if there is none.
pub(super) fn field(of: &Value, name: &str) -> String {
    text(of, name).unwrap_or_default()
}

/// The entries of the list in a field.
pub(super) fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Rows as lines with aligned columns. The first row is the header.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |n: usize| rows.iter().filter_map(|r| r.get(n)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|n| width(n).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Prints to stdout. A closed pipe is no error.
pub(super) fn print(text: &str) -> Result<ExitCode, CliError> {
    match stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::input(format!("stdout can't be written: {e}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints JSON, indented.
pub(super) fn print_json(value: &Value) -> Result<ExitCode, CliError> {
    print(&escaped(&format!("{value:#}\n")))
}

/// JSON on one line.
pub(super) fn json_line(value: &Value) -> String {
    escaped(&value.to_string())
}

/// JSON may hold control characters beyond ASCII, which some terminals obey.
fn escaped(json: &str) -> String {
    let moves = |c: char| c.is_control() && c != '\n';
    json.chars().fold(String::with_capacity(json.len()), |mut shown, c| {
        match moves(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
        shown
    })
}
