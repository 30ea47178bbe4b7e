//! The repository itself: rows D3 and D5 to D7. D1, D2 and D4 are `sim/tests`' and `properties.rs`'.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::source;

use source::{code, read, root, rust_files};
use toml::Table;

fn manifest(path: &str) -> Table {
    read(path).parse().unwrap()
}

/// The names in a list of tables or texts below these keys.
fn names(manifest: &Table, keys: &[&str]) -> Vec<String> {
    let (last, tables) = keys.split_last().unwrap();
    let table = tables.iter().fold(manifest, |table, key| table[*key].as_table().unwrap());
    match &table[*last] {
        toml::Value::Table(entries) => entries.keys().cloned().collect(),
        toml::Value::Array(entries) => entries
            .iter()
            .map(|e| e.get("name").unwrap_or(e).as_str().unwrap().to_owned())
            .collect(),
        other => panic!("{keys:?}: {other:?}"),
    }
}

/// Plain `cargo test` takes the simulation's package in, whose sweep is an ordinary test; the
/// checks before a change is taken do the same.
#[test]
fn d3_cargo_test_runs_the_simulation() {
    let root = manifest("Cargo.toml");
    assert_eq!(
        names(&root, &["workspace", "default-members"]),
        [".", "crates/core", "crates/lab", "crates/service", "sim"]
    );
    assert!(read(".cargo/config.toml").contains(r#"rustflags = ["--cfg", "madsim"]"#));
    let sweep = code(&read("sim/tests/seeds/sweep.rs"));
    assert!(sweep.contains("#[test]\nfn d1_d3_every_promise_holds"), "the sweep is a test");
    assert!(!sweep.contains("ignore"), "and is never passed by");
    assert!(read("scripts/test.sh").contains("cargo test --workspace"));
    assert!(read(".ci/run").contains("(scripts/test.sh "));
}

/// Each bench is declared without the test harness, is criterion's, and says how much it moves; the
/// checks compile all of them.
#[test]
fn d5_cargo_bench_measures_the_scheduler() {
    let mut scheduling = 0;
    let folders = [
        ("benches", "Cargo.toml"),
        ("crates/lab/benches", "crates/lab/Cargo.toml"),
        ("sim/benches", "sim/Cargo.toml"),
    ];
    for (folder, path) in folders {
        let manifest = manifest(path);
        let declared = manifest["bench"].as_array().unwrap();
        let files = rust_files(&[folder]);
        let beside = |path: &str| path.strip_prefix(folder).is_some_and(|p| !p[1..].contains('/'));
        let files = files.iter().filter(|file| beside(&file.path)).count();
        assert_eq!(declared.len(), files, "{folder}");
        for bench in declared {
            let name = bench["name"].as_str().unwrap();
            assert_eq!(bench["harness"].as_bool(), Some(false), "{name}");
            let text = read(&format!("{folder}/{name}.rs"));
            // It counts bytes, not time.
            assert!(text.contains("criterion_main!(") || name == "waiting", "{name}");
            let moves = text.contains("Throughput::Elements(");
            scheduling += u32::from(moves && ["due_queue", "engine"].contains(&name));
        }
    }
    assert_eq!(scheduling, 2, "the due queue and the engine say their throughput");
    assert!(read(".ci/run").contains("cargo test --workspace --all-targets"));
}

// D6
#[test]
fn d6_built_on_the_libraries_that_the_field_trusts() {
    let (root, sim) = (manifest("Cargo.toml"), manifest("sim/Cargo.toml"));
    let needs = |manifest: &Table, kind: &str, all: &[&str]| {
        let there = names(manifest, &[kind]);
        let missing: Vec<_> = all.iter().filter(|n| !there.iter().any(|t| t == *n)).collect();
        assert!(missing.is_empty(), "{kind} lack {missing:?}");
    };
    needs(&root, "dependencies", &["tokio", "serde"]);
    needs(&root, "dev-dependencies", &["proptest", "insta", "criterion"]);
    needs(&sim, "dependencies", &["madsim", "tokio", "serde"]);
    needs(&sim, "dev-dependencies", &["proptest", "insta", "criterion"]);
}

#[test]
fn d7_the_top_level() {
    for folder in ["src", "sim", "tests", "benches"] {
        assert!(root().join(folder).is_dir(), "{folder}");
    }
    for file in ["Cargo.toml", "README.md"] {
        assert!(root().join(file).is_file(), "{file}");
    }
    assert!(root().join("sim/Cargo.toml").is_file(), "the simulation is a package of its own");
}

/// The crates of the default build, the library's own among them, as the README counts them.
const DEFAULT_CRATES: usize = 48;

/// Whoever embeds the library gets no client, server, database or command line with it.
#[test]
fn the_default_build_stays_small() {
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.args(["tree", "-p", "retrial", "-e", "normal", "--prefix", "none", "--no-dedupe"]);
    tree.args(["--format", "{p}", "--locked", "--offline"]).current_dir(root());
    let told = tree.output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told = String::from_utf8(told.stdout).unwrap();
    let crates: std::collections::BTreeSet<_> = told.lines().collect();
    let has = |name: &str| crates.iter().any(|line| line.split(' ').next() == Some(name));
    for heavy in ["axum", "clap", "hyper", "rustls", "tokio-postgres", "miette"] {
        assert!(!has(heavy), "{heavy} is in the default build");
    }
    assert_eq!(crates.len(), DEFAULT_CRATES, "{crates:?}");
    let said = format!("{DEFAULT_CRATES} crates");
    assert!(read("README.md").contains(&said), "README.md does not say `{said}`");
}

/// What `cargo mutants` goes through is there: the rooms that know no store, no network and no
/// clock, and the tests that it asks. Each room is in the page's table.
#[test]
fn what_is_mutated_is_there() {
    let config = manifest(".cargo/mutants.toml");
    let texts = |key: &str| names(&config, &[key]);
    let page = read("docs/cargo-mutants.md");
    for glob in texts("examine_globs") {
        // A room is a folder or one file.
        let folder = glob.strip_suffix("/**/*.rs");
        let is_there =
            folder.map_or(root().join(&glob).is_file(), |f| !rust_files(&[f]).is_empty());
        assert!(is_there, "{glob}");
        let room = folder.or(glob.strip_suffix(".rs")).unwrap_or_else(|| panic!("{glob}"));
        let row = format!("| `{}` |", room.strip_prefix("crates/core/src/").unwrap());
        assert!(page.contains(&row), "docs/cargo-mutants.md lacks {row}");
    }
    for argument in texts("additional_cargo_args").iter().filter(|a| *a != "--lib") {
        let test = argument.strip_prefix("--test=").unwrap_or_else(|| panic!("{argument}"));
        let places = ["tests", "crates/core/tests"].map(|all| format!("{all}/{test}/main.rs"));
        assert!(places.iter().any(|place| root().join(place).is_file()), "{test}");
    }
}
