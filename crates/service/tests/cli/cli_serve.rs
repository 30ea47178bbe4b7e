//! `retrial serve` and `retrial config check`, as processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod database;
mod hosts;
mod tokens;
use crate::endpoint;
use crate::workspace;

use retrial_testkit::collector;
use retrial_testkit::postgres_server;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use collector::Collector;
use endpoint::{Answer, Endpoint};
use serde_json::{Value, json};
use workspace::{Done, Workspace, one_step};

const TOKEN: &str = "planted-token-0123456789";

/// A service as a process. Ends with the test.
struct Serving {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Serving {
    fn start(workspace: &Workspace, args: &[&str]) -> Self {
        Self::of(workspace.command(&[&["serve", "--listen", "127.0.0.1:0"], args].concat()))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Listening on http://").map(str::to_owned);
        let address = address.unwrap_or_else(|| {
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            panic!("{line}{err}")
        });
        Self { child, out, address }
    }

    /// Status and body of an answer.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, length) = (&self.address, body.len());
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{kind}{headers}\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = self.ask(method, path, "", &body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    fn submit(&self, definition: &str) -> String {
        let body = json!({ "definition": definition, "format": "toml" });
        self.json("POST", "/v1/runs", &body)["run"].as_str().unwrap().to_owned()
    }

    /// The whole event stream of a run, until its end or the service's.
    fn events(&self, run: &str) -> String {
        let path = format!("/v1/runs/{run}/events");
        self.ask("GET", &path, "", "").1
    }

    fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for the end: the code, and what was still said on stdout and stderr.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const QUICK: &str = "work_config = { max_retries = 5, backoff = 1 }";

#[test]
fn a_run_is_worked_off_and_the_service_stops_with_zero() {
    let (workspace, endpoint) = (Workspace::new(), Endpoint::failing(2));
    for signal in ["-TERM", "-INT"] {
        let serving = Serving::start(&workspace, &["--store", "s.redb"]);
        let run = serving.submit(&one_step(&endpoint.url("/a"), QUICK));
        let events = serving.events(&run);
        assert!(events.contains("event: run_ended") && events.contains("event: end"), "{events}");
        let shown = serving.json("GET", &format!("/v1/runs/{run}"), &Value::Null);
        assert_eq!(
            (&shown["phase"], &shown["steps"][0]["tasks"][0]["attempts"]),
            (&json!("completed"), &json!(3))
        );
        serving.send(signal);
        let (code, out, err) = serving.end();
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("Stopped."), "{out}");
    }
}

/// Those of the last moments as well: the run ends when the service is about to.
#[test]
fn traces_reach_the_collector() {
    let (workspace, endpoint, collector) =
        (Workspace::new(), Endpoint::failing(1), Collector::new(&[]));
    let serving = Serving::start(&workspace, &["--set", &format!("traces={}/", collector.url())]);
    let run = serving.submit(&one_step(&endpoint.url("/a"), QUICK));
    assert!(serving.events(&run).contains("event: run_ended"));
    serving.send("-TERM");
    let (code, out, err) = serving.end();
    assert_eq!(code, Some(0), "{out}{err}");
    let id: retrial::run::RunId = run.parse().unwrap();
    let mut sent = Vec::new();
    while !sent.windows(9).any(|part| part == b"completed") {
        sent.extend(collector.next().body);
    }
    assert!(sent.windows(16).any(|part| part == id.to_bytes()), "the trace is named as its run");
}

/// What one process leaves, the next takes up: after a polite end and after SIGKILL.
#[test]
fn a_run_survives_its_service() {
    let workspace = Workspace::new();
    let endpoint = Endpoint::new(|seen| match seen.nth {
        1 => Answer::Hang,
        _ => Answer::Status(200, "{}"),
    });
    for signal in ["-TERM", "-KILL"] {
        let store = format!("s{signal}.redb");
        let args = ["--store", &store, "--set", "grace=100ms"];
        let serving = Serving::start(&workspace, &args);
        let before = endpoint.seen().len();
        let run = serving.submit(&one_step(&endpoint.url("/a"), QUICK));
        endpoint.wait_for(before + 1);
        serving.send(signal);
        serving.end();
        let again = Serving::start(&workspace, &args);
        assert!(again.events(&run).contains("event: run_ended"));
        let shown = again.json("GET", &format!("/v1/runs/{run}"), &Value::Null);
        assert_eq!(shown["phase"], "completed", "{signal}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let workspace = Workspace::new();
    let endpoint = Endpoint::new(|_| Answer::Hang);
    let serving = Serving::start(&workspace, &["--set", "grace=10m"]);
    serving.submit(&one_step(&endpoint.url("/a"), QUICK));
    endpoint.wait_for(1);
    serving.send("-TERM");
    let mut serving = serving;
    let mut line = String::new();
    serving.out.read_line(&mut line).unwrap();
    assert!(line.starts_with("Stopping"), "{line}");
    serving.send("-TERM");
    assert_eq!(serving.end().0, Some(143));
}

#[test]
fn promise_8_neither_log_nor_settings_show_the_token() {
    let workspace = Workspace::new();
    workspace.write("token", format!("{TOKEN}\n"));
    let mut command = workspace.command(&[
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--token-file",
        "token",
        "--set",
        "log=trace",
    ]);
    command.env("OTHER", "x");
    let mut serving = Serving::of(command);
    let port = serving.address.rsplit(':').next().unwrap().to_owned();
    serving.address = format!("127.0.0.1:{port}");
    assert_eq!(serving.ask("GET", "/v1/runs", "", "").0, 401);
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(serving.ask("GET", "/v1/runs", &bearer, "").0, 200);
    serving.send("-TERM");
    let (code, out, err) = serving.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains(TOKEN) && !err.contains(TOKEN));
    let mut command = workspace.command(&["config", "check", "--json"]);
    command.env("RETRIAL_TOKEN", TOKEN).env("RETRIAL_STORE", "postgres://u:planted@h/db");
    let done = workspace::done(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.out.contains(TOKEN) && !done.out.contains("planted"), "{}", done.out);
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        (&shown["token"]["value"], &shown["token"]["from"]),
        (&json!("***"), &json!("RETRIAL_TOKEN"))
    );
}

#[test]
fn the_settings_are_shown_with_where_they_come_from() {
    let workspace = Workspace::new();
    workspace.write(
        "retrial.toml",
        "concurrency = 5\npoll = \"2s\"\nlease = \"40s\"\nallow_env = [\"A@a.test\", \"B@b.test\"]\n[limits]\nstreams = 9\n",
    );
    let mut command = workspace.command(&["config", "check", "--concurrency", "6", "--json"]);
    command.env("RETRIAL_CONCURRENCY", "7").env("RETRIAL_POLL", "3s");
    let done = workspace::done(command);
    let shown: Value = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    for (name, value, from) in [
        ("concurrency", "6", "--concurrency"),
        ("poll", "3s", "RETRIAL_POLL"),
        ("lease", "40s", "retrial.toml:3"),
        ("allow_env", "A@a.test,B@b.test", "retrial.toml:4"),
        ("limits.streams", "9", "retrial.toml:6"),
        ("limits.page", "500", "default"),
    ] {
        assert_eq!(shown[name]["value"], value, "{name}");
        assert_eq!(shown[name]["from"], from, "{name}");
    }
    let text = workspace.run(&["config", "check"]).out;
    assert!(
        text.lines()
            .any(|line| line.starts_with("limits.streams") && line.contains("retrial.toml:6"))
    );
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let workspace = Workspace::new();
    let check = |text: &str| -> Done {
        workspace.write("c.toml", text);
        workspace.run(&["config", "check", "--config", "c.toml"])
    };
    for (text, place, says) in [
        ("store = \"s\"\nlisten = \"here\"\n", "c.toml:2:10", "not an address"),
        ("listne = \"x\"\n", "c.toml:1:1", "did you mean `listen`?"),
        ("[limits]\nstream = 1\n", "c.toml:2:1", "streams"),
        ("concurrency = 0\n", "c.toml:1:15", "out of range"),
        ("grace = \"soon\"\n", "c.toml:1:9", "not a number"),
        ("token = \"0123456789abcdef\"\n", "c.toml:1:1", "must not be in this file"),
        ("token_file = \"nowhere\"\n", "c.toml:1:14", "can't be read"),
        ("traces = \"collector:4318\"\n", "c.toml:1:10", "must start with http://"),
        ("allow_hosts = [\"http://x\"]\n", "c.toml:1:15", "is not a host"),
        ("allow_env = [\"KEY\"]\n", "c.toml:1:13", "write `KEY@api.example.org`"),
        ("allow_env = [\"KEY@public\"]\n", "c.toml:1:13", "does not name the host"),
        ("allow_env = [\"KEY@a b\"]\n", "c.toml:1:13", "is not a host"),
    ] {
        let done = check(text);
        assert_eq!(done.code, Some(2), "{text}: {done:?}");
        assert!(done.err.contains(place) && done.err.contains(says), "{text}: {}", done.err);
    }
    // All of them at once.
    let done = check("concurrency = 0\ngrace = \"soon\"\n");
    assert!(done.err.contains("c.toml:1:") && done.err.contains("c.toml:2:"), "{}", done.err);
    let file = "concurency = 1\ntoken = \"0123456789abcdef\"\n[limits]\nbdy = 1\nuri = 0\n";
    workspace.write("c.toml", format!("listen = \"0.0.0.0:80\"\n{file}"));
    let sets = ["--set", "nope=1", "--set", "pole=2s", "--set", "poll=never"];
    let mut command =
        workspace.command(&[&["config", "check", "--config", "c.toml"], &sets[..]].concat());
    command.env("RETRIAL_GRACE", "soon").env("RETRY_MAX_RETRIES", "many");
    let done = crate::workspace::done(command);
    for told in [
        "`concurency`",
        "must not be in this file",
        "`bdy`",
        "`0`",
        "`nope`",
        "`pole`",
        "never",
        "soon",
        "many",
        "a bearer token is required",
        "set `token_file` to its path",
    ] {
        assert!(done.err.contains(told), "{told}: {}", done.err);
    }
    assert!(!done.err.contains("0123456789abcdef"), "{}", done.err);
    for args in [
        &["config", "check", "--set", "nope=1"][..],
        &["config", "check", "--set", "token=0123456789abcdef"],
        &["config", "check", "--listen", "0.0.0.0:80"],
        &["serve", "--listen", "0.0.0.0:0"],
        &["config", "check", "--config", "nowhere.toml"],
    ] {
        let done = workspace.run(args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        assert!(!done.err.contains("0123456789abcdef"), "{}", done.err);
    }
}

#[test]
fn a_definition_reads_only_what_is_open_to_it_and_calls_only_what_is_allowed() {
    let workspace = Workspace::new();
    let endpoint = Endpoint::failing(0);
    let host = endpoint.url("").trim_start_matches("http://").to_owned();
    let (bound, hosts) = (format!("allow_env=KEY@{host}"), format!("allow_hosts={host}"));
    let args = ["--set", &bound, "--set", &hosts];
    let mut command =
        workspace.command(&[&["serve", "--listen", "127.0.0.1:0"], &args[..]].concat());
    command.env("KEY", "planted-key").env("OTHER", "planted-other");
    let serving = Serving::of(command);
    let with = |variable: &str| {
        let text = one_step(&endpoint.url("/a"), QUICK);
        text.replace("[[steps]]", &format!("headers = {{ x-key = \"env:{variable}\" }}\n[[steps]]"))
    };
    let run = serving.submit(&with("KEY"));
    assert!(serving.events(&run).contains("\"outcome\":\"completed\""));
    assert_eq!(endpoint.seen()[0].header("x-key"), "planted-key");
    for text in [
        with("OTHER"),
        one_step("http://127.0.0.1:1/a", QUICK),
        one_step("http://x.test/", "").replace("http = \"POST http://x.test/\"", ""),
    ] {
        let body = json!({ "definition": text, "format": "toml" }).to_string();
        let (status, answer) = serving.ask("POST", "/v1/runs", "", &body);
        assert_eq!(status, 422, "{text}: {answer}");
    }
}

/// docs/service.md lists every setting with its default.
#[test]
fn the_page_lists_the_settings() {
    let done = Workspace::new().run(&["config", "check", "--json"]);
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    let row = |(name, setting): (&String, &Value)| {
        let default = setting["value"].as_str().map(|text| format!("`{text}`"));
        let what = setting["what"].as_str().unwrap();
        format!("| `{name}` | {} | {what} |", default.unwrap_or_default())
    };
    let mut wanted: Vec<String> = shown.as_object().unwrap().iter().map(row).collect();
    let page = std::fs::read_to_string(retrial_testkit::root().join("docs/service.md"));
    let page = page.unwrap();
    let (_, table) =
        page.split_once("| setting | default | what |\n| --- | --- | --- |\n").unwrap();
    let mut listed: Vec<String> =
        table.lines().take_while(|line| line.starts_with('|')).map(str::to_owned).collect();
    wanted.sort();
    listed.sort();
    assert_eq!(listed, wanted);
}
