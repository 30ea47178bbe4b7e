//! How long files are, and how they open.

use super::source::{File, hold, rust_files};

const ALL: [&str; 7] = ["src", "crates", "tests", "benches", "examples", "sim/src", "sim/tests"];

/// No file is longer.
const LONGEST: usize = 600;
/// A longer file is in [`LONG`], with its reason.
const LONG_ENOUGH: usize = 400;

/// Files over 400 lines and why. A file that has become shorter leaves the list.
const LONG: [(&str, &str); 8] = [
    ("sim/tests/world/remote_store.rs", "one table of faults over one seam"),
    ("sim/tests/world/store_crash.rs", "one workload and the judge of its remains"),
    ("tests/action/http.rs", "one table of what servers do"),
    ("crates/core/tests/dialect/bad_input.rs", "one table of bad texts and what is said of each"),
    ("crates/core/tests/run/run_flow/steps.rs", "one table of graphs"),
    ("crates/core/tests/policy/sanitise.rs", "one table of the shapes of secrets"),
    ("tests/store/store_model/naive.rs", "the whole seam in plain words"),
    ("tests/store/store_model/script.rs", "one arm an operation of the seam, in each table"),
];

fn too_long(path: &str, lines: usize, listed: &[(&str, &str)]) -> Vec<String> {
    let reason = listed.iter().find(|(long, _)| *long == path).map(|(_, reason)| *reason);
    match (lines, reason) {
        (n, _) if n > LONGEST => vec![format!("{n} lines; split it ({LONGEST} at most)")],
        (n, None | Some("")) if n > LONG_ENOUGH => {
            vec![format!("{n} lines; split it or give a reason ({LONG_ENOUGH} at most without)")]
        }
        (n, Some(_)) if n <= LONG_ENOUGH => vec![format!("{n} lines; take it off the list")],
        _ => Vec::new(),
    }
}

/// A room's guide: what it decides, what it must never know, how to add one more.
fn without_guide(path: &str, text: &str) -> Vec<String> {
    let opens_a_room =
        path.ends_with("/mod.rs") || path.ends_with("/lib.rs") || path == "src/time.rs";
    if opens_a_room && !text.starts_with("//! ") {
        return vec!["does not open with `//!`".to_owned()];
    }
    Vec::new()
}

#[test]
fn no_file_is_too_long() {
    let files = rust_files(&ALL);
    let lines = |f: &File| f.text.lines().count();
    hold(&files, |f| too_long(&f.path, lines(f), &LONG));
    for (path, _) in LONG {
        assert!(files.iter().any(|f| f.path == path), "{path} is gone; take it off the list");
    }
}

#[test]
fn a_long_file_is_found() {
    let listed = [("a.rs", "one table"), ("b.rs", "")];
    let found = |path, lines| too_long(path, lines, &listed).len();
    assert_eq!((found("c.rs", 400), found("a.rs", 600)), (0, 0));
    assert_eq!((found("c.rs", 401), found("b.rs", 401), found("a.rs", 601)), (1, 1, 1));
    assert_eq!(found("a.rs", 400), 1, "the ratchet turns one way");
}

#[test]
fn every_room_opens_with_its_guide() {
    let rooms = ["src", "crates/core/src", "crates/lab/src", "crates/service/src", "sim/src"];
    hold(&rust_files(&rooms), |f| without_guide(&f.path, &f.text));
    assert_eq!(without_guide("src/run/mod.rs", "//! The heart.\nmod x;"), [""; 0]);
    assert_eq!(without_guide("src/run/event.rs", "use x;"), [""; 0]);
    assert_eq!(without_guide("src/run/mod.rs", "mod x;\n//! Late.").len(), 1);
}
