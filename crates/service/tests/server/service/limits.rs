//! What is beyond a limit is refused with its own status.

use retrial::time::Nanos;
use retrial_service::server::{Limits, Settings};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::kit::{Served, memory, one, serve, serve_with, submission};

async fn with(limits: Limits) -> Served {
    serve_with(memory(), Settings { limits, ..Settings::default() }).await
}

/// What the service says to these bytes until it closes the connection.
async fn raw(served: &Served, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(served.client.to).await.unwrap();
    // It may answer and close before everything is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn a_body_may_be_so_large_and_no_larger() {
    let served = with(Limits { body: 1_000, ..Limits::default() }).await;
    let text = |size: usize| {
        let body = submission(&one("echo", ""), &json!({ "a": "" })).to_string();
        body.replace("\"a\":\"\"", &format!("\"a\":\"{}\"", "x".repeat(size - body.len())))
    };
    assert_eq!(served.client.ask("POST", "/v1/runs", &text(1_000)).await.status, 201);
    let refused = served.client.ask("POST", "/v1/runs", &text(1_001)).await.expect(413);
    assert!(refused["detail"].as_str().unwrap().contains("1000"), "{refused}");
    // Whatever is said of its length.
    let chunks = format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1_001));
    let head = "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    assert_eq!(status(&raw(&served, format!("{head}{chunks}").as_bytes()).await), "413");
    // And in however many pieces it comes.
    let chunk = format!("258\r\n{}\r\n", "x".repeat(600));
    let chunks = format!("{chunk}{chunk}0\r\n\r\n");
    assert_eq!(status(&raw(&served, format!("{head}{chunks}").as_bytes()).await), "413");
}

#[tokio::test]
async fn a_definition_may_be_so_long_and_no_longer() {
    let served = serve().await;
    let text = |size: usize| {
        let text = one("echo", "") + "#";
        let fill = "x".repeat(size - text.len());
        text + &fill
    };
    for (size, wanted) in [(256 * 1024, true), (256 * 1024 + 1, false)] {
        let text = text(size);
        let submitted = served.client.post("/v1/runs", &submission(&text, &json!({}))).await;
        assert_eq!(submitted.status, if wanted { 201 } else { 413 }, "{size}");
        let body = json!({ "definition": text, "format": "toml" });
        let checked = served.client.post("/v1/workflows/validate", &body).await;
        assert_eq!(checked.status, if wanted { 200 } else { 413 }, "{size}");
        let client = served.client.with("content-type", "application/toml");
        let put = client.ask("PUT", "/v1/workflows/w", &text).await;
        assert_eq!(put.status, if wanted { 200 } else { 413 }, "{size}");
    }
}

#[tokio::test]
async fn an_address_and_a_head_may_be_so_long_and_no_longer() {
    let served = with(Limits { uri: 100, head: 9_000, ..Limits::default() }).await;
    assert_eq!(served.client.get(&format!("/v1/runs?q={}", "x".repeat(89))).await.status, 200);
    assert_eq!(served.client.get(&format!("/v1/runs?q={}", "x".repeat(90))).await.status, 414);
    let head = |size: usize| {
        format!(
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\nconnection: close\r\n\r\n",
            "x".repeat(size)
        )
    };
    assert_eq!(status(&raw(&served, head(8_000).as_bytes()).await), "200");
    assert_eq!(status(&raw(&served, head(20_000).as_bytes()).await), "431");
}

#[tokio::test]
async fn json_may_be_nested_so_deep_and_no_deeper() {
    let served = serve().await;
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for (depth, wanted) in [(10, 201), (100, 422), (1_000, 400), (100_000, 400)] {
        let body = submission(&one("echo", ""), &json!({ "a": "HERE" })).to_string();
        let body = body.replace("\"HERE\"", &nested(depth));
        assert_eq!(served.client.ask("POST", "/v1/runs", &body).await.status, wanted, "{depth}");
    }
}

#[tokio::test]
async fn so_many_runs_may_be_unfinished_and_no_more() {
    let served = with(Limits { unfinished: 2, ..Limits::default() }).await;
    let body = submission(&one("gated", ""), &json!({}));
    for _ in 0..2 {
        served.client.post("/v1/runs", &body).await.expect(201);
    }
    let refused = served.client.post("/v1/runs", &body).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("5")));
    assert_eq!(refused.json()["type"], "urn:retrial:problem:too-many-runs");
    // Once one has ended there is room again.
    served.acts.gate.add_permits(1);
    while served.client.post("/v1/runs", &body).await.status != 201 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn so_many_streams_may_be_open_and_no_more() {
    let served = with(Limits { streams: 2, ..Limits::default() }).await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    let path = format!("/v1/runs/{run}/events");
    let first = served.client.stream(&path).await;
    let _second = served.client.stream("/v1/runs/watch").await;
    let refused = served.client.get(&path).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    // A stream that is cut gives its place back.
    drop(first);
    while served.client.send("GET", &path, "").await.status() != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_page_has_so_many_entries_and_no_more() {
    let served = with(Limits { page: 2, ..Limits::default() }).await;
    for _ in 0..3 {
        served.submit(&one("echo", ""), &json!({})).await;
    }
    let page = served.client.get("/v1/runs?limit=1000000").await.expect(200);
    assert_eq!(page["runs"].as_array().unwrap().len(), 2);
    assert!(page["next"].is_string());
}

#[tokio::test]
async fn a_client_that_dawdles_is_left() {
    let soon = Nanos::from_millis(200);
    let limits = Limits { head_within: soon, body_within: soon, ..Limits::default() };
    let served = with(limits).await;
    // Half a head: the connection is closed.
    let answer = raw(&served, b"GET /healthz HTTP/1.1\r\nhost: loc").await;
    assert!(answer.is_empty() || status(&answer) == "408", "{answer}");
    let half = b"POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: 100\r\nconnection: close\r\n\r\n{";
    assert_eq!(status(&raw(&served, half).await), "408");
}

/// A reader that does not read must lose its stream in the end.
#[tokio::test]
async fn a_client_that_does_not_read_is_left() {
    let limits = Limits { read_within: Nanos::from_millis(300), streams: 1, ..Limits::default() };
    let served = with(limits).await;
    let items: Vec<u32> = (0..3_000).collect();
    let text = "workflow = \"w\"\n[[steps]]\nid = \"s\"\naction = \"echo\"\n\
                for_each = \"${input.items}\"\nargs = { a = \"${item}\" }\n";
    let run = served.submit(text, &json!({ "items": items })).await;
    served.ended(&run).await;
    // Else the system takes all of it on behalf of who does not read.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut asleep = socket.connect(served.client.to).await.unwrap();
    let ask = format!(
        "GET /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    asleep.write_all(ask.as_bytes()).await.unwrap();
    let path = format!("/v1/runs/{run}/events");
    while served.client.send("GET", &path, "").await.status() != 429 {
        tokio::task::yield_now().await;
    }
    while served.client.send("GET", &path, "").await.status() != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let mut sent = Vec::new();
    // It may be reset.
    let _ = asleep.read_to_end(&mut sent).await;
    assert!(!String::from_utf8_lossy(&sent).contains("run_ended"), "all {} bytes", sent.len());
}

/// Nor may a client that asks and asks keep its connection for answers that it does not read.
#[tokio::test]
async fn a_client_that_leaves_answers_unread_is_left() {
    let limits =
        Limits { read_within: Nanos::from_millis(300), connections: 1, ..Limits::default() };
    let served = with(limits).await;
    let mut asleep = TcpStream::connect(served.client.to).await.unwrap();
    // Together the answers are longer than what the system takes on behalf of who does not read.
    let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    asleep.write_all(ask.as_bytes()).await.unwrap();
    // Nobody else is let in before that.
    tokio::select! {
        biased;
        answer = served.client.get("/healthz") => assert_eq!(answer.status, 200),
        () = tokio::time::sleep(std::time::Duration::from_secs(30)) => panic!("it is not left"),
    }
}

#[tokio::test]
async fn so_many_connections_are_taken_and_no_more() {
    let served = with(Limits { connections: 1, ..Limits::default() }).await;
    let first = served.client.stream("/v1/runs/watch").await;
    let client = served.client.clone();
    let waits = tokio::spawn(async move { client.get("/healthz").await.status });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert!(!waits.is_finished());
    drop(first);
    assert_eq!(waits.await.unwrap(), 200);
}

/// What a client announces is refused before it is sent, and the connection is closed.
#[tokio::test]
async fn a_body_that_is_announced_too_large_is_not_waited_for() {
    let served = with(Limits { body: 1_000, ..Limits::default() }).await;
    for path in ["/v1/runs", "/nowhere", "/healthz"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: 1001\r\n\r\n"
        );
        // `raw` reads to the end of the connection, and sends no body.
        let answer = raw(&served, head.as_bytes()).await;
        assert_eq!(status(&answer), "413", "{path}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

/// What a proxy in front may read otherwise is not read at all.
#[tokio::test]
async fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let served = serve().await;
    let asks = |head: &str| format!("GET /healthz HTTP/1.1{head}");
    for (head, wanted) in [
        ("\r\nhost: localhost\r\nconnection: close\r\n\r\n", "200"),
        ("\r\nhost: localhost\r\nhost: localhost\r\nconnection: close\r\n\r\n", "400"),
        ("\r\nhost: localhost\r\nHost: evil.test\r\nconnection: close\r\n\r\n", "400"),
        ("\r\nconnection: close\r\n\r\n", "400"),
        ("\nhost: localhost\nconnection: close\n\n", "400"),
        ("\r\nhost: localhost\nconnection: close\r\n\r\n", "400"),
        ("\r\nhost: localhost\r\nconnection: close\r\n\n", "400"),
    ] {
        assert_eq!(status(&raw(&served, asks(head).as_bytes()).await), wanted, "{head:?}");
    }
    // A second request on the same connection, after a body.
    let first = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n\n\n";
    let both = format!("{first}{}", asks("\nhost: localhost\n\n"));
    let answer = raw(&served, both.as_bytes()).await;
    assert!(answer.contains(" 404 ") && answer.contains(" 400 "), "{answer}");
    // After a chunked body nothing else is read.
    let chunked = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
                   1\r\na\r\n0\r\n\r\n";
    let both = format!("{chunked}{}", asks("\r\nhost: localhost\r\n\r\n"));
    let answer = raw(&served, both.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

/// The count is looked at again after a second.
#[tokio::test]
async fn runs_that_are_held_back_are_unfinished() {
    let served = with(Limits { unfinished: 1, ..Limits::default() }).await;
    let run = served.submit(&one("gated", ""), &json!({})).await;
    served.client.post(&format!("/v1/runs/{run}/pause"), &json!({})).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let body = submission(&one("gated", ""), &json!({}));
    assert_eq!(served.client.post("/v1/runs", &body).await.status, 429);
}
