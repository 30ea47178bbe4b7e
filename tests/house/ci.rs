//! What docs/ci.md offers for CI elsewhere, as far as it runs here.

use std::collections::BTreeSet;
use std::process::Command;

use crate::source::{read, root};

const PAGE: &str = "docs/ci.md";

/// The shell lines of the page that have `part`, as they stand in its YAML.
fn lines(part: &str) -> Vec<String> {
    let page = read(PAGE);
    let lines = page.lines().filter(|line| line.contains(part));
    lines.map(|line| line.trim().trim_start_matches("- ").to_owned()).collect()
}

/// What `script` sets RETRIAL_SEEDS to, with these variables.
fn seeds(script: &str, variables: &[(&str, String)]) -> (u64, u64) {
    let there = tempfile::tempdir().unwrap();
    let file = there.path().join("environment");
    let script =
        format!("{script}\ncat \"$GITHUB_ENV\" 2>/dev/null || echo RETRIAL_SEEDS=$RETRIAL_SEEDS");
    let mut shell = Command::new("bash");
    shell.args(["-euc", &script]).envs(variables.iter().cloned()).env("GITHUB_ENV", &file);
    let said = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let range = said.trim().strip_prefix("RETRIAL_SEEDS=").unwrap_or_else(|| panic!("{said:?}"));
    let (first, end) = range.split_once("..").unwrap();
    (first.parse().unwrap(), end.parse().unwrap())
}

/// Two nights after each other look at the same number of seeds, none of them twice.
#[track_caller]
fn check_nights(of: impl Fn(u64, u64) -> (u64, u64)) {
    let ranges = (7..9).flat_map(|night| (0..8).map(move |shard| (night, shard)));
    let mut seen = BTreeSet::new();
    for (night, shard) in ranges {
        let (first, end) = of(night, shard);
        assert_eq!((first, end - first), ((night * 8 + shard) * 1_000, 1_000));
        assert!((first..end).all(|seed| seen.insert(seed)), "{night} {shard}");
    }
}

#[test]
fn each_night_has_seeds_of_its_own() {
    let [github, gitlab] = &lines("first=$((")[..] else { panic!("two nights") };
    let [to_file, exported] = &lines("$first..$((first + 1000))")[..] else { panic!("two") };
    assert_eq!(lines("shard: ["), ["shard: [0, 1, 2, 3, 4, 5, 6, 7]"]);
    check_nights(|night, shard| {
        let script =
            format!("{github}\n{to_file}").replace("${{ matrix.shard }}", &shard.to_string());
        seeds(&script, &[("GITHUB_RUN_NUMBER", night.to_string())])
    });
    assert_eq!(lines("parallel: "), ["parallel: 8"]);
    check_nights(|night, shard| {
        let variables =
            [("CI_PIPELINE_IID", night.to_string()), ("CI_NODE_INDEX", (shard + 1).to_string())];
        seeds(&format!("{gitlab}\n{exported}"), &variables)
    });
}

#[test]
fn what_is_kept_of_a_failure_is_where_a_check_writes_it() {
    let (page, guide) = (read(PAGE), read("docs/testing-your-own.md"));
    assert_eq!(lines("target/retrial-checks").len(), 4, "the text and each job");
    assert!(guide.contains("RETRIAL_CAPSULE=target/retrial-checks/"));
    for name in page.split(|c: char| !c.is_ascii_uppercase() && c != '_') {
        assert!(!name.starts_with("RETRIAL_") || guide.contains(name), "{name}");
    }
}

#[test]
fn the_projects_own_workflow_runs_what_is_run_here() {
    let workflow = read(".github/workflows/ci.yml");
    assert!(workflow.lines().any(|line| line.trim() == "- run: .ci/run"), "{workflow}");
    assert!(root().join(".ci/run").is_file());
}
