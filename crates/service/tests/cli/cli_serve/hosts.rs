//! Where the definitions of others may call.

use std::process::Command;

use serde_json::json;

use super::{QUICK, Serving, TOKEN};
use crate::endpoint::Endpoint;
use crate::workspace::{Workspace, done, one_step};

/// A service that other machines can reach, asked from this one.
fn open_to_all(workspace: &Workspace, more: &[&str], env: &[(&str, &str)]) -> (Serving, String) {
    workspace.write("token", TOKEN);
    let args = ["serve", "--listen", "0.0.0.0:0", "--token-file", "token"];
    let mut command: Command = workspace.command(&[&args, more].concat());
    command.envs(env.iter().copied());
    let mut serving = Serving::of(command);
    let port = serving.address.rsplit(':').next().unwrap().to_owned();
    serving.address = format!("127.0.0.1:{port}");
    (serving, format!("authorization: Bearer {TOKEN}\r\n"))
}

fn submit(serving: &Serving, token: &str, definition: &str) -> (u16, String) {
    let body = json!({ "definition": definition, "format": "toml" }).to_string();
    serving.ask("POST", "/v1/runs", token, &body)
}

fn outcome(serving: &Serving, token: &str, definition: &str) -> String {
    let (status, answer) = submit(serving, token, definition);
    assert_eq!(status, 201, "{answer}");
    let run: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let path = format!("/v1/runs/{}/events", run["run"].as_str().unwrap());
    serving.ask("GET", &path, token, "").1
}

/// A workflow of two steps read an interface on loopback and posted its answer elsewhere.
#[test]
fn x16_a_service_for_others_calls_nothing_inside_unless_it_is_listed() {
    let (workspace, inside) = (Workspace::new(), Endpoint::failing(0));
    let port = inside.url("").rsplit(':').next().unwrap().to_owned();
    let by_name = one_step(&format!("http://localhost:{port}/a"), QUICK);
    let (serving, token) = open_to_all(&workspace, &[], &[]);
    // The address itself is refused at once; a name when it has led inside.
    let (status, answer) = submit(&serving, &token, &one_step(&inside.url("/a"), QUICK));
    assert!(status == 422 && answer.contains("allow_hosts"), "{status} {answer}");
    let events = outcome(&serving, &token, &by_name);
    assert!(events.contains("HOST_NOT_ALLOWED") && events.contains("allow_hosts"), "{events}");
    assert!(!events.contains("event: retry_scheduled"), "it fails for good: {events}");
    drop(serving);
    let (serving, token) = open_to_all(&workspace, &["--set", "allow_hosts=localhost"], &[]);
    let events = outcome(&serving, &token, &by_name);
    assert!(events.contains("\"outcome\":\"completed\""), "{events}");
    assert_eq!(inside.seen().len(), 1, "only the call that was allowed arrived");
}

#[test]
fn x16_an_empty_variable_is_an_empty_list() {
    let (workspace, inside) = (Workspace::new(), Endpoint::failing(0));
    let mut command = workspace.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("RETRIAL_ALLOW_HOSTS", "");
    let serving = Serving::of(command);
    let (status, answer) = submit(&serving, "", &one_step(&inside.url("/a"), QUICK));
    assert_eq!(status, 422, "{answer}");
    let mut command = workspace.command(&["config", "check", "--json"]);
    command.env("RETRIAL_ALLOW_HOSTS", " ").env("RETRIAL_CONCURRENCY", "");
    let shown: serde_json::Value = serde_json::from_str(&done(command).out).unwrap();
    assert_eq!(shown["allow_hosts"]["from"], "RETRIAL_ALLOW_HOSTS");
    assert_eq!(shown["concurrency"]["from"], "default");
}
