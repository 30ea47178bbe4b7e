//! A room imports only rooms before it (docs/architecture.md, "Rooms").

use super::source::{code, hold, line_at, read, rust_files, words};

/// The rooms in their order, each with its folder. Rooms in one row do not know each other.
const ROOMS: [&[&str]; 14] = [
    &["time"],
    &["failure"],
    &["policy"],
    &["guard"],
    &["workflow"],
    &["dialect"],
    &["explain"],
    &["run"],
    &["schedule"],
    &["runtime"],
    &["retry"],
    &["net"],
    &["store", "action", "observe"],
    &["engine"],
];

fn row(room: &str) -> Option<usize> {
    ROOMS.iter().position(|row| row.contains(&room))
}

/// The room of a file: `src/store/mod.rs`, `crates/core/src/policy/backoff.rs` and
/// `crates/core/src/time.rs`.
fn room_of(path: &str) -> &str {
    let (_, inner) = path.split_once("src/").unwrap_or(("", path));
    let inner = inner.trim_end_matches(".rs");
    inner.split('/').next().unwrap_or(inner)
}

/// The arrows in `text`, a file of `room`, that do not point back.
fn wrong_arrows(room: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let Some(own) = row(room) else {
        return vec![format!("room `{room}` is not in the order; give it a place")];
    };
    let mut wrong = Vec::new();
    for (at, other) in imports(&code) {
        let fine = other == room || row(&other).is_some_and(|row| row < own);
        // `crate::Name`, a macro's or an item's of the root, is no room.
        if !fine && other.starts_with(|c: char| c.is_lowercase()) {
            wrong.push(format!("line {}: `{room}` may not know `{other}`", line_at(&code, at)));
        }
    }
    wrong
}

/// Every first segment after `crate::`, also inside braces, with its place.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in words(code, "crate") {
        let Some(path) = code[at..].strip_prefix("crate::") else { continue };
        match path.strip_prefix('{') {
            Some(group) => found.extend(top_level(group).into_iter().map(|name| (at, name))),
            None => found.push((at, ident(path))),
        }
    }
    found
}

fn ident(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first segments in a group's text, up to its closing brace.
fn top_level(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            c => names.last_mut().into_iter().for_each(|n| n.push(c)),
        }
    }
    names.iter().map(|n| ident(n.trim())).filter(|n| !n.is_empty()).collect()
}

#[test]
fn a_room_imports_only_rooms_before_it() {
    let mut files = rust_files(&["crates/core/src", "src"]);
    files.retain(|f| room_of(&f.path) != "lib");
    hold(&files, |f| wrong_arrows(room_of(&f.path), &f.text));
}

#[test]
fn the_architecture_page_gives_the_same_order() {
    let page = read("docs/architecture.md");
    let named = page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` |"));
    let listed: Vec<&str> =
        named.map(|(room, _)| room).filter(|room| row(room).is_some()).collect();
    let rooms: Vec<&str> = ROOMS.iter().flat_map(|row| row.iter().copied()).collect();
    assert_eq!(listed, rooms, "docs/architecture.md lists other rooms");
}

#[test]
fn a_wrong_arrow_is_found() {
    let found = |room, text| wrong_arrows(room, text).len();
    assert_eq!(found("policy", "use crate::failure::Failure;\nuse crate::policy::Limit;"), 0);
    assert_eq!(found("policy", "use crate::run::Event;"), 1);
    assert_eq!(found("store", "use crate::action::Call;"), 1);
    assert_eq!(found("observe", "fn f(_: crate::store::Commit) {}"), 1);
    assert_eq!(found("failure", "use crate::{time::{Nanos, Mono}, engine::Engine, run};"), 2);
    assert_eq!(found("time", "// crate::engine decides.\n/// [`crate::run::Event`]\nfn f() {}"), 0);
    assert_eq!(found("attic", ""), 1);
    assert_eq!(
        wrong_arrows("run", "\n\nuse crate::store::X;"),
        ["line 3: `run` may not know `store`"]
    );
}
