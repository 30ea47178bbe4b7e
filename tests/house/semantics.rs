//! Holds `docs/semantics.md` together: every row once and in order, every named test there, every
//! test whose name begins with a row listed in that row. `SEMANTICS=write` lists the tests anew,
//! all but those of a row's parts (C18, H17): which part a test proves only its author knows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use crate::source;

use source::{code, read, rust_files, words};

const PAGE: &str = "docs/semantics.md";

/// Rows that have parts, and how many.
type InParts = &'static [(u32, u32)];

/// Each group of rows, and how many it has.
const GROUPS: [(&str, u32, InParts); 8] = [
    ("W", 16, &[]),
    ("R", 12, &[]),
    ("A", 15, &[]),
    ("C", 18, &[(18, 8)]),
    ("H", 17, &[(17, 13)]),
    ("D", 7, &[]),
    ("X", 20, &[]),
    ("Decision ", 20, &[]),
];

/// Every row's id, in order.
fn ids() -> Vec<String> {
    let mut ids = Vec::new();
    for (group, count, parts) in GROUPS {
        for n in 1..=count {
            match parts.iter().find(|(whole, _)| *whole == n) {
                Some((_, parts)) => ids.extend((1..=*parts).map(|p| format!("{group}{n}.{p}"))),
                None => ids.push(format!("{group}{n}")),
            }
        }
    }
    ids
}

/// How the names of a row's tests begin: `w8`, `decision_4`; of a part of a row as of the row.
fn word(id: &str) -> String {
    id.split('.').next().unwrap_or(id).to_lowercase().replace(' ', "_")
}

/// The rows that a test's name begins with.
fn rows_of<'w>(name: &str, known: &'w BTreeSet<String>) -> Vec<&'w str> {
    let mut rows = Vec::new();
    let mut rest = name;
    while let Some((row, after)) = known
        .iter()
        .find_map(|row| Some((row.as_str(), rest.strip_prefix(row.as_str())?.strip_prefix('_')?)))
    {
        rows.push(row);
        rest = after;
    }
    rows
}

/// Whether a name begins like a row's, though there may be no such row.
fn looks_like_a_row(name: &str) -> bool {
    let first = name.split('_').next().unwrap_or_default();
    let number = first.strip_prefix(['w', 'r', 'a', 'c', 'h', 'd', 'x']).unwrap_or_default();
    !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

/// The names of the test functions in a file's text.
fn tests_in(text: &str) -> Vec<String> {
    let code = code(text);
    let is_test = |at: usize| {
        let before = code[..at].rsplit(['}', ';', '{']).next().unwrap_or_default();
        before.contains("#[test]") || before.contains("#[tokio::test")
    };
    let name = |at: usize| {
        let rest = code[at + "fn".len()..].trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest[..end].to_owned()
    };
    words(&code, "fn").filter(|at| is_test(*at)).map(name).collect()
}

/// Every test of the project, as `path::name`, with its name.
fn all_tests() -> BTreeMap<String, String> {
    let files = rust_files(&["src", "tests", "crates", "sim/src", "sim/tests"]);
    let named = files.iter().flat_map(|file| {
        tests_in(&file.text).into_iter().map(|name| (format!("{}::{name}", file.path), name))
    });
    named.collect()
}

/// The page's rows: id and the tests that it names; none where it says that none is there yet.
fn page(text: &str) -> Vec<(String, Vec<String>)> {
    let cells = |line: &str| -> Option<(String, Vec<String>)> {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (id, rest) = line.split_once(" | ")?;
        let (_, proofs) = rest.rsplit_once(" | ")?;
        if id == "row" || id == "---" {
            return None;
        }
        let proofs = match proofs {
            "not there yet" => Vec::new(),
            named => named.split("<br>").map(|p| p.trim_matches('`').to_owned()).collect(),
        };
        Some((id.to_owned(), proofs))
    };
    text.lines().filter_map(cells).collect()
}

/// The page with the tests of its rows as they are now.
fn listed_anew(text: &str, tests: &BTreeMap<String, String>) -> String {
    let known: BTreeSet<String> = ids().iter().map(|id| word(id)).collect();
    let anew = |line: &str| -> Option<String> {
        let (head, _) = line.strip_suffix(" |")?.rsplit_once(" | ")?;
        let id = line.strip_prefix("| ")?.split_once(" | ")?.0;
        if id.contains('.') || !ids().iter().any(|i| i == id) {
            return None;
        }
        let of_row =
            |(_, name): &(&String, &String)| rows_of(name, &known).contains(&word(id).as_str());
        let proofs: Vec<String> =
            tests.iter().filter(of_row).map(|(path, _)| format!("`{path}`")).collect();
        let proofs =
            if proofs.is_empty() { "not there yet".to_owned() } else { proofs.join("<br>") };
        Some(format!("{head} | {proofs} |"))
    };
    let lines = text.lines().map(|line| anew(line).unwrap_or_else(|| line.to_owned()) + "\n");
    lines.collect()
}

/// All that is wrong with a page, given the project's tests.
fn wrong(page: &[(String, Vec<String>)], tests: &BTreeMap<String, String>) -> Vec<String> {
    let known: BTreeSet<String> = ids().iter().map(|id| word(id)).collect();
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    for (id, proofs) in page {
        for proof in proofs {
            listed.insert((word(id), proof.clone()));
            match tests.get(proof) {
                None => wrong.push(format!("{id} names {proof}, which is not there")),
                Some(name) if !rows_of(name, &known).contains(&word(id).as_str()) => {
                    wrong.push(format!("{id} names {proof}, whose name does not begin with it"));
                }
                Some(_) => {}
            }
        }
    }
    for (test, name) in tests {
        let rows = rows_of(name, &known);
        if rows.is_empty() && looks_like_a_row(name) {
            wrong.push(format!("{test} begins with a row that there is not"));
        }
        for row in rows {
            if !listed.contains(&(row.to_owned(), test.clone())) {
                wrong.push(format!("row {row} of docs/semantics.md lacks `{test}`"));
            }
        }
    }
    wrong
}

#[test]
fn every_row_is_there_once_and_in_order() {
    let page = page(&read(PAGE));
    let there: Vec<&str> = page.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(there, ids());
}

#[test]
fn every_row_has_its_tests_and_every_test_its_row() {
    if std::env::var_os("SEMANTICS").is_some_and(|v| v == "write") {
        let anew = listed_anew(&read(PAGE), &all_tests());
        std::fs::write(source::root().join(PAGE), anew).unwrap();
    }
    let wrong = wrong(&page(&read(PAGE)), &all_tests());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_row_is_proven() {
    let page = page(&read(PAGE));
    let bare: Vec<&str> =
        page.iter().filter(|(_, proofs)| proofs.is_empty()).map(|(id, _)| id.as_str()).collect();
    assert_eq!(bare, [""; 0]);
}

#[test]
fn tests_are_found_in_text() {
    let text = "#[test]\nfn w1_a() {}\nfn helper() {}\n/// fn w9()\n#[tokio::test(start_paused = true)]\n\
        async fn a1_w2_b() { fn inner() {} }\nproptest! { #![x]\n #[test]\n fn d2_c(x in y()) {} }";
    assert_eq!(tests_in(text), ["w1_a", "a1_w2_b", "d2_c"]);
    let known: BTreeSet<String> = ids().iter().map(|id| word(id)).collect();
    let check = |name: &str, rows: &[&str]| assert_eq!(rows_of(name, &known), rows, "{name}");
    check("w1_bracket", &["w1"]);
    check("w12_w13_a10_restart", &["w12", "w13", "a10"]);
    check("c18_decision_12_x", &["c18", "decision_12"]);
    check("w17_x", &[]);
    check("a_w1_test", &[]);
    assert!(looks_like_a_row("d8_x") && !looks_like_a_row("dead_x") && !looks_like_a_row("a_b"));
}

#[test]
fn a_wrong_page_is_found() {
    let tests = [("t.rs::w1_a", "w1_a"), ("t.rs::w1_w2_b", "w1_w2_b"), ("t.rs::d9_c", "d9_c")];
    let tests = tests.map(|(path, name)| (path.to_owned(), name.to_owned())).into();
    let text = "| row | what | proven by |\n| --- | --- | --- |\n\
        | W1 | `a | b` | `t.rs::w1_a`<br>`t.rs::gone` |\n| W2 | x | `t.rs::w1_a` |\n";
    insta::assert_snapshot!(wrong(&page(text), &tests).join("\n"), @"
    W1 names t.rs::gone, which is not there
    W2 names t.rs::w1_a, whose name does not begin with it
    t.rs::d9_c begins with a row that there is not
    row w1 of docs/semantics.md lacks `t.rs::w1_w2_b`
    row w2 of docs/semantics.md lacks `t.rs::w1_w2_b`
    ");
    insta::assert_snapshot!(listed_anew(text, &tests), @"
    | row | what | proven by |
    | --- | --- | --- |
    | W1 | `a | b` | `t.rs::w1_a`<br>`t.rs::w1_w2_b` |
    | W2 | x | `t.rs::w1_w2_b` |
    ");
}
