//! Uploaded workflows, and what a definition may ask for.

use std::collections::BTreeSet;

use retrial::net::Hosts;
use retrial::store::{Definition, Store};
use retrial_service::server::{Functions, Settings};
use serde_json::{Value, json};

use super::kit::{Served, memory, one, redb, serve, serve_with, submission};

async fn put(served: &Served, name: &str, text: &str) -> super::client::Answer {
    let client = served.client.with("content-type", "application/toml");
    client.ask("PUT", &format!("/v1/workflows/{name}"), text).await
}

async fn a_workflow_is_uploaded_and_submitted(served: Served) {
    let first = put(&served, "w", &one("echo", "")).await.expect(200);
    assert_eq!((&first["name"], &first["revision"]), (&json!("w"), &json!(1)));
    let same = put(&served, "w", &one("echo", "")).await.expect(200);
    assert_eq!(same["revision"], 1);
    let body = json!({ "workflow": "w", "input": { "a": 1 } });
    let run = served.client.post("/v1/runs", &body).await.expect(201)["run"].clone();
    // A run keeps the definition that it was submitted with.
    assert_eq!(put(&served, "w", &one("broken", "")).await.expect(200)["revision"], 2);
    let shown = served.ended(run.as_str().unwrap()).await;
    assert_eq!(shown["steps"][0]["action"], "echo");
    let run = served.client.post("/v1/runs", &body).await.expect(201)["run"].clone();
    let shown = served.ended(run.as_str().unwrap()).await;
    assert_eq!(shown["steps"][0]["action"], "broken");
    let listed = served.client.get("/v1/workflows").await.expect(200);
    assert_eq!(listed["workflows"][0]["revision"], 2);
    assert_eq!(served.client.post("/v1/runs", &json!({ "workflow": "x" })).await.status, 404);
}

#[tokio::test]
async fn a_workflow_is_uploaded_and_submitted_on_memory() {
    a_workflow_is_uploaded_and_submitted(serve().await).await;
}

#[tokio::test]
async fn a_workflow_is_uploaded_and_submitted_on_redb() {
    let (store, _folder) = redb().await;
    a_workflow_is_uploaded_and_submitted(serve_with(store, Settings::default()).await).await;
}

#[tokio::test]
async fn ir_and_json_are_uploaded_too() {
    let served = serve().await;
    let client = served.client.with("content-type", "text/plain");
    let done = client.ask("PUT", "/v1/workflows/greet.v2", "x = @echo(a=1) [retry: 2]\n").await;
    done.expect(200);
    let run = served.client.post("/v1/runs", &json!({ "workflow": "greet.v2" })).await.expect(201);
    let shown = served.ended(run["run"].as_str().unwrap()).await;
    assert_eq!((&shown["workflow"], &shown["phase"]), (&json!("greet.v2"), &json!("completed")));
    let client = served.client.with("content-type", "application/json");
    let text = json!({ "workflow": "j", "steps": [{ "id": "s", "action": "echo" }] }).to_string();
    client.ask("PUT", "/v1/workflows/j", &text).await.expect(200);
    let odd = served.client.with("content-type", "application/x-yaml");
    assert_eq!(odd.ask("PUT", "/v1/workflows/j", &text).await.status, 415);
}

#[tokio::test]
async fn a_definition_is_uploaded_under_its_own_name() {
    let served = serve().await;
    let refused = put(&served, "other", &one("echo", "")).await.expect(422);
    assert_eq!(refused["diagnostics"][0]["field"], "workflow");
    assert_eq!(refused["diagnostics"][0]["line"], 1);
    assert_eq!(served.client.get("/v1/workflows/other").await.status, 404);
}

#[tokio::test]
async fn x7_a_definition_is_validated_and_nothing_is_kept() {
    let served = serve().await;
    let ask = async |text: &str| {
        let body = json!({ "definition": text, "format": "toml" });
        served.client.post("/v1/workflows/validate", &body).await.expect(200)
    };
    let fine = ask(&one("echo", "retry = \"[retry: 0, backoff: 5]\"")).await;
    assert_eq!((&fine["valid"], &fine["diagnostics"]), (&json!(true), &json!([])));
    assert_ne!(fine["lint"], json!([]), "a delay without a retry is told");
    let wrong = ask("workflow = \"w\"\nsteps = 3\n").await;
    assert_eq!((&wrong["valid"], &wrong["diagnostics"][0]["line"]), (&json!(false), &json!(2)));
    assert_eq!(served.client.get("/v1/workflows").await.expect(200)["workflows"], json!([]));
}

/// What is shown masked must not come back as if it were meant.
#[tokio::test]
async fn a_masked_text_is_shown_and_not_taken_back() {
    let served = serve().await;
    let text = http("http://h.test/x?key=q", "headers = { x-odd = \"a-value\", x-env = 'b' }");
    put(&served, "w", &text).await.expect(200);
    let shown = served.client.get("/v1/workflows/w").await.expect(200);
    let shown = shown["text"].as_str().unwrap();
    assert!(shown.contains("[actions.call]") && shown.contains("id = \"s\""), "{shown}");
    assert!(
        !shown.contains("a-value") && !shown.contains("'b'") && !shown.contains("key=q"),
        "{shown}"
    );
    let refused = put(&served, "w", shown).await.expect(422);
    assert_eq!(refused["diagnostics"].as_array().unwrap().len(), 3, "{refused}");
    assert_eq!(served.client.get("/v1/workflows").await.expect(200)["workflows"][0]["revision"], 1);
}

/// A text that is in the store may be one that nothing reads, and holds secrets all the same.
#[tokio::test]
async fn c14_a_text_that_can_not_be_read_is_not_shown() {
    let store = memory();
    let text = http("http://h.test/x", "headers = { authorization = \"Bearer p4ssw0rd\" }");
    for (name, text) in [("w", text.clone()), ("newer", format!("{text}[later"))] {
        let (name, format) = (name.to_owned(), "toml".to_owned());
        store.define(Definition { name, format, text: text.into() }).await.unwrap();
    }
    let served = serve_with(store, Settings::default()).await;
    for (name, is_read) in [("w", true), ("newer", false)] {
        let shown = served.client.get(&format!("/v1/workflows/{name}")).await.expect(200);
        let text = shown["text"].as_str().unwrap();
        assert_eq!(text.contains("[actions.call]"), is_read, "{name}: {text}");
        assert!(!text.contains("p4ssw0rd"), "{name}: {text}");
    }
}

fn http(url: &str, headers: &str) -> String {
    format!(
        "workflow = \"w\"\n[actions.call]\nhttp = \"POST {url}\"\n{headers}\n\
         [[steps]]\nid = \"s\"\naction = \"call\"\n"
    )
}

async fn diagnostic(settings: Settings, text: &str) -> Value {
    let served = serve_with(memory(), settings).await;
    let answer = served.client.post("/v1/runs", &submission(text, &json!({}))).await;
    match answer.status {
        201 => Value::Null,
        _ => answer.expect(422)["diagnostics"][0].clone(),
    }
}

/// Whoever uploads a definition must not read the environment of the server with it.
#[tokio::test]
async fn promise_8_a_definition_reads_no_variable_that_is_not_open_to_it() {
    let text = http("http://h.test/x", "headers = { authorization = \"env:HOME\" }");
    let found = diagnostic(Settings::default(), &text).await;
    assert_eq!(found["field"], "actions.call.headers.authorization");
    assert_eq!((&found["line"], &found["column"]), (&json!(4), &json!(29)));
    for (host, is_open) in [("h.test", true), ("other.test", false), ("h.test:81", false)] {
        let allow_env = [("HOME".to_owned(), Hosts::new([host]).unwrap())].into();
        let found = diagnostic(Settings { allow_env, ..Settings::default() }, &text).await;
        assert_eq!(found.is_null(), is_open, "{host}: {found}");
        if !is_open {
            assert!(found["message"].as_str().unwrap().contains("may not be sent"), "{found}");
        }
    }
}

#[tokio::test]
async fn a_definition_calls_no_host_that_is_not_allowed() {
    let hosts = Hosts::new(["api.test", "*.inner.test:8080"]).unwrap();
    let settings = Settings { hosts: Some(hosts), ..Settings::default() };
    for (url, allowed) in [
        ("http://api.test/x", true),
        ("http://a.inner.test:8080/", true),
        ("http://169.254.169.254/latest/meta-data", false),
        ("http://a.inner.test/", false),
        ("http://api.test@evil.test/", false),
        ("http://localhost:7070/v1/runs", false),
    ] {
        let found = diagnostic(settings.clone(), &http(url, "")).await;
        assert_eq!(found.is_null(), allowed, "{url}: {found}");
        if !allowed {
            assert_eq!(found["field"], "actions.call.http", "{url}");
        }
    }
}

#[tokio::test]
async fn a_function_that_no_node_has_is_told() {
    let known: BTreeSet<String> = ["echo".to_owned()].into();
    let settings = Settings { functions: Functions::Only(known), ..Settings::default() };
    assert_eq!(diagnostic(settings.clone(), &one("echo", "")).await, Value::Null);
    let found = diagnostic(settings, &one("ehco", "")).await;
    assert_eq!(found["field"], "steps.0.action");
}
