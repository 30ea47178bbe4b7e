//! Promise 8: what was planted in inputs, errors, tokens, headers and definitions is in no answer,
//! no stream, no metric.

use retrial_service::server::{AccessToken, Settings};
use serde_json::{Value, json};

use super::client::Client;
use super::kit::{memory, one, serve_with};

const TOKEN: &str = "tok-plantedtokenplantedtoken";
const IN_INPUT: &str = "plantedinput4711";
const IN_ERROR: &str = "plantederror4711";
const IN_HEADER: &str = "plantedheader4711";
const IN_REASON: &str = "plantedreason4711";
/// Lists show it: runs are found by it.
const KEY: &str = "order-4711";

const NEEDLES: [&str; 5] = [TOKEN, IN_INPUT, IN_ERROR, IN_HEADER, IN_REASON];

#[tokio::test]
async fn promise_8_no_answer_shows_a_secret() {
    let token = Some(AccessToken::new(TOKEN).unwrap());
    let served = serve_with(memory(), Settings { token, ..Settings::default() }).await;
    let client = served.client.with("authorization", &format!("Bearer {TOKEN}"));
    let mut said: Vec<(String, String)> = Vec::new();
    let post = async |client: &Client, path: &str, body: &Value| {
        let answer = client.post(path, body).await;
        (path.to_owned(), answer.text)
    };
    let definition = one("broken", "");
    let input = json!({ "says": format!("password={IN_ERROR}"), "card": IN_INPUT });
    let body = json!({ "definition": definition, "format": "toml", "input": input });
    let keyed = client.with("idempotency-key", KEY);
    let first = keyed.post("/v1/runs", &body).await.expect(201);
    let run = first["run"].as_str().unwrap().to_owned();
    served.engine.outcome(run.parse().unwrap()).await.unwrap();
    // The same key with another input, a body that can't be read, a wrong token.
    let other = json!({ "definition": definition, "format": "toml", "input": { "card": IN_INPUT, "x": 1 } });
    said.push(post(&keyed, "/v1/runs", &other).await);
    said.push(post(&client, "/v1/runs", &json!({ "definition": 7, "input": IN_INPUT })).await);
    said.push(post(&client, "/v1/runs", &json!({ "definition": "x", "format": IN_INPUT })).await);
    let wrong = served.client.with("authorization", &format!("Bearer x{TOKEN}"));
    said.push(("a wrong token".into(), wrong.get("/v1/runs").await.text));
    let reason = json!({ "reason": format!("api_key={IN_REASON}") });
    let slow = one("flaky", "work_config = { max_retries = 9, backoff = 100000 }");
    let body = json!({ "definition": slow, "format": "toml", "input": { "fails": 99 } });
    let second = client.post("/v1/runs", &body).await.expect(201);
    let second = second["run"].as_str().unwrap().to_owned();
    for what in ["pause", "cancel"] {
        said.push(post(&client, &format!("/v1/runs/{second}/{what}"), &reason).await);
    }
    // A definition with secrets in it.
    let text = format!(
        "workflow = \"w\"\n[actions.a]\nhttp = \"POST http://h.test/x?token={IN_HEADER}\"\n\
         headers = {{ authorization = \"Bearer {IN_HEADER}\", x-odd = \"{IN_HEADER}\" }}\n\
         [input]\ncard = \"{IN_INPUT}\"\n\
         [[steps]]\nid = \"s\"\naction = \"a\"\n"
    );
    let toml = client.with("content-type", "application/toml");
    let put = toml.ask("PUT", "/v1/workflows/w", &text).await;
    assert_eq!(put.status, 200, "{put:?}");
    said.push(("put".into(), put.text));
    let wrong = text.replace("action = \"a\"", "action = 7");
    said.push(("put, refused".into(), toml.ask("PUT", "/v1/workflows/w", &wrong).await.text));
    for path in [
        "/v1/workflows/w".to_owned(),
        "/v1/workflows".into(),
        "/v1/runs".into(),
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{second}"),
        "/v1/letters".into(),
        format!("/v1/letters/{run}/0/0"),
        "/v1/actions".into(),
        "/v1/tally".into(),
        "/metrics".into(),
    ] {
        let answer = client.get(&path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        said.push((path, answer.text));
    }
    for run in [&run, &second] {
        let mut stream = client.stream(&format!("/v1/runs/{run}/events")).await;
        while stream.next().await.is_some() {}
        assert!(stream.text.contains("run_ended"), "{}", stream.text);
        said.push((format!("events of {run}"), stream.text));
    }
    for (path, text) in &said {
        for needle in NEEDLES {
            assert!(!text.contains(needle), "{path} shows {needle}: {text}");
        }
    }
    // And they did come in.
    let shown = said.iter().find(|(path, _)| *path == format!("/v1/runs/{run}")).unwrap();
    assert!(shown.1.contains("***"), "{}", shown.1);
}
