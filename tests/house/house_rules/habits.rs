//! Habits that determinism and readers rest on.

use super::source::{code, hold, line_at, read, rust_files, words};

const SIMULATED: [&str; 5] =
    ["src", "crates/core/src", "crates/lab/src", "crates/service/src", "sim/src"];
const ROOT: [&str; 5] = ["src", "crates/core", "crates/service", "tests", "benches"];
const ALL: [&str; 7] = ["src", "crates", "tests", "benches", "examples", "sim/src", "sim/tests"];

/// `select!` without `biased;` draws chance that no seed controls.
fn unbiased_selects(text: &str) -> Vec<String> {
    let code = code(text);
    let calls = words(&code, "select!").filter(|at| {
        let body = code[at + "select!".len()..].trim_start();
        !body.starts_with(['{', '(']) || !body[1..].trim_start().starts_with("biased;")
    });
    calls.map(|at| format!("line {}: `biased;` does not come first", line_at(&code, at))).collect()
}

/// The order of a hash map is chance that no seed controls.
fn hash_order(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    for (word, instead) in [("HashMap", "BTreeMap"), ("HashSet", "BTreeSet")] {
        found.extend(
            words(&code, word)
                .map(|at| format!("line {}: use `{instead}`, not `{word}`", line_at(&code, at))),
        );
    }
    found
}

/// The root package knows nothing of the simulated world.
fn names_madsim(text: &str) -> Vec<String> {
    let code = code(text);
    words(&code, "madsim").map(|at| format!("line {}: names madsim", line_at(&code, at))).collect()
}

/// Dependencies of a manifest, of every kind and target, that are or rename madsim.
fn depends_on_madsim(manifest: &str) -> Vec<String> {
    let table: toml::Table = manifest.parse().unwrap();
    let lists =
        table.iter().filter(|(name, _)| name.ends_with("dependencies") || *name == "target");
    let text = lists.map(|(_, list)| format!("{list:?}")).collect::<String>();
    if text.contains("madsim") { vec!["depends on madsim".to_owned()] } else { Vec::new() }
}

/// A test that is passed by says why.
fn ignored_without_reason(text: &str) -> Vec<String> {
    let code = code(text);
    let attributes = words(&code, "ignore").filter(|at| {
        let before = code[..*at].trim_end();
        let is_attribute =
            before.ends_with("#[") || before.ends_with(',') && before.contains("cfg_attr");
        is_attribute && !code[at + "ignore".len()..].trim_start().starts_with("= \"\"")
    });
    attributes.map(|at| format!("line {}: ignored without a reason", line_at(&code, at))).collect()
}

/// What is to be done stands in an issue.
fn reminders(text: &str) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let found = marks.iter().flat_map(|mark| words(text, mark));
    found.map(|at| format!("line {}: a reminder; open an issue", line_at(text, at))).collect()
}

#[test]
fn every_select_is_biased() {
    hold(&rust_files(&SIMULATED), |f| unbiased_selects(&f.text));
    assert_eq!(unbiased_selects("tokio::select! {\n  biased;\n a => b }"), [""; 0]);
    assert_eq!(unbiased_selects("// select! {}\nselect!{ // why\n biased; }"), [""; 0]);
    assert_eq!(unbiased_selects("\ntokio::select! {\n a = b => {} }").len(), 1);
    assert_eq!(unbiased_selects("select! { a => {}, biased; }").len(), 1);
}

#[test]
fn nothing_is_in_hash_order() {
    hold(&rust_files(&SIMULATED), |f| hash_order(&f.text));
    assert_eq!(hash_order("use std::collections::{HashMap, HashSet};").len(), 2);
    assert_eq!(hash_order("// not a HashMap\nlet x = \"HashMap\";"), [""; 0]);
}

#[test]
fn the_root_package_does_not_name_madsim() {
    hold(&rust_files(&ROOT), |f| names_madsim(&f.text));
    assert_eq!(depends_on_madsim(&read("Cargo.toml")), [""; 0]);
    assert_eq!(names_madsim("#[cfg(madsim)]\nuse madsim::time;").len(), 2);
    assert_eq!(names_madsim("//! Inline on madsim.\n"), [""; 0]);
    assert_eq!(
        depends_on_madsim(
            "[dev-dependencies]\nx = { package = \"madsim-tokio\", version = \"1\" }"
        )
        .len(),
        1
    );
    assert_eq!(depends_on_madsim("[target.'cfg(unix)'.dependencies]\nmadsim = \"1\"").len(), 1);
}

#[test]
fn no_test_is_ignored_without_a_reason() {
    hold(&rust_files(&ALL), |f| ignored_without_reason(&f.text));
    assert_eq!(ignored_without_reason("#[ignore = \"needs PostgreSQL\"]"), [""; 0]);
    assert_eq!(ignored_without_reason("let _ = ignore(x);"), [""; 0]);
    assert_eq!(ignored_without_reason("#[test]\n#[ignore]\nfn f() {}").len(), 1);
    assert_eq!(ignored_without_reason("#[cfg_attr(windows, ignore)]").len(), 1);
}

#[test]
fn no_reminders_are_left_in_the_text() {
    hold(&rust_files(&ALL), |f| reminders(&f.text));
    assert_eq!(reminders(concat!("// TO", "DO: more")).len(), 1);
    assert_eq!(reminders(concat!("fn x() {} // FIX", "ME")).len(), 1);
}
