//! Rates by action, guards, metrics, health.

use serde_json::json;

use super::kit::{Memory, Served, memory, one, serve, serve_with, tries};
use retrial_service::server::Settings;

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

/// The counts of nodes outlive them in the store, where every node finds those of all.
#[tokio::test]
async fn c16_the_last_hour_and_day_are_kept_in_the_store_by_node() {
    let store = memory();
    let node = async |name: &str| {
        let settings = Settings { node: Some(name.to_owned()), ..Settings::default() };
        serve_with(Memory::clone(&store), settings).await
    };
    let work = async |node: &Served, fails: u64| {
        let run = node.submit(&one("flaky", &tries(5)), &json!({ "fails": fails })).await;
        node.ended(&run).await;
    };
    let mut first = node("a").await;
    work(&first, 3).await;
    first.stopped().await;
    let mut second = node("b").await;
    work(&second, 0).await;
    let recent = |actions: &serde_json::Value| actions["actions"][0]["recent"].clone();
    let shown = recent(&second.client.get("/v1/actions").await.expect(200));
    for window in ["hour", "day"] {
        let all = &shown[window];
        assert_eq!((&all["attempts"], &all["failed"]), (&json!(5), &json!(3)), "{shown}");
        assert_eq!((&all["retries"], &all["error_rate"]), (&json!(3), &json!(0.6)));
        assert!(all["attempts_per_minute"].as_f64().unwrap() > 0.0, "{shown}");
        assert!(all["took_seconds"]["p99"].as_f64().unwrap() > 0.0, "{shown}");
        let of = |n: usize| (&shown["nodes"][n]["node"], &shown["nodes"][n][window]["attempts"]);
        assert_eq!((of(0), of(1)), ((&json!("a"), &json!(4)), (&json!("b"), &json!(1))));
    }
    second.stopped().await;
    // A node of the same name goes on from what it had.
    let again = node("a").await;
    work(&again, 1).await;
    let mut shown = serde_json::Value::Null;
    for _ in 0..100 {
        shown = recent(&again.client.get("/v1/actions").await.expect(200));
        if shown["hour"]["attempts"] == 7 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(shown["nodes"][0]["hour"]["attempts"], 6, "{shown}");
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

/// What scanners ask for makes no series of its own.
#[tokio::test]
async fn c16_paths_without_a_route_share_one_series() {
    let served = serve().await;
    for n in 0..3 {
        assert_eq!(served.client.get(&format!("/scanned-{n}")).await.status, 404);
    }
    let text = served.client.get("/metrics").await.text;
    assert!(text.contains("retrial_http_requests_total{") && !text.contains("scanned"), "{text}");
}

/// A request took some whole number of milliseconds, and hardly a whole number of seconds.
#[tokio::test]
async fn c16_durations_of_requests_are_in_seconds() {
    let served = serve().await;
    served.client.get("/v1/tally").await.expect(200);
    let text = served.client.get("/metrics").await.text;
    let sums =
        text.lines().filter(|line| line.starts_with("retrial_http_request_duration_seconds_sum"));
    let sums: Vec<f64> =
        sums.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!sums.is_empty() && sums.iter().all(|sum| sum.fract() > 0.0), "{text}");
}
