//! H16: a run's events as a stream, without gap or repeat however it is cut.

use retrial::engine::Config;
use retrial::time::Nanos;
use retrial_service::server::{Limits, Settings};
use serde_json::{Value, json};

use super::client::Message;
use super::kit::{Served, memory, one, redb, serve, serve_as, serve_with, tries};

/// Follows the run through connections that are cut after ever other numbers of bytes.
async fn follow_cut(served: &Served, run: &str) -> Vec<Message> {
    let path = format!("/v1/runs/{run}/events");
    let mut all: Vec<Message> = Vec::new();
    let mut cut = 1;
    loop {
        let last = all.last().and_then(|message| message.id);
        let client = match last {
            Some(id) => served.client.with("last-event-id", &id.to_string()),
            None => served.client.clone(),
        };
        let (messages, _) = client.stream(&path).await.within(cut).await;
        cut = (cut * 7 + 131) % 1_511 + 200;
        all.extend(messages);
        if all.last().is_some_and(|message| message.event == "end") {
            return all;
        }
    }
}

async fn no_event_is_missed_or_repeated(served: Served) {
    let run = served.submit(&one("flaky", &tries(60)), &json!({ "fails": 50 })).await;
    let mut streamed = follow_cut(&served, &run).await;
    assert_eq!(streamed.pop().unwrap().event, "end");
    let ids: Vec<u64> = streamed.iter().map(|message| message.id.unwrap()).collect();
    let wanted: Vec<u64> = (0..ids.len() as u64).collect();
    assert_eq!(ids, wanted);
    assert_eq!(streamed.last().unwrap().event, "run_ended");
    let page = page(&served, &run, "?limit=500").await;
    let stored: Vec<&Value> = page["events"].as_array().unwrap().iter().collect();
    assert_eq!(streamed.iter().map(|m| &m.data).collect::<Vec<_>>(), stored);
    assert_eq!(page["next"], json!(null));
}

async fn page(served: &Served, run: &str, query: &str) -> Value {
    let client = served.client.with("accept", "application/json");
    client.get(&format!("/v1/runs/{run}/events{query}")).await.expect(200)
}

#[tokio::test]
async fn h16_a_stream_that_is_cut_goes_on_without_gap_or_repeat_on_memory() {
    no_event_is_missed_or_repeated(serve().await).await;
}

#[tokio::test]
async fn h16_a_stream_that_is_cut_goes_on_without_gap_or_repeat_on_redb() {
    let (store, _folder) = redb().await;
    no_event_is_missed_or_repeated(serve_with(store, Settings::default()).await).await;
}

#[tokio::test]
async fn h16_a_reader_that_has_everything_is_told_the_end() {
    let served = serve().await;
    let run = served.submit(&one("echo", ""), &json!({})).await;
    let version = served.ended(&run).await["version"].as_u64().unwrap();
    let path = format!("/v1/runs/{run}/events");
    let last = served.client.with("last-event-id", &(version - 1).to_string());
    let mut stream = last.stream(&path).await;
    assert_eq!(stream.next().await.unwrap().event, "end");
    assert_eq!(stream.next().await, None);
    for beyond in [version.to_string(), u64::MAX.to_string(), "x".into(), "-1".into()] {
        let client = served.client.with("last-event-id", &beyond);
        assert_eq!(client.get(&path).await.status, 400, "{beyond}");
    }
    assert_eq!(served.client.get(&format!("{path}?from={}", version + 1)).await.status, 400);
}

#[tokio::test]
async fn events_come_in_pages() {
    let served = serve().await;
    let run = served.submit(&one("flaky", &tries(9)), &json!({ "fails": 5 })).await;
    served.ended(&run).await;
    let (mut numbers, mut from) = (Vec::new(), 0);
    loop {
        let page = page(&served, &run, &format!("?from={from}&limit=4")).await;
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 4);
        numbers.extend(events.iter().map(|event| event["number"].as_u64().unwrap()));
        let Some(next) = page["next"].as_u64() else { break };
        from = next;
    }
    let wanted: Vec<u64> = (0..numbers.len() as u64).collect();
    assert_eq!(numbers, wanted);
}

/// A run that keeps few events has lost its first ones, and a reader learns which.
#[tokio::test]
async fn h16_what_was_compacted_away_is_told() {
    let config = Config { snapshot_tail: 1, keep_events: 20, ..Config::default() };
    let served = serve_as(memory(), Settings::default(), config).await;
    let run = served.submit(&one("flaky", &tries(60)), &json!({ "fails": 50 })).await;
    served.ended(&run).await;
    let page = page(&served, &run, "").await;
    let to = page["compacted"]["to"].as_u64().unwrap();
    assert_eq!((&page["compacted"]["from"], &page["events"][0]["number"]), (&json!(0), &json!(to)));
    let mut stream = served.client.stream(&format!("/v1/runs/{run}/events")).await;
    let first = stream.next().await.unwrap();
    assert_eq!((first.event.as_str(), first.id), ("compacted", Some(to - 1)));
    assert_eq!(first.data, json!({ "from": 0, "to": to }));
    let second = stream.next().await.unwrap();
    assert_eq!(second.id, Some(to));
    // A reader that reconnects after the gap misses nothing and sees no gap.
    let client = served.client.with("last-event-id", &(to - 1).to_string());
    let again = client.stream(&format!("/v1/runs/{run}/events")).await.next().await.unwrap();
    assert_eq!(again, second);
}

/// Events of another node of the store arrive too.
#[tokio::test]
async fn h16_events_of_another_node_are_told() {
    let store = memory();
    let shared = || Config { sole_owner: false, poll: Nanos::from_millis(50), ..Config::default() };
    let told = serve_as(store.clone(), Settings::default(), shared()).await;
    let other = serve_as(store, Settings::default(), shared()).await;
    let run = other.submit(&one("flaky", &tries(20)), &json!({ "fails": 9 })).await;
    let mut streamed = follow_cut(&told, &run).await;
    streamed.pop();
    let ids: Vec<u64> = streamed.iter().map(|message| message.id.unwrap()).collect();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
    assert_eq!(streamed.last().unwrap().event, "run_ended");
}

/// A browser asks again for the address that it began with, and says what it saw last.
#[tokio::test]
async fn h16_a_reader_that_began_with_from_goes_on_after_what_it_saw() {
    let served = serve().await;
    let run = served.submit(&one("flaky", &tries(9)), &json!({ "fails": 5 })).await;
    served.ended(&run).await;
    let path = format!("/v1/runs/{run}/events?from=0");
    let client = served.client.with("last-event-id", "3");
    assert_eq!(client.stream(&path).await.next().await.unwrap().id, Some(4));
}

/// Else proxies close the connection of a stream that is quiet.
#[tokio::test]
async fn h16_a_quiet_stream_has_comments() {
    let limits = Limits { keep_alive: Nanos::from_millis(50), ..Limits::default() };
    let served = serve_with(memory(), Settings { limits, ..Settings::default() }).await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let mut stream = served.client.stream(&format!("/v1/runs/{run}/events")).await;
    let gate = std::sync::Arc::clone(&served.acts.gate);
    // The stream ends whether it has comments or not.
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        gate.add_permits(1);
    });
    while stream.next().await.is_some() {}
    assert!(stream.text.contains("\n\n:\n\n"), "{}", stream.text);
    assert!(stream.text.contains("event: end"), "{}", stream.text);
}
