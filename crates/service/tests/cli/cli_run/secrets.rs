//! C14, Decision 20, promise 8: what is planted as a secret appears in no output.

use super::endpoint::{Answer, Endpoint};
use super::workspace::{Done, Workspace, done};

const HEADER: &str = "hdr5ecretA1b2C3d4";
const VARIABLE: &str = "env5ecretA1b2C3d4";
const QUERY: &str = "qry5ecretA1b2C3d4";
const INPUT: &str = "inp5ecretA1b2C3d4";
const REPLY: &str =
    r#"{"success":true,"token":"rep5ecretA1b2C3d4","rows":["Bearer rep5ecretA1b2C3d4"]}"#;
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

/// Results are for use: what looks like a secret is masked, all else is shown, on one line.
#[test]
fn decision_20_results_are_printed_and_only_their_shape_on_request() {
    let endpoint = Endpoint::new(|_| {
        Answer::Status(
            200,
            r#"{"id":"ord-7","sum":12.5,"token":"x","says":"a\nb\u001b[2J","paid":true}"#,
        )
    });
    let workspace = Workspace::new();
    workspace.write("w.toml", workflow(&endpoint.url("/ok")));
    let said = |more: &[&str]| {
        let mut command =
            workspace.command(&[&["run", "w.toml", "--input", r#"{"password":1}"#], more].concat());
        command.env("SECRET", "Bearer x");
        let done = done(command);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.lines().find(|line| line.starts_with("Result of")).unwrap().to_owned()
    };
    let shown =
        r#"Result of fetch: {"id":"ord-7","paid":true,"says":"a\nb","sum":12.5,"token":"***"}"#;
    let shape =
        r#"Result of fetch: {"id":"***","paid":"***","says":"***","sum":"***","token":"***"}"#;
    assert_eq!(said(&["--key", "a"]), shown);
    assert_eq!(said(&["--new", "--mask"]), shape);
    // The run of the key has ended: nothing is asked again, and its result is read from the store.
    assert_eq!(said(&["--key", "a"]), shown);
    assert_eq!(said(&["--key", "a", "--mask"]), shape);
    assert_eq!(endpoint.seen().len(), 2);
}

#[test]
fn decision_20_values_are_revealed_as_they_are_stored() {
    let endpoint = Endpoint::new(|seen| match seen.path.starts_with("/ends") {
        true => Answer::Status(400, ERROR),
        false => Answer::Status(200, REPLY),
    });
    let workspace = Workspace::new();
    let input = format!(r#"{{"password":"{INPUT}"}}"#);
    for path in ["/ok", "/ends"] {
        workspace.write("w.toml", workflow(&endpoint.url(path)));
        let mut command = workspace.command(&["run", "w.toml", "--new", "--input", &input]);
        command.env("SECRET", "Bearer x");
        done(command);
        let run = workspace.newest();
        let said = workspace.well(&["inspect", &run, "--reveal"]);
        assert!(said.contains(&format!("Input: {input}\n")), "{said}");
        assert_eq!(said.contains("Result of fetch: "), path == "/ok", "{said}");
        assert_eq!(
            said.matches("rep5ecretA1b2C3d4").count(),
            if path == "/ok" { 2 } else { 0 },
            "{said}"
        );
        let json = workspace.json(&["inspect", &run, "--reveal"]);
        assert_eq!(json["input"]["password"], INPUT);
        silent(&workspace.run(&["inspect", &run]));
    }
    let run = workspace.newest();
    let letter = format!("{run}/0/0");
    let said = workspace.well(&["dlq", "show", &letter, "--reveal"]);
    assert!(said.contains(&format!("Arguments: {input}\n")), "{said}");
    let json = workspace.json(&["dlq", "show", &letter, "--reveal"]);
    assert_eq!(json["payload"]["password"], INPUT);
    silent(&workspace.run(&["dlq", "show", &letter]));
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
