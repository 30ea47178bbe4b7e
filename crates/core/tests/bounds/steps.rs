//! Reading four times as much takes about four times the steps, whatever is repeated.
//!
//! A step is an instruction of the processor, which callgrind counts: the same in each run, however
//! busy the machine is. Allocations would be cheaper to count, and would miss a loop that only
//! compares. Callgrind runs all of it some 50 times slower, so the sizes are small; for larger ones
//! set `RETRIAL_ITEMS`, such as to 16000. In a debug build a
//! loop over all pairs is found from 250 items on.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use super::constructs::{ALL, Kind};
use super::read;

/// How often a construct is repeated, and then [`TIMES`] as often.
const ITEMS: usize = 250;
const TIMES: usize = 4;

/// Callgrind counts from zero in each call of this function, and writes the count down at its end.
#[inline(never)]
fn counted(kind: Kind, text: &str) {
    black_box(read(kind, black_box(text)));
}

/// Set in the process that callgrind runs.
const RUN: &str = "RETRIAL_READ_ALL";

#[allow(clippy::disallowed_methods, reason = "a developer sets it by hand")]
fn items() -> usize {
    let set = std::env::var("RETRIAL_ITEMS").ok().and_then(|n| n.parse().ok());
    set.unwrap_or(ITEMS)
}

/// The count in the part numbered `number` of what callgrind has written into `folder`.
fn steps(folder: &Path, number: usize) -> u64 {
    let text = std::fs::read_to_string(folder.join(format!("out.{number}"))).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).unwrap();
    total.parse().unwrap()
}

#[test]
#[ignore = "needs valgrind: apt-get install valgrind; takes two minutes"]
fn more_text_takes_no_more_than_its_share_of_steps() {
    #[allow(clippy::disallowed_methods, reason = "the process that starts this one sets it")]
    let is_child = std::env::var_os(RUN).is_some();
    if is_child {
        for (_, kind, text) in ALL {
            counted(*kind, &text(items()));
            counted(*kind, &text(TIMES * items()));
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let function = "bounds::steps::counted";
    let ran = Command::new("valgrind")
        .arg("--tool=callgrind")
        .args([format!("--zero-before={function}"), format!("--dump-after={function}")])
        .arg(format!("--callgrind-out-file={}", folder.path().join("out").display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "steps::more_text_takes_no_more_than_its_share_of_steps"])
        .env(RUN, "1")
        .output()
        .expect("valgrind is not installed: apt-get install valgrind");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut too_many = Vec::new();
    for (at, (name, ..)) in ALL.iter().enumerate() {
        let [few, many] = [2 * at + 1, 2 * at + 2].map(|number| steps(folder.path(), number));
        // Half as much again is for logarithms and for tables that grow.
        if many > few * TIMES as u64 * 3 / 2 {
            too_many.push(format!("{name}: {few} steps, then {many}"));
        }
    }
    assert!(too_many.is_empty(), "{}", too_many.join("\n"));
}
