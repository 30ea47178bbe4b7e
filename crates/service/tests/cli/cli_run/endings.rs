//! Exit codes, and what happens with a store that can't be used.

use super::endpoint::{Answer, Endpoint};
use super::workspace::Workspace;

const STORE: &str = ".retrial/w.redb";

fn check(workspace: &Workspace, args: &[&str], code: i32, says: &[&str]) {
    let done = workspace.run(args);
    assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
    let all = format!("{}{}", done.out, done.err);
    says.iter().for_each(|text| assert!(all.contains(text), "`{text}` is not in:\n{all}"));
}

// C13: an answer that comes slowly is cut at the attempt's time, whether its header has come or
// not.
#[test]
fn c13_a_slow_answer_is_cut_by_the_timeout() {
    let (header, body) =
        ("HTTP/1.1 200 OK\r\nX-Slow: ", "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n\"");
    for head in [header, body] {
        let endpoint = Endpoint::new(move |_| Answer::Trickle(head));
        let policy = "execution = { timeout_ms = 300, retry_policy = { max_attempts = 2 } }";
        let workspace = Workspace::with_step(&endpoint.url("/x"), policy);
        let says = ["[EXHAUSTED all 2 attempts]", "timed out after 300ms"];
        check(&workspace, &["run", "w.toml"], 1, &says);
        assert_eq!(endpoint.seen().len(), 2);
    }
}

#[test]
fn completed_is_0_and_failed_is_1() {
    let workspace = Workspace::with_step(&Endpoint::failing(0).url("/x"), "");
    check(&workspace, &["run", "w.toml"], 0, &["[RUN COMPLETED]"]);
    // A failed run has ended: the next one is another.
    let endpoint = Endpoint::new(|_| Answer::Status(404, "{}"));
    let workspace = Workspace::with_step(&endpoint.url("/x"), "");
    check(&workspace, &["run", "w.toml"], 1, &["Run ", "[RUN FAILED]"]);
    check(&workspace, &["run", "w.toml"], 1, &["Run ", "[RUN FAILED]"]);
    assert_eq!(endpoint.seen().len(), 2);
}

#[test]
fn bad_usage_is_2() {
    let workspace = Workspace::new();
    check(&workspace, &[], 2, &["Usage: retrial <COMMAND>"]);
    check(&workspace, &["run"], 2, &["<FILE>"]);
    check(&workspace, &["run", "w.toml", "--concurrency", "0"], 2, &["--concurrency"]);
    check(&workspace, &["run", "w.toml", "--output", "loud"], 2, &["auto", "detailed"]);
    check(&workspace, &["--help"], 0, &["run", "explain"]);
    check(&workspace, &["--version"], 0, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn a_store_in_use_is_3() {
    let endpoint = Endpoint::new(|_| Answer::Hang);
    let workspace = Workspace::with_step(&endpoint.url("/x"), "");
    let _first = workspace.start(&["run", "w.toml"]);
    endpoint.wait_for(1);
    let says = ["`.retrial/w.redb` is open in another process", "name another place"];
    check(&workspace, &["run", "w.toml"], 3, &says);
    assert_eq!(endpoint.seen().len(), 1);
}

/// Bytes that are no store's give code 3, and stay as they are.
fn refuses(bytes: &[u8], says: &[&str]) {
    let workspace = Workspace::with_step(&Endpoint::failing(0).url("/x"), "");
    workspace.write("s.redb", bytes);
    check(&workspace, &["run", "w.toml", "--store", "s.redb"], 3, says);
    assert!(std::fs::read(workspace.path("s.redb")).unwrap() == bytes, "the file was changed");
}

#[test]
fn what_is_no_store_is_3_and_stays() {
    refuses(b"precious\n", &["`s.redb` is not a Retrial store", "left as it is"]);
    refuses(&[0xff; 5_000], &["`s.redb` is not a Retrial store"]);
}

#[test]
fn a_torn_store_is_3_and_stays() {
    let workspace = Workspace::with_step(&Endpoint::failing(0).url("/x"), "");
    check(&workspace, &["run", "w.toml"], 0, &[]);
    let whole = std::fs::read(workspace.path(STORE)).unwrap();
    refuses(&whole[..whole.len() / 2], &["the store `s.redb` is damaged", "put a backup"]);
    refuses(&whole[..100], &["the store `s.redb` is damaged"]);
}

#[test]
fn a_store_out_of_reach_is_3() {
    let workspace = Workspace::with_step(&Endpoint::failing(0).url("/x"), "");
    check(&workspace, &["run", "w.toml", "--store", "no/s.redb"], 3, &["the store `no/s.redb`"]);
    check(&workspace, &["run", "w.toml", "--store", "."], 3, &["the store `.`"]);
    workspace.write(".retrial", "a file, not a folder");
    check(&workspace, &["run", "w.toml"], 3, &["`.retrial` can't be created", "--store PATH"]);
}
