//! Long sweeps in parts: their sum, and how they go on after an interruption.

use std::path::Path;
use std::process::Command;

use crate::cli_run::{run, run_in};

/// The lines of a summary that count something, without the fingerprint.
fn counts(summary: &str) -> Vec<&str> {
    summary.lines().filter(|l| !l.starts_with("fingerprint") && !l.starts_with("range")).collect()
}

#[test]
fn parts_add_up_to_the_whole_and_the_rarest_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    for (part, file) in [("10..13", "a.json"), ("13..17", "b.json")] {
        assert_eq!(run_in(folder.path(), &format!("run --seeds {part} --json {file}")).code, 0);
    }
    let total = run_in(folder.path(), "total a.json b.json");
    assert_eq!(total.code, 0, "{total:?}");
    let (sum, rarest) = total.out.split_once("\nthe rarest first\n").unwrap();
    let whole = run("run --seeds 10..17").out;
    let whole: Vec<&str> = counts(&whole).into_iter().filter(|l| !l.starts_with("note")).collect();
    assert_eq!(counts(sum), whole);
    let times = |line: &str| line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    let times: Vec<u64> = rarest.lines().map(times).collect();
    assert!(times.len() > 50 && times.is_sorted(), "{rarest}");

    let swapped = run_in(folder.path(), "total b.json a.json").out;
    assert_ne!(swapped, total.out, "the fingerprint depends on the order");
    let missing = run_in(folder.path(), "total a.json c.json");
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    assert!(missing.err.starts_with("error: c.json: "), "{}", missing.err);
}

#[test]
fn a_long_sweep_goes_on_where_it_stopped_and_fails_if_a_part_did() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("scripts/million.sh");
    let sweep = || {
        let mut command = Command::new(&script);
        command.env("RETRIAL_SIM", env!("CARGO_BIN_EXE_retrial-sim")).env("PART", "2");
        let ran = command.env("PARTS", folder.path()).args(["5", "10"]).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr).lines().count())
    };
    let (code, first, parts) = sweep();
    assert_eq!((code, parts), (Some(0), 3), "{first}");
    assert!(
        first.starts_with("range                  10..15\nseeds                  5 "),
        "{first}"
    );

    let build = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(build.join("12-14.json")).unwrap();
    assert_eq!(sweep(), (Some(0), first.clone(), 1), "one part is run again");

    let file = build.join("14-15.json");
    let wrong = std::fs::read_to_string(&file).unwrap().replace("\"held\"", "\"wrong\"");
    std::fs::write(file, wrong).unwrap();
    let (code, _, parts) = sweep();
    assert_eq!((code, parts), (Some(1), 0));
}
