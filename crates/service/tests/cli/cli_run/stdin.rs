//! `-` in place of a file: standard input.

use std::io::Write as _;
use std::process::Stdio;

use super::endpoint::Endpoint;
use super::workspace::{Done, Workspace, one_step};

/// The command's end when `text` is its standard input.
fn with_input(workspace: &Workspace, args: &[&str], text: &str) -> Done {
    let mut command = workspace.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: ended.status.code(), out: text(ended.stdout), err: text(ended.stderr) }
}

#[test]
fn a_dash_is_standard_input() {
    let (workspace, endpoint) = (Workspace::new(), Endpoint::failing(0));
    let file = one_step(&endpoint.url("/a"), "");
    let done = with_input(&workspace, &["run", "-"], &file);
    assert_eq!((done.code, endpoint.seen().len()), (Some(0), 1), "{done:?}");

    // The text tells that it is IR, also with actions of its own file.
    let actions = format!("[actions.get]\nhttp = \"POST {}\"\n", endpoint.url("/b"));
    workspace.write("a.toml", actions);
    let done = with_input(&workspace, &["run", "-", "--actions", "a.toml"], "x = @get(n=1)\n");
    assert_eq!((done.code, endpoint.seen().len()), (Some(0), 2), "{done:?}");
    let done = with_input(&workspace, &["run", "-"], "x = @get(n=1)\n");
    assert!(done.code == Some(2) && done.err.contains("-:1:"), "{done:?}");

    let done = with_input(&workspace, &["lint", "-"], "[HttpError -> retry: 2, backoff: 1]\n");
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("`HttpError` names no error of Retrial's own"), "{done:?}");
    let done = with_input(&workspace, &["explain", "-"], "[retry: 2]");
    assert!(done.code == Some(0) && done.out.contains("At most 3 executions"), "{done:?}");
}
