//! What people ask of a run.

use serde_json::json;

use super::kit::{one, serve};

const SLOW: &str = "work_config = { max_retries = 5, backoff = 3600000 }";

#[tokio::test]
async fn h12_a_run_is_cancelled_during_a_delay() {
    let served = serve().await;
    let run = served.submit(&one("flaky", SLOW), &json!({ "fails": 9 })).await;
    let (path, reason) = (format!("/v1/runs/{run}/cancel"), json!({ "reason": "no more" }));
    let done = served.client.post(&path, &reason).await.expect(200);
    assert_eq!(done["phase"], "cancelled");
    assert_eq!(served.ended(&run).await["phase"], "cancelled");
    // What has ended is not cancelled again.
    let again = served.client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await.expect(409);
    assert_eq!(
        (&again["type"], &again["phase"]),
        (&json!("urn:retrial:problem:ended"), &json!("cancelled"))
    );
}

#[tokio::test]
async fn h17_retries_are_paused_and_resumed() {
    let served = serve().await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let ask = |what: &str| {
        let path = format!("/v1/runs/{run}/{what}");
        let client = served.client.clone();
        async move { client.ask("POST", &path, "").await.expect(200)["phase"].clone() }
    };
    assert_eq!(ask("pause").await, "paused");
    assert_eq!(ask("resume").await, "running");
    assert_eq!(ask("deactivate").await, "deactivated");
    assert_eq!(ask("activate").await, "running");
    served.acts.gate.add_permits(2);
    assert_eq!(served.ended(&run).await["phase"], "completed");
}

#[tokio::test]
async fn a_step_is_failed_by_hand() {
    let served = serve().await;
    let run = served.submit(&one("flaky", SLOW), &json!({ "fails": 9 })).await;
    let path = format!("/v1/runs/{run}/fail");
    let wrong = served.client.post(&path, &json!({ "step": "nope" })).await.expect(422);
    assert_eq!(wrong["type"], "urn:retrial:problem:invalid");
    // Once its first attempt has failed it waits.
    loop {
        let shown = served.client.get(&format!("/v1/runs/{run}")).await.expect(200);
        if shown["steps"][0]["tasks"][0]["phase"] == "waiting"
            && shown["queue"][0]["attempt_number"] == 1
        {
            break;
        }
    }
    let done = served.client.post(&path, &json!({ "step": "s", "reason": "enough" })).await;
    assert_eq!(done.expect(200)["phase"], "failed");
    assert_eq!(served.client.post(&path, &json!({ "step": "s" })).await.status, 409);
}

#[tokio::test]
async fn x14_only_what_is_held_is_released() {
    let served = serve().await;
    let run = served.submit(&one("flaky", SLOW), &json!({ "fails": 9 })).await;
    let path = format!("/v1/runs/{run}/release");
    let none = served.client.ask("POST", &path, "").await.expect(409);
    assert!(none["detail"].as_str().unwrap().contains("quarantine"), "{none}");
    served.client.post(&path, &json!({ "item": 0 })).await.expect(400);
    served.client.post(&path, &json!({ "step": "nope" })).await.expect(422);
    served.client.post(&path, &json!({ "step": "s", "item": 0 })).await.expect(409);
}

#[tokio::test]
async fn a12_only_what_is_at_rest_is_archived() {
    let served = serve().await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let path = format!("/v1/runs/{run}/archive");
    served.client.ask("POST", &path, "").await.expect(409);
    served.acts.gate.add_permits(1);
    served.ended(&run).await;
    let done = served.client.ask("POST", &path, "").await.expect(200);
    assert!(done["archived"].is_string(), "{done}");
}

#[tokio::test]
async fn a_run_that_is_not_there_is_not_found() {
    let served = serve().await;
    let nobody = "00000000-0000-4000-8000-000000000000";
    for what in ["cancel", "pause", "resume", "deactivate", "activate", "archive"] {
        let path = format!("/v1/runs/{nobody}/{what}");
        assert_eq!(served.client.ask("POST", &path, "").await.status, 404, "{what}");
    }
    assert_eq!(served.client.get(&format!("/v1/runs/{nobody}")).await.status, 404);
    assert_eq!(served.client.get("/v1/runs/nonsense").await.status, 404);
    assert_eq!(served.client.get(&format!("/v1/runs/{nobody}/events")).await.status, 404);
}

#[tokio::test]
async fn a_body_with_what_is_not_known_is_refused() {
    let served = serve().await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let path = format!("/v1/runs/{run}/pause");
    let refused = served.client.post(&path, &json!({ "raeson": "x" })).await.expect(400);
    assert!(refused["detail"].as_str().unwrap().contains("raeson"), "{refused}");
    // The value is not repeated.
    let refused = served.client.post(&path, &json!({ "reason": ["hunter2hunter2"] })).await;
    assert!(!refused.text.contains("hunter2"), "{refused:?}");
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn x9_what_ended_long_ago_is_pruned() {
    let served = serve().await;
    let run = served.submit(&one("echo", ""), &json!({})).await;
    let going = served.submit(&one("gated", ""), &json!({})).await;
    served.ended(&run).await;
    let prune = async |body| served.client.post("/v1/prune", &body).await;
    let hour = 3_600_000_000_000_u64;
    assert_eq!(prune(json!({ "older_than_ns": hour })).await.expect(200)["pruned"], json!([]));
    assert_eq!(prune(json!({ "older_than_ns": 0 })).await.expect(200)["pruned"], json!([run]));
    assert_eq!(served.client.get(&format!("/v1/runs/{run}")).await.status, 404);
    assert_eq!(served.client.get(&format!("/v1/runs/{going}")).await.status, 200);
    assert_eq!(prune(json!({})).await.status, 400);
}
