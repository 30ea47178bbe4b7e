//! Rates by action, guards, metrics, health.

use serde_json::json;

use super::kit::{one, serve, tries};

const GUARDED: &str = "
workflow = \"w\"
[actions.flaky]
breaker = { failures = 1, open = \"600s\" }
[[steps]]
id = \"s\"
action = \"flaky\"
args = { of = { fails = 9 } }
work_config = { max_retries = 0 }
";

#[tokio::test]
async fn c16_rates_and_metrics_count_what_happened() {
    let served = serve().await;
    let run = served.submit(&one("flaky", &tries(5)), &json!({ "fails": 3 })).await;
    served.ended(&run).await;
    let actions = served.client.get("/v1/actions").await.expect(200);
    let flaky = &actions["actions"][0];
    assert_eq!((&flaky["action"], &flaky["attempts"]), (&json!("flaky"), &json!(4)));
    assert_eq!((&flaky["retries"], &flaky["failures"]), (&json!(3), &json!({ "503": 3 })));
    assert_eq!((&flaky["retry_rate"], &flaky["error_rate"]), (&json!(0.75), &json!(0.75)));
    let text = served.client.get("/metrics").await.text;
    for line in [
        "retrial_attempts_total{action=\"flaky\",outcome=\"failure\",code=\"503\"} 3",
        "retrial_attempts_total{action=\"flaky\",outcome=\"success\",code=\"none\"} 1",
        "retrial_retries_total{action=\"flaky\",kind=\"failure\"} 3",
        "retrial_runs_total{workflow=\"w\",outcome=\"completed\"} 1",
        "retrial_http_requests_total{route=\"/v1/runs\",method=\"POST\",status=\"201\"} 1",
        "retrial_http_requests_in_flight 1",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("retrial_attempt_duration_seconds_bucket"), "{text}");
}

#[tokio::test]
async fn each_service_counts_for_itself() {
    let (one_of, other) = (serve().await, serve().await);
    let run = one_of.submit(&one("echo", ""), &json!({})).await;
    one_of.ended(&run).await;
    let text = other.client.get("/metrics").await.text;
    assert!(!text.contains("retrial_attempts_total{"), "{text}");
}

#[tokio::test]
async fn an_open_breaker_is_shown() {
    let served = serve().await;
    let run = served.submit(GUARDED, &json!({})).await;
    served.ended(&run).await;
    let actions = served.client.get("/v1/actions").await.expect(200);
    assert_eq!(actions["actions"][0]["guards"]["breaker"]["state"], "open", "{actions}");
}

#[tokio::test]
async fn runs_are_counted_by_phase() {
    let served = serve().await;
    for action in ["echo", "broken", "broken"] {
        let run = served.submit(&one(action, ""), &json!({})).await;
        served.ended(&run).await;
    }
    let tally = served.client.get("/v1/tally").await.expect(200);
    assert_eq!((&tally["phases"]["completed"], &tally["phases"]["failed"]), (&json!(1), &json!(2)));
    assert_eq!((&tally["phases"]["running"], &tally["letters"]), (&json!(0), &json!(2)));
}

#[tokio::test]
async fn the_service_says_that_it_lives_and_is_ready() {
    let served = serve().await;
    assert_eq!(served.client.get("/healthz").await.expect(200)["status"], "alive");
    assert_eq!(served.client.get("/readyz").await.expect(200)["status"], "ready");
}
