//! The sweep that docs/simulation.md shows is what is printed, and pages count the faults that there are.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::process::Command;

use retrial_sim::fault::FaultKind;
use retrial_testkit::root;

const SHOWN: &str = "$ retrial-sim run --scenario examples/payment.toml ";

#[test]
fn the_page_shows_the_sweep_that_is_printed() {
    let page = std::fs::read_to_string(root().join("docs/simulation.md")).unwrap();
    let (_, rest) = page.split_once(SHOWN).unwrap();
    let (command, rest) = rest.split_once('\n').unwrap();
    let (expected, _) = rest.split_once("```").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    program.current_dir(root()).args(SHOWN.split_whitespace().skip(2));
    let ran = program.args(command.split_whitespace()).output().unwrap();
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success());
    assert_eq!(printed, expected, "docs/simulation.md is old; it prints:\n{printed}");
}

#[test]
fn pages_count_the_kinds_of_faults() {
    let counted = format!(" {} kinds of faults", FaultKind::ALL.len());
    for page in ["README.md", "docs/simulation.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&counted), "{page} does not say \"{counted}\"");
    }
}
