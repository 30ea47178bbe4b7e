//! C14, Decision 20, promise 8: what is planted as a secret appears in no output.

use super::endpoint::{Answer, Endpoint};
use super::workspace::{Done, Workspace, done};

const HEADER: &str = "hdr5ecretA1b2C3d4";
const VARIABLE: &str = "env5ecretA1b2C3d4";
const QUERY: &str = "qry5ecretA1b2C3d4";
const INPUT: &str = "inp5ecretA1b2C3d4";
const REPLY: &str = r#"{"success":true,"token":"rep5ecretA1b2C3d4","rows":["rep5ecretA1b2C3d4"]}"#;
const ERROR: &str =
    r#"{"error":"denied for Bearer rep5ecretA1b2C3d4","password":"rep5ecretA1b2C3d4"}"#;

fn silent(done: &Done) {
    for text in [&done.out, &done.err] {
        assert!(!text.contains("5ecret"), "{text}");
    }
}

fn workflow(url: &str) -> String {
    format!(
        r#"workflow = "w"
[actions.get]
http = "POST {url}?token={QUERY}"
headers = {{ x-api-key = "{HEADER}", authorization = "env:SECRET" }}
[[steps]]
id = "fetch"
action = "get"
args = {{ password = "${{input.password}}" }}
work_config = {{ max_retries = 1, backoff = 10 }}
"#
    )
}

fn run(workspace: &Workspace, log: &str) -> Done {
    let input = format!(r#"{{"password": "{INPUT}"}}"#);
    let args = ["run", "w.toml", "--new", "--output", "detailed", "--input", &input];
    let mut command = workspace.command(&args);
    command.env("SECRET", format!("Bearer {VARIABLE}")).env("RETRIAL_LOG", log);
    done(command)
}

#[test]
fn c14_no_secret_is_printed_or_logged() {
    let endpoint = Endpoint::new(|seen| match seen.nth {
        1 => Answer::Status(500, ERROR),
        _ if seen.path.starts_with("/ends") => Answer::Status(401, ERROR),
        _ => Answer::Status(200, REPLY),
    });
    for (path, code) in [("/ok", 0), ("/ends", 1)] {
        let workspace = Workspace::new();
        workspace.write("w.toml", workflow(&endpoint.url(path)));
        for log in ["error", "trace"] {
            let done = run(&workspace, log);
            assert_eq!(done.code, Some(code), "{done:?}");
            silent(&done);
        }
        silent(&workspace.run(&["explain", "w.toml"]));
    }
    let seen = endpoint.seen();
    assert_eq!(seen[0].header("authorization"), format!("Bearer {VARIABLE}"));
    assert_eq!(seen[0].header("x-api-key"), HEADER);
    assert!(seen[0].path.contains(QUERY) && seen[0].body.contains(INPUT), "they were sent");
}

#[test]
fn c14_a_connection_refused_says_nothing_of_the_url_beyond_its_host() {
    let workspace = Workspace::new();
    workspace.write("w.toml", workflow("http://127.0.0.1:1/x"));
    let done = run(&workspace, "trace");
    assert_eq!(done.code, Some(1), "{done:?}");
    silent(&done);
    assert!(done.out.contains("127.0.0.1:1"), "{}", done.out);
}

// A diagnostic quotes the line that it points at, unless a secret stands there.
#[test]
fn c14_no_diagnostic_quotes_a_secret() {
    let workspace = Workspace::new();
    let good = workflow("http://127.0.0.1:1/x");
    for (from, to) in [
        ("POST http://", "POST http://me:url5ecretA1b2C3d4@"),
        ("authorization = \"env:SECRET\"", "authorization = 5"),
        ("headers =", "header ="),
        ("POST http", "POST ftp"),
        ("workflow =", "workflw ="),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        workspace.write("w.toml", bad);
        let done = workspace.run(&["run", "w.toml"]);
        assert_eq!(done.code, Some(2), "{done:?}");
        silent(&done);
        assert!(done.err.contains("w.toml:"), "{}", done.err);
    }
    let input = format!(r#"{{"password": "{INPUT}", }}"#);
    let done = workspace.run(&["explain", &input]);
    assert_eq!(done.code, Some(2));
    silent(&done);
}
