//! Where dependencies come from and under which licences. `deny.toml` says the same to cargo-deny,
//! which `.ci/run` runs; this holds everywhere, without a network.

use std::process::Command;

use serde_json::Value;

use super::source::{read, root};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The packages of this workspace.
const MEMBERS: [&str; 10] = [
    "retrial",
    "retrial-bench",
    "retrial-core",
    "retrial-fuzz",
    "retrial-lab",
    "retrial-releases",
    "retrial-service",
    "retrial-sim",
    "retrial-testkit",
    "xtask",
];

/// Licences that a binary under MIT or Apache-2.0 may carry; also the list of `deny.toml`.
const LICENCES: [&str; 13] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression can be met by allowed licences. `/` is the old way to write `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize) -> bool {
    let mut allowed = all_of(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        allowed |= all_of(tokens, at);
    }
    allowed
}

fn all_of(tokens: &[&str], at: &mut usize) -> bool {
    let mut allowed = one(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(tokens, at);
    }
    allowed
}

fn one(tokens: &[&str], at: &mut usize) -> bool {
    let first = tokens.get(*at).copied().unwrap_or_default();
    *at += 1;
    if first == "(" {
        let allowed = any_of(tokens, at);
        *at += 1;
        return allowed;
    }
    match tokens.get(*at..*at + 2) {
        Some(["WITH", exception]) => {
            *at += 2;
            LICENCES.contains(&format!("{first} WITH {exception}").as_str())
        }
        _ => LICENCES.contains(&first),
    }
}

/// Packages of `cargo metadata` whose licence is not allowed or not given.
fn unlicensed(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let wrong = packages.iter().filter(|p| !p["license"].as_str().is_some_and(is_allowed));
    wrong.map(|p| format!("{}: licence {} is not allowed", p["name"], p["license"])).collect()
}

/// Packages of a lock file that come from elsewhere than crates.io or this workspace, or whose
/// bytes are not pinned.
fn strangers(lock: &str) -> Vec<String> {
    let lock: toml::Table = lock.parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let is_strange = |p: &&toml::Value| match p.get("source").and_then(|s| s.as_str()) {
        None => !MEMBERS.map(Some).contains(&p["name"].as_str()),
        Some(source) => source != REGISTRY || p.get("checksum").is_none(),
    };
    packages
        .iter()
        .filter(is_strange)
        .map(|p| format!("{:?}: not from crates.io", p["name"]))
        .collect()
}

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// This machine's target: crates of other targets need not have been fetched.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|l| l.strip_prefix("host: ")).unwrap().to_owned()
}

#[test]
fn every_licence_is_allowed() {
    let host = host();
    let metadata = cargo(&[
        "metadata",
        "--offline",
        "--locked",
        "--format-version=1",
        "--filter-platform",
        &host,
    ]);
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    assert_eq!(unlicensed(&metadata), [""; 0]);
}

/// Crates that `deny.toml` bans, in `cargo metadata`, with who depends on them though it may not.
fn banned(metadata: &Value, deny: &toml::Table) -> Vec<String> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name_of = |id: &Value| packages.iter().find(|p| p["id"] == *id).unwrap()["name"].clone();
    let mut found = Vec::new();
    for ban in deny["bans"]["deny"].as_array().unwrap() {
        let name = ban["crate"].as_str().unwrap();
        let wrappers = ban.get("wrappers").and_then(|w| w.as_array()).cloned().unwrap_or_default();
        for node in nodes {
            let user = name_of(&node["id"]);
            let uses = node["dependencies"].as_array().unwrap().iter().any(|d| name_of(d) == name);
            if uses && !wrappers.iter().any(|w| w.as_str() == user.as_str()) {
                found.push(format!("{user} depends on {name}, which deny.toml bans"));
            }
        }
    }
    found
}

/// What cargo-deny calls bans.
#[test]
fn nothing_banned_is_used() {
    let deny: toml::Table = read("deny.toml").parse().unwrap();
    let arguments = ["metadata", "--offline", "--locked", "--format-version=1"];
    let host = host();
    let metadata = cargo(&[&arguments[..], &["--filter-platform", &host]].concat());
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    assert_eq!(banned(&metadata, &deny), [""; 0]);
    let planted = r#"bans.deny = [{ crate = "madsim", wrappers = ["retrial"] }]"#.parse().unwrap();
    assert!(banned(&metadata, &planted).iter().any(|found| found.contains("retrial-sim")));
}

#[test]
fn every_dependency_comes_from_crates_io() {
    assert_eq!(strangers(&read("Cargo.lock")), [""; 0]);
}

#[test]
fn deny_toml_allows_the_same_licences() {
    let deny: toml::Table = read("deny.toml").parse().unwrap();
    let listed = deny["licenses"]["allow"].as_array().unwrap();
    assert_eq!(listed.iter().map(|l| l.as_str().unwrap()).collect::<Vec<_>>(), LICENCES);
}

#[test]
fn licence_expressions_are_read() {
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "GPL-3.0 OR MIT",
        "Unlicense/MIT",
        "Apache-2.0 / MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    ] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in ["GPL-3.0", "", "MIT AND GPL-3.0", "(MIT OR GPL-2.0) AND AGPL-3.0", "MIT MIT"] {
        assert!(!is_allowed(bad), "{bad}");
    }
}

#[test]
fn a_wrong_package_is_found() {
    let metadata = serde_json::json!({ "packages": [
        { "name": "a", "license": "MIT" },
        { "name": "b", "license": "GPL-3.0" },
        { "name": "c", "license": null },
    ]});
    assert_eq!(unlicensed(&metadata).len(), 2);
    let lock = "[[package]]\nname = \"a\"\nsource = \"git+https://example.org/a\"\n\
                [[package]]\nname = \"b\"\n\
                [[package]]\nname = \"retrial\"\n";
    assert_eq!(strangers(lock).len(), 2);
}
