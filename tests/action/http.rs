//! HTTP actions against real servers on loopback. The expectations are read from the spec rows.
#![cfg(feature = "http")]

use crate::action_support;
use crate::action_support::server;

use std::collections::BTreeMap;

use retrial::action::{ActionSet, Actions, Call, HttpActions, Registry};
use retrial::failure::{Class, Failure};
use retrial::net::TcpConnect;
use retrial::time::Nanos;
use retrial::workflow::{Endpoint, HeaderText, Target};
use serde_json::{Value, json};
use server::{Script, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn actions() -> HttpActions<TcpConnect> {
    HttpActions::new(TcpConnect::new(), |name| {
        (name == "API_KEY").then(|| "sesame-open-1".to_owned())
    })
}

fn endpoint(method: &str, url: &str) -> Endpoint {
    Endpoint { method: method.to_owned(), url: url.to_owned(), headers: BTreeMap::new() }
}

fn call(to: Endpoint) -> Call {
    action_support::call(Target::Http(to))
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
        .into_bytes()
}

async fn invoke(script: Script) -> Result<Value, Failure> {
    let server = serve(script).await;
    actions().invoke(call(endpoint("POST", &server.url("/work")))).await
}

async fn ask(response: Vec<u8>) -> Result<Value, Failure> {
    invoke(Script::Send(response)).await
}

/// What a failure is: code, type (nearest first), class.
type Kind<'a> = (&'a str, &'a [&'a str], Class);

const CUT: Kind<'_> = (
    "NETWORK_ERROR",
    &["IncompleteReadError", "ConnectionError", "NetworkError"],
    Class::Retryable,
);
const BAD_RESPONSE: Kind<'_> =
    ("BAD_RESPONSE", &["BadResponseError", "ValueError"], Class::Permanent);
const WORK_FAILED: Kind<'_> = ("WORK_FAILED", &["WorkFailedError"], Class::Permanent);

fn kind(failure: &Failure) -> (String, Vec<String>, Class) {
    (failure.code().to_string(), failure.lineage().to_vec(), failure.class())
}

#[track_caller]
fn check(got: &Result<Value, Failure>, expected: Result<Value, Kind<'_>>) {
    let expected = expected.map_err(|(code, lineage, class)| {
        (code.to_owned(), lineage.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>(), class)
    });
    assert_eq!(got.as_ref().map_err(kind), expected.as_ref().map_err(Clone::clone), "{got:?}");
}

// A3, A4, W7, spec decision 17.
#[tokio::test]
async fn a3_a4_w7_decision_17_what_a_complete_200_means() {
    let exception = |code: &'static str| Err::<Value, _>((code, Class::Permanent));
    let big = format!("\"{}\"", "x".repeat(256 * 1024));
    for (body, expected) in [
        ("{\"a\": 1}", Ok(json!({"a": 1}))),
        ("", Ok(Value::Null)),
        (" \n", Ok(Value::Null)),
        ("null", Ok(Value::Null)),
        ("[1,2]", Ok(json!([1, 2]))),
        ("\"text\"", Ok(json!("text"))),
        ("{\"success\": true}", Ok(json!({"success": true}))),
        (
            "{\"success\": true, \"error\": \"x\", \"type\": \"E\", \"message\": \"m\"}",
            Ok(json!({"success": true, "error": "x", "type": "E", "message": "m"})),
        ),
        ("{\"success\": false}", exception("WORK_FAILED")),
        ("{\"success\": false, \"error\": \"no stock\"}", exception("WORK_FAILED")),
        (
            "{\"success\": false, \"type\": \"TimeoutError\", \"message\": \"m\"}",
            exception("WORK_FAILED"),
        ),
        ("{\"success\": \"false\"}", Ok(json!({"success": "false"}))),
        ("{\"success\": 0}", Ok(json!({"success": 0}))),
        ("{\"type\": \"KeyError\", \"message\": \"m\"}", exception("KeyError")),
        (
            "{\"type\": \"TimeoutError\", \"message\": \"m\"}",
            Err(("TimeoutError", Class::Retryable)),
        ),
        (
            "{\"type\": \"MyError\", \"message\": \"m\", \"mro\": [\"MyError\", \"ConnectionError\"]}",
            Err(("MyError", Class::Retryable)),
        ),
        ("{\"type\": \"invoice\"}", Ok(json!({"type": "invoice"}))),
        ("{\"type\": \"a\", \"message\": 7}", Ok(json!({"type": "a", "message": 7}))),
        ("{\"a\": ", exception("BAD_RESPONSE")),
        ("<html>", exception("BAD_RESPONSE")),
        ("{} {}", exception("BAD_RESPONSE")),
        ("1e999", exception("BAD_RESPONSE")),
        (&big, exception("RESULT_TOO_LARGE")),
    ] {
        let got = ask(response("200 OK", "", body)).await;
        let seen = got.as_ref().map_err(|f| (f.code().as_str(), f.class()));
        assert_eq!(seen, expected.as_ref().map_err(|e| *e), "{:.80}", body);
    }
}

#[tokio::test]
async fn w7_an_exception_keeps_its_lineage() {
    let body = "{\"type\": \"B\", \"message\": \"m\", \"mro\": [\"B\", \"A\", \"Exception\"]}";
    let got = ask(response("200 OK", "", body)).await;
    check(&got, Err(("B", &["B", "A", "Exception"], Class::Permanent)));
    assert_eq!(got.unwrap_err().message(), "m");
}

#[tokio::test]
async fn a3_work_failed_keeps_the_endpoints_words() {
    for (body, words) in [
        ("{\"success\": false, \"error\": \"no stock\"}", "no stock"),
        (
            "{\"success\": false, \"error\": {\"code\": \"E7\", \"message\": \"no stock\"}}",
            "E7: no stock",
        ),
        ("{\"success\": false, \"message\": \"no stock\"}", "no stock"),
        ("{\"success\": false}", "the endpoint answered success: false"),
    ] {
        let got = ask(response("200 OK", "", body)).await;
        check(&got, Err(WORK_FAILED));
        assert_eq!(got.unwrap_err().message(), words);
    }
}

// A1, A2, C3, spec decisions 6 and 17.
#[tokio::test]
async fn a1_a2_decision_17_statuses() {
    const SERVER: &[&str] = &["ServerError", "HTTPError"];
    const CLIENT: &[&str] = &["ClientError", "HTTPError"];
    const OTHER: &[&str] = &["HTTPError"];
    for (status, lineage, class) in [
        ("500 Internal Server Error", SERVER, Class::Retryable),
        ("503 Service Unavailable", SERVER, Class::Retryable),
        ("599 Odd", SERVER, Class::Retryable),
        ("400 Bad Request", CLIENT, Class::Permanent),
        ("404 Not Found", CLIENT, Class::Permanent),
        ("408 Request Timeout", CLIENT, Class::Permanent),
        (
            "429 Too Many Requests",
            &["RateLimitError", "ClientError", "HTTPError"],
            Class::Retryable,
        ),
        ("301 Moved Permanently", OTHER, Class::Permanent),
        ("304 Not Modified", OTHER, Class::Permanent),
    ] {
        // `success: true` under an error status changes nothing: the status speaks first.
        let body = if status.starts_with("304") { "" } else { "{\"success\": true}" };
        let headers = "Location: http://127.0.0.1:1/\r\n";
        let got = ask(response(status, headers, body)).await;
        check(&got, Err((&status[..3], lineage, class)));
    }
    check(&ask(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await, Ok(Value::Null));
    check(&ask(response("201 Created", "", "7")).await, Ok(json!(7)));
}

#[tokio::test]
async fn c14_an_error_body_refines_the_message_and_is_masked() {
    for (body, message) in [
        ("", "HTTP 503 Service Unavailable"),
        ("upstream down", "HTTP 503 Service Unavailable: upstream down"),
        (
            "{\"type\": \"DbError\", \"message\": \"down\"}",
            "HTTP 503 Service Unavailable: DbError: down",
        ),
        (
            "{\"error\": {\"code\": 17, \"message\": \"down\"}}",
            "HTTP 503 Service Unavailable: 17: down",
        ),
        ("bad token=hunter2 here", "HTTP 503 Service Unavailable: bad token=*** here"),
        (
            "{\"error\": \"postgres://u:hunter2@db is down\"}",
            "HTTP 503 Service Unavailable: postgres://***@db is down",
        ),
    ] {
        let failure = ask(response("503 Service Unavailable", "", body)).await.unwrap_err();
        assert_eq!(failure.message(), message);
        assert_eq!(failure.code().as_str(), "503");
    }
    let long = ask(response("500 Internal Server Error", "", &"y".repeat(5_000))).await;
    assert!(long.unwrap_err().message().len() < 400);
}

// C12, spec decision 7.
#[tokio::test]
async fn c12_retry_after_is_heard_on_429_and_503_only() {
    let seconds = |n: u64| Some(Nanos::from_secs(n));
    let dated =
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:47 GMT\r\n";
    for (status, headers, expected) in [
        ("429 Too Many Requests", "Retry-After: 7\r\n", seconds(7)),
        ("503 Service Unavailable", "Retry-After: 7\r\n", seconds(7)),
        ("503 Service Unavailable", dated, seconds(10)),
        // The call's store time is a thousand seconds after the epoch.
        ("503 Service Unavailable", "Retry-After: Thu, 01 Jan 1970 00:16:45 GMT\r\n", seconds(5)),
        ("503 Service Unavailable", "Retry-After: Thu, 01 Jan 1970 00:16:35 GMT\r\n", None),
        ("503 Service Unavailable", "Retry-After: -7\r\n", None),
        ("503 Service Unavailable", "Retry-After: 1\u{fe}\r\n", None),
        ("503 Service Unavailable", "Retry-After: 99999999999999999999999\r\n", Some(Nanos::MAX)),
        ("503 Service Unavailable", "", None),
        ("500 Internal Server Error", "Retry-After: 7\r\n", None),
        ("404 Not Found", "Retry-After: 7\r\n", None),
    ] {
        let failure = ask(response(status, headers, "")).await.unwrap_err();
        assert_eq!(failure.retry_after(), expected, "{status} {headers}");
    }
}

// A1, spec decision 17.
#[tokio::test]
async fn a1_a_cut_at_every_byte_is_a_network_error() {
    let whole = response("200 OK", "Connection: close\r\n", "{\"a\":1}");
    for n in 0..whole.len() {
        check(&ask(whole[..n].to_vec()).await, Err(CUT));
    }
    check(&ask(whole).await, Ok(json!({"a": 1})));
}

#[tokio::test]
async fn a1_a_cut_at_every_byte_of_a_chunked_answer() {
    let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n";
    for n in 0..whole.len() {
        check(&ask(whole[..n].to_vec()).await, Err(CUT));
    }
    check(&ask(whole.to_vec()).await, Ok(json!({"a": 1})));
}

/// Without a length the end of the connection is the end of the body (RFC 9112, 6.3): a cut inside
/// JSON shows all the same.
#[tokio::test]
async fn a1_a_cut_at_every_byte_of_an_answer_without_a_length() {
    let head = "HTTP/1.0 200 OK\r\n\r\n";
    let whole = format!("{head}{{\"a\":1}}").into_bytes();
    for n in (0..whole.len()).filter(|n| *n != head.len()) {
        check(&ask(whole[..n].to_vec()).await, Err(CUT));
    }
    check(&ask(head.as_bytes().to_vec()).await, Ok(Value::Null));
    check(&ask(whole).await, Ok(json!({"a": 1})));
}

#[tokio::test]
async fn a1_an_error_answer_that_is_cut_is_a_network_error() {
    let whole = response("404 Not Found", "Connection: close\r\n", "no such thing");
    for n in (0..whole.len()).step_by(7) {
        check(&ask(whole[..n].to_vec()).await, Err(CUT));
    }
}

#[tokio::test]
async fn a1_a_reset_and_a_refusal_have_their_own_types() {
    const RESET: Kind<'_> = (
        "NETWORK_ERROR",
        &["ConnectionResetError", "ConnectionError", "NetworkError"],
        Class::Retryable,
    );
    const REFUSED: Kind<'_> = (
        "NETWORK_ERROR",
        &["ConnectionRefusedError", "ConnectionError", "NetworkError"],
        Class::Retryable,
    );
    check(&invoke(Script::Reset).await, Err(RESET));
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let refused = endpoint("POST", &format!("http://127.0.0.1:{port}/"));
    check(&actions().invoke(call(refused)).await, Err(REFUSED));
}

#[tokio::test]
async fn a1_an_answer_that_is_not_http_is_a_network_error() {
    let got = ask(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()).await;
    check(&got, Err(("NETWORK_ERROR", &["ConnectionError", "NetworkError"], Class::Retryable)));
}

#[tokio::test]
async fn a_body_over_one_mebibyte_is_refused() {
    let body = format!("\"{}\"", "x".repeat(1024 * 1024 + 1));
    check(&ask(response("200 OK", "", &body)).await, Err(BAD_RESPONSE));
    let mut chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..1025 {
        chunked.extend(format!("400\r\n{}\r\n", "x".repeat(1024)).into_bytes());
    }
    check(&ask(chunked).await, Err(BAD_RESPONSE));
    // Behind an error status the status still speaks.
    let got = ask(response("500 Internal Server Error", "", &body)).await;
    check(&got, Err(("500", &["ServerError", "HTTPError"], Class::Retryable)));
}

// A14, W15, H17.
#[tokio::test]
async fn a14_h17_the_request_and_its_headers_are_as_the_contract_says() {
    let server = serve(Script::Send(response("200 OK", "", "1"))).await;
    let mut target = endpoint("POST", &server.url("/v1/work?x=1#part"));
    target.headers = BTreeMap::from([
        ("x-team".to_owned(), HeaderText::Literal("blue".to_owned())),
        ("authorization".to_owned(), HeaderText::Env("API_KEY".to_owned())),
        ("receipt-token".to_owned(), HeaderText::Literal("forged".to_owned())),
    ]);
    let mut call = call(target);
    call.args = json!({"b": [1, 2], "a": "ü"});
    call.attempt = 3;
    call.timeout = Some(Nanos::from_millis(1_500));
    let token = call.receipt().to_string();
    assert_eq!(actions().invoke(call).await, Ok(json!(1)));

    let seen = server.request().await;
    assert_eq!(seen.line, "POST /v1/work?x=1 HTTP/1.1");
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), json!({"b": [1, 2], "a": "ü"}));
    for (name, value) in [
        ("receipt-token", token.as_str()),
        ("idempotency-key", token.as_str()),
        ("x-retry-attempt", "2"),
        ("x-retry-timeout-ms", "1500"),
        ("content-type", "application/json"),
        ("x-team", "blue"),
        ("authorization", "sesame-open-1"),
        ("host", server.host().as_str()),
    ] {
        assert_eq!(seen.all(name), [value], "{name}");
    }
}

// H17, A14, decision 15: `X-Retry-Attempt` counts retries, from 0; the keys stay the same.
#[tokio::test]
async fn h17_a14_x_retry_attempt_header_counts_retries() {
    let server = serve(Script::Send(response("200 OK", "", "1"))).await;
    let mut keys = Vec::new();
    for attempt in 1..=3 {
        let mut call = call(endpoint("POST", &server.url("/")));
        call.attempt = attempt;
        assert_eq!(actions().invoke(call).await, Ok(json!(1)));
        let seen = server.request().await;
        assert_eq!(seen.all("x-retry-attempt"), [(attempt - 1).to_string()]);
        assert_eq!(seen.all("receipt-token"), seen.all("idempotency-key"));
        keys.push(seen.all("idempotency-key").join(" "));
    }
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 36), "{keys:?}");
}

// H17: an endpoint says in `X-Cost` what the attempt cost, whatever the status.
#[tokio::test]
async fn h17_x_cost_header_is_the_cost() {
    let huge = "9".repeat(30);
    let all = [
        ("200 OK", "X-Cost: 1250000\r\n", Some(1_250_000)),
        ("503 Service Unavailable", "x-cost: 7\r\n", Some(7)),
        ("200 OK", "", None),
        ("200 OK", "X-Cost: 1.5\r\n", None),
        ("200 OK", "X-Cost: -1\r\n", None),
        ("200 OK", "X-Cost: \r\n", None),
        ("200 OK", &format!("X-Cost: {huge}\r\n"), Some(u64::MAX)),
    ];
    for (status, header, cost) in all {
        let server = serve(Script::Send(response(status, header, "1"))).await;
        let call = call(endpoint("POST", &server.url("/")));
        let reports = call.reports.clone();
        let _ = actions().invoke(call).await;
        assert_eq!(reports.cost().map(|c| c.millionths()), cost, "{header}");
    }
}

#[tokio::test]
async fn get_and_head_send_no_body() {
    for method in ["GET", "HEAD"] {
        let server = serve(Script::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()));
        let server = server.await;
        let got = actions().invoke(call(endpoint(method, &server.url("/")))).await;
        assert_eq!(got, Ok(Value::Null));
        let seen = server.request().await;
        assert_eq!((seen.body.as_str(), seen.all("content-type").len()), ("", 0));
        assert_eq!(seen.all("x-retry-timeout-ms").len(), 0);
    }
}

#[tokio::test]
async fn the_user_of_a_url_becomes_basic_authentication() {
    let server = serve(Script::Send(response("200 OK", "", "1"))).await;
    let url = format!("http://Aladdin:open%20sesame@{}/", server.host());
    assert_eq!(actions().invoke(call(endpoint("POST", &url))).await, Ok(json!(1)));
    // RFC 7617, section 2.
    let seen = server.request().await;
    assert_eq!(seen.all("authorization"), ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]);
}

// C14: what is wrong with a request is said without its values.
#[tokio::test]
async fn requests_that_can_not_be_made_fail_for_good() {
    let with = |name: &str, text: HeaderText| {
        let mut target = endpoint("POST", "http://127.0.0.1:1/");
        target.headers = BTreeMap::from([(name.to_owned(), text)]);
        target
    };
    let literal = |text: &str| HeaderText::Literal(text.to_owned());
    for (target, code, says) in [
        (with("x-key", HeaderText::Env("NOT_SET".to_owned())), "MISSING_ENV", "NOT_SET"),
        (with("x-key", literal("hunter2\r\nX-Evil: 1")), "BAD_REQUEST", "x-key"),
        (with("bad name", literal("hunter2")), "BAD_REQUEST", "bad name"),
        (with("content-length", literal("0")), "BAD_REQUEST", "content-length"),
        (with("transfer-encoding", literal("chunked")), "BAD_REQUEST", "transfer-encoding"),
        (endpoint("PO ST", "http://127.0.0.1:1/"), "BAD_REQUEST", "method"),
        (endpoint("POST", "ftp://hunter2@h/"), "BAD_REQUEST", "http://"),
        (endpoint("POST", "http:///hunter2"), "BAD_REQUEST", "host"),
    ] {
        let failure = actions().invoke(call(target)).await.unwrap_err();
        assert_eq!((failure.code().as_str(), failure.class()), (code, Class::Permanent));
        assert!(failure.message().contains(says), "{failure}");
        assert!(!failure.message().contains("hunter2"), "{failure}");
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a guard: the test must end though a break may not")]
async fn c13_an_attempt_that_is_dropped_closes_its_connection() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let actions = actions();
        let attempt = actions.invoke(call(endpoint("POST", &url)));
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            stream.write_all(begun.as_bytes()).await.unwrap();
            stream
        };
        let mut stream = tokio::select! {
            biased;
            stream = server => stream,
            got = attempt => panic!("the attempt ended: {got:?}"),
        };
        let mut rest = Vec::new();
        // Ends only when the other side has closed, cleanly or by a reset.
        let long = std::time::Duration::from_secs(60);
        let end = tokio::time::timeout(long, stream.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "the connection stays open");
    }
}

#[tokio::test]
async fn a_declared_http_action_hides_a_function_of_the_same_name() {
    let mut registry = Registry::new();
    registry.register("act", |_| async { Ok::<_, Failure>("function") });
    let set = ActionSet::new(registry, actions());
    let server = serve(Script::Send(response("200 OK", "", "\"http\""))).await;
    let over_http = call(endpoint("POST", &server.url("/")));
    assert_eq!(set.invoke(over_http.clone()).await, Ok(json!("http")));
    let mut registered = over_http;
    registered.action = None;
    assert_eq!(set.invoke(registered).await, Ok(json!("function")));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = serve(Script::Send(response("200 OK", "", "1"))).await;
    let location = format!("Location: {}\r\n", elsewhere.url("/"));
    let got = ask(response("307 Temporary Redirect", &location, "")).await;
    check(&got, Err(("307", &["HTTPError"], Class::Permanent)));
    assert!(elsewhere.was_never_asked());
}
