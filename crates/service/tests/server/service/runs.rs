//! Submitting, listing, showing and commanding runs.

use retrial_service::server::Settings;
use serde_json::json;

use super::kit::{Served, memory, one, redb, serve, serve_with, submission, tries};

async fn a_run_is_submitted_and_shown(served: Served) {
    let run = served.submit(&one("flaky", &tries(3)), &json!({ "fails": 2 })).await;
    let shown = served.ended(&run).await;
    assert_eq!((&shown["run"], &shown["phase"]), (&json!(run), &json!("completed")));
    let task = &shown["steps"][0]["tasks"][0];
    assert_eq!(task["attempts"], 3);
    assert_eq!(task["history"][0]["error"]["code"], "503");
    assert_eq!(task["history"][0]["retry"]["kind"], "failure");
    let list = served.client.get("/v1/runs").await.expect(200);
    assert_eq!(list["runs"][0]["run"], json!(run));
    assert_eq!(list["runs"][0]["phase"], "completed");
    assert_eq!(list["next"], json!(null));
}

#[tokio::test]
async fn a_run_is_submitted_and_shown_on_memory() {
    a_run_is_submitted_and_shown(serve().await).await;
}

#[tokio::test]
async fn a_run_is_submitted_and_shown_on_redb() {
    let (store, _folder) = redb().await;
    a_run_is_submitted_and_shown(serve_with(store, Settings::default()).await).await;
}

#[tokio::test]
async fn x8_the_same_key_leads_to_the_first_run() {
    let served = serve().await;
    let client = served.client.with("idempotency-key", "order-7");
    let body = submission(&one("echo", ""), &json!({ "a": 1 }));
    let first = client.post("/v1/runs", &body).await.expect(201);
    let again = client.post("/v1/runs", &body).await.expect(200);
    assert_eq!((&first["existing"], &again["existing"]), (&json!(false), &json!(true)));
    assert_eq!(first["run"], again["run"]);
    let other = submission(&one("echo", ""), &json!({ "a": 2 }));
    let refused = client.post("/v1/runs", &other).await.expect(409);
    assert_eq!(refused["type"], "urn:retrial:problem:key-conflict");
    assert_eq!(refused["run"], first["run"]);
    let list = served.client.get("/v1/runs").await.expect(200);
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn x8_many_at_once_under_one_key_make_one_run() {
    let served = serve_with(memory(), Settings::default()).await;
    let client = served.client.with("idempotency-key", "k");
    let body = submission(&one("echo", ""), &json!({})).to_string();
    let asks = (0..16).map(|_| {
        let (client, body) = (client.clone(), body.clone());
        tokio::spawn(async move { client.ask("POST", "/v1/runs", &body).await })
    });
    let asks: Vec<_> = asks.collect();
    let mut runs = Vec::new();
    for ask in asks {
        runs.push(ask.await.unwrap().json());
    }
    assert_eq!(runs.iter().filter(|answer| answer["existing"] == false).count(), 1);
    assert!(runs.iter().all(|answer| answer["run"] == runs[0]["run"]), "{runs:?}");
}

#[tokio::test]
async fn a_definition_that_makes_no_sense_is_told_where() {
    let served = serve().await;
    let text = "workflow = \"w\"\n[[steps]]\nid = \"s\"\nacton = \"x\"\n";
    let refused = served.client.post("/v1/runs", &submission(text, &json!({}))).await.expect(422);
    let found = &refused["diagnostics"][0];
    assert_eq!((&found["line"], &found["column"]), (&json!(4), &json!(1)));
    assert_eq!(found["field"], "steps.0.acton");
    assert!(found["help"].as_str().unwrap().contains("action"), "{found}");
}

#[tokio::test]
async fn json_may_name_its_characters() {
    let served = serve().await;
    let client = served.client.with("content-type", "application/json; charset=utf-8");
    let body = submission(&one("echo", ""), &json!({})).to_string();
    client.ask("POST", "/v1/runs", &body).await.expect(201);
}

#[tokio::test]
async fn c17_a_task_that_waits_has_made_the_attempts_before_and_no_more() {
    let served = serve().await;
    let waits = "work_config = { max_retries = 2, backoff = 600000 }";
    let run = served.submit(&one("flaky", waits), &json!({ "fails": 9 })).await;
    let mut task = json!(null);
    while task["last_error"].is_null() {
        let shown = served.client.get(&format!("/v1/runs/{run}")).await.expect(200);
        task = shown["steps"][0]["tasks"][0].clone();
    }
    assert_eq!((&task["phase"], &task["attempts"]), (&json!("waiting"), &json!(1)), "{task}");
}
