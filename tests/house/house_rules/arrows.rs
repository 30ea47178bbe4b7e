//! A room imports only rooms before it (docs/architecture.md, "Rooms", "Rooms of the simulation" and
//! "Rooms of the laboratory"), and the files of some folders import each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{File, code, hold, line_at, read, rust_files, words};

/// Rooms in their order. Rooms in one row do not know each other.
type Order = &'static [&'static [&'static str]];

/// The rooms of the core and of `retrial`.
const ROOMS: Order = &[
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
    &["net"],
    &["retry"],
    &["store", "action", "observe"],
    &["engine"],
];

/// The rooms of `sim/src`.
const SIM_ROOMS: Order = &[
    &["sync"],
    &["clock"],
    &["fault"],
    &["incarnation"],
    &["trace"],
    &["watchdog"],
    &["records"],
    &["runtime"],
    &["scenario"],
    &["net"],
    &["remote"],
    &["disk"],
    &["disk_states"],
    &["node"],
    &["user"],
    &["endpoint"],
    &["evidence"],
    &["oracle"],
    &["report"],
    &["sweep"],
    &["verify"],
    &["history"],
    &["workload"],
    &["source"],
    &["explore"],
    &["shrink"],
    &["world"],
    &["crash_points"],
    &["capsule"],
    &["blame"],
    &["page"],
    &["check"],
    &["cli"],
];

/// The rooms of `crates/lab/src`.
const LAB_ROOMS: Order = &[
    &["numeric"],
    &["histogram"],
    &["model"],
    &["read"],
    &["measure"],
    &["world"],
    &["judge"],
    &["change"],
    &["summary"],
    &["terminal"],
    &["map"],
    &["search"],
    &["page"],
    &["cli"],
];

/// Folders whose files form no circle of imports.
const NO_CIRCLES: &[&str] = &[
    "crates/core/src/dialect",
    "crates/core/src/failure/sanitise",
    "crates/core/src/guard",
    "crates/core/src/policy",
    "crates/core/src/run",
    "crates/core/src/schedule",
    "crates/core/src/workflow",
    "crates/service/src/cli",
    "sim/src/check",
    "sim/src/disk_states",
    "sim/src/endpoint",
    "sim/src/oracle/guards",
    "sim/src/workload",
    "sim/src/world",
    "src/action",
    "src/observe",
    "src/runtime",
    "src/store/conformance",
    "src/store/postgres",
    "src/store/redb",
];

fn row(order: Order, room: &str) -> Option<usize> {
    order.iter().position(|row| row.contains(&room))
}

/// The room of a file: `src/store/mod.rs`, `crates/core/src/policy/backoff.rs` and
/// `crates/core/src/time.rs`.
fn room_of(path: &str) -> &str {
    let (_, inner) = path.split_once("src/").unwrap_or(("", path));
    let inner = inner.trim_end_matches(".rs");
    inner.split('/').next().unwrap_or(inner)
}

/// The arrows in `text`, a file of `room`, that do not point back.
fn wrong_arrows(order: Order, room: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let Some(own) = row(order, room) else {
        return vec![format!("room `{room}` is not in the order; give it a place")];
    };
    let mut wrong = Vec::new();
    for (at, other) in imports(&code, "crate::") {
        let fine = other == room || row(order, &other).is_some_and(|row| row < own);
        // `crate::Name`, a macro's or an item's of the root, is no room.
        if !fine && other.starts_with(|c: char| c.is_lowercase()) {
            wrong.push(format!("line {}: `{room}` may not know `{other}`", line_at(&code, at)));
        }
    }
    wrong
}

/// Every first segment after `prefix`, also inside braces, with its place.
fn imports(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in words(code, prefix.split("::").next().unwrap_or(prefix)) {
        let Some(path) = code[at..].strip_prefix(prefix) else { continue };
        if code[..at].ends_with("::") {
            continue;
        }
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

/// The files of `folder` that lie in circles of imports or between two of them. The files of a folder
/// in it count as one. What a file names through its parent is an arrow to the file that the parent
/// re-exports it from; what the parent itself defines is none.
fn circles(folder: &str, files: &[File]) -> BTreeSet<String> {
    let room = folder.rsplit('/').next().unwrap_or(folder);
    let parent = files.iter().find(|file| file.path == format!("{folder}/mod.rs"));
    let origins = parent.map(|file| origins(&code(&file.text))).unwrap_or_default();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let Some(path) = file.path.strip_prefix(folder).map(|p| p.trim_start_matches('/')) else {
            continue;
        };
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let name = module.split('/').next().unwrap_or(module).to_owned();
        let (code, up) = (code(&file.text), "super::".repeat(module.split('/').count()));
        let named = [up, format!("crate::{room}::")].map(|prefix| imports(&code, &prefix));
        let named = named.into_iter().flatten().map(|(_, other)| other);
        let others = named.map(|other| origins.get(&other).cloned().unwrap_or(other));
        arrows.entry(name.clone()).or_default().extend(others.filter(|other| *other != name));
    }
    arrows.remove("mod");
    loop {
        let left = arrows.len();
        let named: BTreeSet<String> = arrows.values().flatten().cloned().collect();
        let files: BTreeSet<String> = arrows.keys().cloned().collect();
        arrows.retain(|name, others| named.contains(name) && !others.is_disjoint(&files));
        if arrows.len() == left {
            return files;
        }
    }
}

/// The items that a parent re-exports, each with the file that it is from.
fn origins(parent: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for at in words(parent, "use") {
        let path = parent[at + "use".len()..].split(';').next().unwrap_or_default().trim();
        let Some((file, items)) = path.trim_start_matches("self::").split_once("::") else {
            continue;
        };
        let items = items.strip_prefix('{').map_or_else(|| vec![ident(items)], top_level);
        found.extend(items.into_iter().map(|item| (item, file.to_owned())));
    }
    found
}

fn hold_order(order: Order, folders: &[&str]) {
    let mut files = rust_files(folders);
    files.retain(|f| !["lib", "main"].contains(&room_of(&f.path)));
    hold(&files, |f| wrong_arrows(order, room_of(&f.path), &f.text));
}

#[test]
fn a_room_imports_only_rooms_before_it() {
    hold_order(ROOMS, &["crates/core/src", "src"]);
    hold_order(SIM_ROOMS, &["sim/src"]);
    hold_order(LAB_ROOMS, &["crates/lab/src"]);
}

#[test]
fn files_of_these_folders_import_each_other_in_one_direction() {
    for folder in NO_CIRCLES {
        let files = rust_files(&[folder]);
        assert!(files.len() > 2, "{folder} has no files to hold the rule against");
        let found = circles(folder, &files);
        assert!(found.is_empty(), "circles of imports in {folder}, among {found:?}");
    }
}

#[test]
fn the_architecture_page_gives_the_same_order() {
    let page = read("docs/architecture.md");
    let tables = [
        ("Rooms", ROOMS),
        ("Rooms of the simulation", SIM_ROOMS),
        ("Rooms of the laboratory", LAB_ROOMS),
    ];
    for (title, order) in tables {
        let (_, section) = page.split_once(&format!("\n## {title}\n")).expect(title);
        let section = section.split("\n## ").next().unwrap_or(section);
        let (_, table) = section.split_once("| room | decides |").expect(title);
        let named = table.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` |"));
        let listed: Vec<&str> = named.map(|(room, _)| room).collect();
        let rooms: Vec<&str> = order.iter().flat_map(|row| row.iter().copied()).collect();
        assert_eq!(listed, rooms, "docs/architecture.md lists other rooms under {title}");
    }
}

#[test]
fn a_wrong_arrow_is_found() {
    let found = |room, text| wrong_arrows(ROOMS, room, text).len();
    assert_eq!(found("policy", "use crate::failure::Failure;\nuse crate::policy::Limit;"), 0);
    assert_eq!(found("policy", "use crate::run::Event;"), 1);
    assert_eq!(found("store", "use crate::action::Call;"), 1);
    assert_eq!(found("observe", "fn f(_: crate::store::Commit) {}"), 1);
    assert_eq!(found("failure", "use crate::{time::{Nanos, Mono}, engine::Engine, run};"), 2);
    assert_eq!(found("time", "// crate::engine decides.\n/// [`crate::run::Event`]\nfn f() {}"), 0);
    assert_eq!(found("attic", ""), 1);
    assert_eq!(
        wrong_arrows(ROOMS, "run", "\n\nuse crate::store::X;"),
        ["line 3: `run` may not know `store`"]
    );
    assert_eq!(
        wrong_arrows(
            SIM_ROOMS,
            "runtime",
            "use crate::clock::true_time;\nuse crate::node::SimNode;"
        ),
        ["line 2: `runtime` may not know `node`"]
    );
}

#[test]
fn a_circle_is_found() {
    let file = |path: &str, text: &str| File { path: format!("x/house/{path}"), text: text.into() };
    let files = [
        file("mod.rs", "mod a;\npub use b::B;\nunstable! {\n use e::{E, F};\n}\nstruct Own;"),
        file("a.rs", "use super::{B, Own};"),
        file("b/mod.rs", "use super::c::{C, D};"),
        file("b/deep.rs", "use super::super::d::D;\nuse super::a::Own;"),
        file("c.rs", "use crate::house::{a::A};\n// use super::d::D;"),
        file("d.rs", "use crate::other::a;"),
        file("e.rs", "use super::f::G;\nuse super::E;"),
        file("f.rs", "use super::{E, F};"),
    ];
    let found = |files: &[File]| circles("x/house", files).into_iter().collect::<Vec<_>>();
    assert_eq!(found(&files), ["a", "b", "c", "e", "f"]);
    assert_eq!(found(&files[..6]), ["a", "b", "c"]);
    assert_eq!(found(&files[..4]), [""; 0]);
}
