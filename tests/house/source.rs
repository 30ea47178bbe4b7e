//! The project's files, and Rust text without its comments and literals.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// From the project's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every Rust file in these folders, sorted; folders that are not there have none.
pub(crate) fn rust_files(folders: &[&str]) -> Vec<File> {
    let mut paths = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut paths);
    }
    paths.sort();
    let files = paths.iter().filter_map(|path| path.strip_prefix(root()).ok());
    let named = files.map(|path| path.to_string_lossy().replace('\\', "/"));
    named.map(|path| File { text: read(&path), path }).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|e| e == "rs") {
            paths.push(path);
        }
    }
}

/// Applies `rule` to each file and fails with all that it finds.
pub(crate) fn hold(files: &[File], rule: impl Fn(&File) -> Vec<String>) {
    assert!(!files.is_empty(), "there is nothing to hold the rule against");
    let broken: Vec<_> = files
        .iter()
        .flat_map(|f| rule(f).into_iter().map(|b| format!("{}: {b}", f.path)))
        .collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// The same text with comments blanked and texts and characters emptied. Keeps every line's number.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (skipped, kept) = match c {
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), ""),
            '/' if rest.starts_with("/*") => (block(rest), " "),
            '"' => (quoted(rest, '"'), "\"\""),
            'r' | 'b' if !after_word && raw(rest).is_some() => (raw(rest).unwrap_or(1), "\"\""),
            '\'' if is_char(rest) => (quoted(rest, '\''), "''"),
            c => (c.len_utf8(), &rest[..c.len_utf8()]),
        };
        code.push_str(kept);
        if kept.len() != skipped {
            code.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        }
        rest = &rest[skipped..];
    }
    code
}

/// The length of a block comment, with those nested in it.
fn block(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let step = match rest {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a literal that ends with an unescaped `mark`.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw text, if one begins here.
fn raw(text: &str) -> Option<usize> {
    let from = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = from.len() - from.trim_start_matches('#').len();
    let body = from[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Whether a quote begins a character, not a lifetime.
fn is_char(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => true,
        (Some(_), Some(second)) => second == '\'',
        _ => false,
    }
}

/// Where `word` stands by itself in code.
pub(crate) fn words<'t>(code: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
    })
}

/// The number of the line at this place, from 1.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "a(\"x // y\\\" z\"); // HashMap\nlet c = '\"'; /* b /* c */\n d */ r#\"q \" w\"# <'a> b\"s\"";
    assert_eq!(code(text), "a(\"\"); \nlet c = '';  \n \"\" <'a> b\"\"");
    assert_eq!(words("HashMap FxHashMap HashMaps", "HashMap").collect::<Vec<_>>(), [0]);
}
