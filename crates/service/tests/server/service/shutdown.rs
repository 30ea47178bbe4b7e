//! Stopping in good order.

use retrial::engine::Config;
use retrial::time::Nanos;
use retrial_service::server::Settings;
use serde_json::json;
use tokio::net::TcpStream;

use super::kit::{memory, one, serve, serve_as};

#[tokio::test]
async fn streams_end_with_a_message_that_says_why() {
    let mut served = serve().await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let mut events = served.client.stream(&format!("/v1/runs/{run}/events")).await;
    let mut watched = served.client.stream("/v1/runs/watch").await;
    assert_eq!(events.next().await.unwrap().event, "run_created");
    watched.next().await.unwrap();
    served.begin_stop();
    for stream in [&mut events, &mut watched] {
        let mut last = None;
        while let Some(message) = stream.next().await {
            last = Some((message.id, message.event));
        }
        // Without a number: a reader goes on where it was.
        assert_eq!(last, Some((None, "closing".to_owned())));
    }
    served.acts.gate.add_permits(1);
    served.stopped().await;
}

/// An attempt in progress ends within the grace, and its outcome is kept.
#[tokio::test]
async fn an_attempt_in_progress_may_end() {
    let store = memory();
    let mut served = serve_as(store.clone(), Settings::default(), Config::default()).await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let mut events = served.client.stream(&format!("/v1/runs/{run}/events")).await;
    while events.next().await.unwrap().event != "attempt_started" {}
    served.begin_stop();
    while events.next().await.is_some() {}
    served.acts.gate.add_permits(1);
    served.stopped().await;
    let again = serve_as(store, Settings::default(), Config::default()).await;
    let shown = again.ended(&run).await;
    assert_eq!(
        (&shown["phase"], &shown["steps"][0]["tasks"][0]["attempts"]),
        (&json!("completed"), &json!(1))
    );
}

/// One that does not end is given back: another attempt does the work.
#[tokio::test]
async fn an_attempt_that_does_not_end_is_given_back() {
    let store = memory();
    let config = Config { grace: Nanos::from_millis(100), ..Config::default() };
    let mut served = serve_as(store.clone(), Settings::default(), config).await;
    let run = served
        .submit(&one("gated", "work_config = { max_retries = 3, backoff = 1 }"), &json!({}))
        .await;
    let mut events = served.client.stream(&format!("/v1/runs/{run}/events")).await;
    while events.next().await.unwrap().event != "attempt_started" {}
    drop(events);
    served.stopped().await;
    drop(served);
    let again = serve_as(store, Settings::default(), Config::default()).await;
    again.acts.gate.add_permits(10);
    assert_eq!(again.ended(&run).await["phase"], "completed");
}

#[tokio::test]
async fn nobody_is_let_in_any_more() {
    let mut served = serve().await;
    served.stopped().await;
    assert!(TcpStream::connect(served.client.to).await.is_err());
}
