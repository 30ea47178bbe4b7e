//! Named tokens of a process, and its audit trail.

use serde_json::{Value, json};

use super::{QUICK, Serving};
use crate::endpoint::Endpoint;
use crate::workspace::{Workspace, one_step};

/// A new token: itself, and its line.
fn new_token(workspace: &Workspace, name: &str, role: &str) -> (String, String) {
    let done = workspace.run(&["token", "new", name, "--role", role]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut lines = done.out.lines().map(str::trim);
    let (token, line) = (lines.nth(1).unwrap().to_owned(), lines.nth(1).unwrap().to_owned());
    assert!(token.len() == 64 && !line.contains(&token), "{}", done.out);
    (token, line)
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

#[test]
fn x17_tokens_rotate_on_sighup_and_the_trail_goes_on() {
    let (workspace, endpoint) = (Workspace::new(), Endpoint::failing(0));
    let (reader, reader_line) = new_token(&workspace, "reader", "read");
    let (ci, ci_line) = new_token(&workspace, "ci", "submit");
    workspace.write("tokens", format!("{reader_line}\n"));
    let args = ["--set", "tokens_file=tokens", "--set", "audit=audit.jsonl"];
    let serving = Serving::start(&workspace, &args);
    let definition = one_step(&endpoint.url("/a"), QUICK);
    let body = json!({ "definition": definition, "format": "toml" }).to_string();
    let submit = |token: &str| serving.ask("POST", "/v1/runs", &bearer(token), &body).0;
    let until = |token: &str, status: u16| {
        let wanted = || serving.ask("GET", "/v1/runs", &bearer(token), "").0 == status;
        while !wanted() {
            std::thread::yield_now();
        }
    };
    assert_eq!((submit(&reader), submit(&ci)), (403, 401));
    std::fs::rename(workspace.path("audit.jsonl"), workspace.path("moved")).unwrap();
    workspace.write("tokens", format!("# rotated\n{ci_line}\n"));
    serving.send("-HUP");
    until(&ci, 200);
    until(&reader, 401);
    while !workspace.path("audit.jsonl").exists() {
        std::thread::yield_now();
    }
    assert_eq!((submit(&reader), submit(&ci)), (401, 201));
    // A file that can't be read changes nothing.
    workspace.write("tokens", "nonsense\n");
    serving.send("-HUP");
    assert_eq!(submit(&ci), 201);
    serving.send("-TERM");
    let (code, _, err) = serving.end();
    assert!(code == Some(0) && !err.contains(&ci), "{err}");
    let told = |file: &str| -> Vec<(Value, Value)> {
        let text = std::fs::read_to_string(workspace.path(file)).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["who"].clone(), line["status"].clone())).collect()
    };
    let wanted = |who: Value, status: u16| (who, json!(status));
    assert_eq!(told("moved"), [wanted(json!("reader"), 403), wanted(Value::Null, 401)]);
    let after = [wanted(Value::Null, 401), wanted(json!("ci"), 201), wanted(json!("ci"), 201)];
    assert_eq!(told("audit.jsonl"), after);
}

#[test]
fn x17_a_wrong_token_or_file_is_told() {
    let workspace = Workspace::new();
    for args in
        [&["token", "new", "a b", "--role", "read"][..], &["token", "new", "a", "--role", "root"]]
    {
        assert_eq!(workspace.run(args).code, Some(2), "{args:?}");
    }
    workspace.write("tokens", "ci submit 0123456789abcdef\n");
    let done = workspace.run(&["config", "check", "--set", "tokens_file=tokens"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("line 1") && !done.err.contains("0123456789abcdef"), "{}", done.err);
    // Named tokens are enough where other machines can ask.
    let (_, line) = new_token(&workspace, "reader", "read");
    workspace.write("tokens", line);
    let args = ["config", "check", "--listen", "0.0.0.0:80", "--set", "tokens_file=tokens"];
    assert_eq!(workspace.run(&args).code, Some(0));
}
