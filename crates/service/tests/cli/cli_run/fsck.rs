//! `retrial fsck`, and what opening a store's file says about it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::endpoint::{Answer, Endpoint};
use super::workspace::Workspace;

const STORE: &str = ".retrial/w.redb";
const ONCE: &str = "args = { card = \"${input.card}\" }\nwork_config = { max_retries = 0 }";

#[test]
fn decision_19_fsck_names_what_is_damaged() {
    let endpoint = Endpoint::new(|_| Answer::Status(400, r#"{"error":"no such card"}"#));
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    for card in ["4111-1111", "5222-2222"] {
        let input = format!(r#"{{"card":"{card}"}}"#);
        assert_eq!(workspace.run(&["run", "w.toml", "--input", &input]).code, Some(1));
    }
    let whole = workspace.run(&["fsck", STORE]);
    let said = "2 runs, 2 letters and 0 workflows: nothing is damaged.\n";
    assert_eq!((whole.code, whole.out.as_str()), (Some(0), said), "{}", whole.err);
    let file = workspace.path(STORE);
    let mut bytes = fs::read(&file).unwrap();
    let places = bytes.windows(9).enumerate().filter(|(_, text)| *text == b"4111-1111");
    let places: Vec<_> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(&file, bytes).unwrap();
    let found = workspace.run(&["fsck"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.out.contains("an event is not what was written"), "{}", found.out);
    assert!(found.out.contains("a dead letter is not what was written"), "{}", found.out);
    assert!(found.out.ends_with("workflows: 2 records are damaged.\n"), "{}", found.out);
    let json = workspace.run(&["fsck", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["damaged"].as_array().unwrap().len(), 2);
    assert_eq!(workspace.run(&["fsck", "nowhere.redb"]).code, Some(3));
}

#[test]
fn a_store_that_others_may_read_is_warned_about() {
    let endpoint = Endpoint::new(|_| Answer::Status(200, r#"{"success":true}"#));
    let workspace = Workspace::with_step(&endpoint.url("/x"), ONCE);
    let done = workspace.run(&["run", "w.toml", "--input", r#"{"card":"1"}"#]);
    assert!(!done.err.contains("chmod"), "{}", done.err);
    let shared = fs::Permissions::from_mode(0o644);
    fs::set_permissions(workspace.path(STORE), shared).unwrap();
    let warned = workspace.run(&["list"]);
    assert!(warned.err.contains("chmod 600") && warned.err.contains("w.redb"), "{}", warned.err);
}
