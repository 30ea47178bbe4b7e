//! `--events`: the run's events as JSON lines, none missing, also when the process is killed.

use serde_json::Value;

use super::endpoint::Endpoint;
use super::workspace::{Stored, Workspace};

const FIXED: &str = "work_config = { max_retries = 3, backoff = 2000 }";
const SHORT: &str = "work_config = { max_retries = 2, backoff = 50 }";

fn read(text: &str) -> Vec<Value> {
    assert!(text.ends_with('\n'), "the last line is whole: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn file(workspace: &Workspace) -> Vec<Value> {
    read(&std::fs::read_to_string(workspace.path("events.jsonl")).unwrap())
}

/// The lines tell the store's history: each event once, in order, with its time.
fn check(lines: &[Value], stored: &Stored) {
    assert_eq!(lines.len(), stored.events.len(), "{lines:#?}");
    for (number, (line, recorded)) in lines.iter().zip(&stored.events).enumerate() {
        assert_eq!(line["schema"], 1);
        assert_eq!(line["number"], number);
        assert_eq!(line["event"], recorded.event.name());
        assert_eq!(line["at"], recorded.at.to_string());
    }
}

#[test]
fn h16_the_events_of_a_run_go_to_a_file() {
    let workspace = Workspace::with_step(&Endpoint::failing(1).url("/x"), SHORT);
    let done = workspace.run(&["run", "w.toml", "--events", "events.jsonl"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines = file(&workspace);
    check(&lines, &workspace.stored(".retrial/w.redb")[0]);
    let retry = &lines[4];
    assert_eq!(retry["event"], "retry_scheduled");
    assert_eq!((&retry["retry_delay"], &retry["reason"]), (&Value::from(0.05), &"503".into()));
    assert!(done.out.contains("Recovered after 1 retry"), "the printer prints beside it");
}

// Stdout is for data then, and whatever is for people goes to stderr.
#[test]
fn h16_the_events_of_a_run_go_to_stdout() {
    let workspace = Workspace::with_step(&Endpoint::failing(9).url("/x"), SHORT);
    let done = workspace.run(&["run", "w.toml", "--events", "-"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    check(&read(&done.out), &workspace.stored(".retrial/w.redb")[0]);
    assert!(done.err.contains("[EXHAUSTED all 3 attempts]"), "{}", done.err);
    assert!(done.err.contains("RETRY STATISTICS"), "{}", done.err);
}

// H11, A15: killed in a delay and taken up again, the file holds the whole history.
#[test]
fn a15_a_run_taken_up_again_leaves_no_gap_in_its_events() {
    let workspace = Workspace::with_step(&Endpoint::failing(1).url("/x"), FIXED);
    let args = ["run", "w.toml", "--events", "events.jsonl"];
    let mut first = workspace.start(&args);
    first.until("Retrying (attempt 2/4)");
    first.kill();
    let before = file(&workspace);
    assert_eq!(before.len(), 5, "the events shown are in the file although the process was killed");

    let done = workspace.run(&args);
    assert_eq!(done.code, Some(0), "{done:?}");
    let after = file(&workspace);
    check(&after, &workspace.stored(".retrial/w.redb")[0]);
    assert_eq!(after[..5], before, "what was written before is written again to the letter");
}

#[test]
fn a_place_that_can_not_be_written_is_bad_input() {
    let workspace = Workspace::with_step("http://127.0.0.1:1/x", SHORT);
    let done = workspace.run(&["run", "w.toml", "--events", "no/such/folder/e.jsonl"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("`no/such/folder/e.jsonl` can't be written"), "{}", done.err);
}

/// A full disk does not change the run, and a reader of the file can see the gap.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_and_changes_nothing() {
    let workspace = Workspace::with_step(&Endpoint::failing(1).url("/x"), SHORT);
    let done = workspace.run(&["run", "w.toml", "--events", "/dev/full"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("events are missing from `/dev/full`"), "{}", done.err);
}
