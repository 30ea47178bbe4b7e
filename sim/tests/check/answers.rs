//! Requests and answers of a user's own that are unlike those which sweeps draw.

use std::future::ready;

use bytes::Bytes;
use retrial::run::Outcome;
use retrial_sim::check::{Check, Gap, Request, Response};
use serde_json::json;

use super::kit::held;

const FILE: &str = r#"
    workflow = "fetch"
    [actions.fetch]
    http = "METHOD http://data.test/rows"
    idempotent = IDEMPOTENT
    [[steps]]
    id = "fetch"
    action = "fetch"
    args = { order = 7 }
    retry = "[retry: 2]"
"#;

fn saying(body: impl Into<Bytes>) -> Response {
    Response { body: body.into(), ..Response::status(200) }
}

fn retry_after(values: &[&str]) -> Response {
    values.iter().fold(Response::status(503), |r, value| r.with_header("retry-after", value))
}

fn exception(kind: &str, mro: &[&str]) -> Response {
    Response::json(&json!({ "type": kind, "message": "no", "mro": mro }))
}

/// Checks one answer; gives the code that the run failed with, if it did.
fn answered(method: &str, answer: Response) -> Option<String> {
    let [of_one, of_other] = [true, false].map(|idempotent| asked(method, idempotent, &answer));
    assert_eq!(of_one, of_other, "whether it may be asked again changes no answer");
    of_one
}

fn asked(method: &str, idempotent: bool, answer: &Response) -> Option<String> {
    let answer = answer.clone();
    let (said, heard) = std::sync::mpsc::channel();
    let service = move |_: &_| {
        let answer = answer.clone();
        move |_| ready(answer.clone())
    };
    let file = FILE.replace("METHOD", method).replace("IDEMPOTENT", &idempotent.to_string());
    let check =
        Check::new("answers").allow([Gap::NoRunSucceeded]).workflow_file("fetch.toml", &file);
    let check = check.service("data.test", service).faults([]).runs(1..=1).seeds(1);
    let passed = check.holds("told", move |seen| {
        let run = seen.runs().first().ok_or("no run")?;
        let code = match seen.outcome(run.id) {
            Some(Outcome::Completed) => None,
            Some(Outcome::Failed { error }) => Some(error.code.as_str().to_owned()),
            other => return Err(format!("{other:?}")),
        };
        said.send(code).map_err(|gone| gone.to_string())
    });
    held(passed);
    heard.recv().unwrap()
}

#[test]
fn what_can_not_be_kept_is_a_failure_and_no_finding() {
    let text = |long: usize| format!("\"{}\"", "x".repeat(long));
    let nested = |deep: usize| "[".repeat(deep) + &"]".repeat(deep);
    let large = 256 * 1024;
    for (body, code) in [
        (text(large - 2), None),
        (text(large - 1), Some("RESULT_TOO_LARGE")),
        (format!("{{\"success\": true, \"rows\": {}}}", text(large)), Some("RESULT_TOO_LARGE")),
        (text(4 * large), Some("BAD_RESPONSE")),
        (nested(100), None),
        (nested(101), Some("RESULT_TOO_DEEP")),
        (nested(200), Some("BAD_RESPONSE")),
    ] {
        let start: String = body.chars().take(40).collect();
        let long = body.len();
        assert_eq!(answered("POST", saying(body)).as_deref(), code, "{start} … of {long} bytes");
    }
}

/// Its letter keeps arguments that no request carried.
#[test]
fn a_method_without_a_body_may_fail_for_good() {
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        assert_eq!(answered(method, Response::status(503)).as_deref(), Some("503"), "{method}");
        assert_eq!(answered(method, Response::json(&[1])), None, "{method}");
    }
}

/// What an endpoint may say is judged as the engine reads it, whoever wrote the endpoint.
#[test]
fn every_kind_of_answer_is_read_the_same_way() {
    let later = "Wed, 01 Jan 2025 00:00:03 GMT";
    for (answer, code) in [
        (Response::status(204), None),
        (saying("  "), None),
        (saying(r#"{"success": true, "type": "E", "message": "m"}"#), None),
        (Response::json(&[1]).with_header("x-cost", "250000"), None),
        (saying("rows: 3"), Some("BAD_RESPONSE")),
        (saying("rows: 3").with_header("content-type", "text/plain"), None),
        (saying("{\"rows\": 3}").with_header("content-type", "text/plain"), None),
        (
            saying(r#"{"success": false}"#).with_header("content-type", "text/plain"),
            Some("WORK_FAILED"),
        ),
        (
            saying("rows: 3").with_header("content-type", "application/octet-stream"),
            Some("BAD_RESPONSE"),
        ),
        (saying(r#"{"success": false, "error": "no"}"#), Some("WORK_FAILED")),
        (
            saying(r#"{"type": "RowsError", "message": "no", "mro": ["DataError"]}"#),
            Some("RowsError"),
        ),
        (Response::status(302).with_header("location", "/elsewhere"), Some("302")),
        (Response::status(408), Some("408")),
        (Response::status(429).with_header("retry-after", "2"), Some("429")),
        (Response::status(503).with_header("retry-after", later), Some("503")),
        (Response::status(503).with_header("retry-after", "soon"), Some("503")),
        (Response::status(503).with_header("retry-after", "+5"), Some("503")),
        (Response::status(503).with_header("retry-after", " 2 "), Some("503")),
        // One that can't be sent is none.
        (retry_after(&["two\nlines"]), Some("503")),
        (retry_after(&["two\nlines", "2"]), Some("503")),
        (retry_after(&["two\nlines", "soon"]), Some("503")),
        (retry_after(&["soon", "2"]), Some("503")),
        (retry_after(&["99999999999999999999999999"]), Some("503")),
    ] {
        let shown = format!("{answer:?}");
        assert_eq!(answered("POST", answer).as_deref(), code, "{shown}");
    }
}

#[test]
fn an_exception_may_be_called_anything() {
    let long = "Quite".repeat(20);
    let many: Vec<String> = (0..30).map(|n| format!("Base{n}Error")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["TimeoutError"]).collect();
    for kind in [
        "TIMEOUT",
        "LEASE_LOST",
        "NETWORK_ERROR",
        "HEARTBEAT_TIMEOUT",
        "POSTCONDITION_FAILED",
        "BAD_RESPONSE",
        "WORK_FAILED",
        "RESULT_TOO_LARGE",
        "200",
        "404",
        "408",
        "429",
        "503",
    ] {
        for mro in [&[][..], &["TimeoutError"], &["HTTPError", "ServerError"]] {
            let code = answered("POST", exception(kind, mro));
            assert_eq!(code.as_deref(), Some(kind), "{mro:?}");
        }
    }
    for (kind, code) in
        [("", "ERROR"), ("a\u{7}b", "ab"), (&long, &long[..64]), ("RowsError", "RowsError")]
    {
        assert_eq!(answered("POST", exception(kind, &many)).as_deref(), Some(code));
    }
}

/// What an endpoint sends and a caller never sees is nothing to be judged.
#[test]
fn a_body_that_is_not_received_says_nothing() {
    let refusal = || saying(r#"{"success": false}"#);
    for (method, answer, code) in [
        ("HEAD", refusal(), None),
        ("HEAD", saying("rows: 3"), None),
        ("HEAD", saying("\u{a0}"), None),
        ("HEAD", saying("x".repeat(2 * 1024 * 1024)), None),
        ("HEAD", refusal().with_status(409), Some("409")),
        ("POST", refusal().with_status(204), None),
        ("GET", refusal().with_status(204), None),
        ("POST", refusal().with_status(205), Some("WORK_FAILED")),
        ("POST", refusal().with_status(201), Some("WORK_FAILED")),
        ("POST", refusal().with_status(304), Some("304")),
        ("POST", saying("\u{a0}"), Some("BAD_RESPONSE")),
        ("POST", saying(b"\"\xff\"".to_vec()), Some("BAD_RESPONSE")),
        ("POST", saying(b"\xef\xbb\xbf{}".to_vec()), Some("BAD_RESPONSE")),
    ] {
        let shown = format!("{method} {answer:?}");
        let shown: String = shown.chars().take(100).collect();
        assert_eq!(answered(method, answer).as_deref(), code, "{shown}");
    }
}

/// They would make one answer look like another.
#[test]
fn headers_that_frame_the_message_are_the_servers() {
    for (name, value) in [
        ("content-length", "3"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "upgrade"),
        ("upgrade", "h2c"),
        ("content-type", "text/plain"),
        ("x-lines", "a\nb"),
        ("x y", "z"),
    ] {
        let answer = Response::json(&"fine").with_header(name, value);
        assert_eq!(answered("POST", answer), None, "{name}: {value}");
    }
}

/// What the URL, the query and the body of a request carry is judged, and a text is a result.
#[test]
fn x19_requests_carry_what_their_urls_name() {
    for (http, more, args, path, query, body) in [
        (
            "GET http://data.test/o/${args.id}",
            "",
            "id = 'a/b', k = 'x y'",
            "/o/a%2Fb",
            "k=x%20y",
            "",
        ),
        ("DELETE http://data.test/o?q=${args.id}", "", "id = 7", "/o", "q=7", ""),
        (
            "PUT http://data.test/o/${args.id}",
            "answer = 'text'",
            "id = 7, n = 1",
            "/o/7",
            "",
            "{\"n\":1}",
        ),
        ("POST http://data.test/o", "body = 'form'\nanswer = 'status'", "n = 1", "/o", "", "n=1"),
    ] {
        let file = format!(
            "workflow = 'w'\n[actions.x]\nhttp = '{http}'\n{more}\n[[steps]]\nid = 'a'\naction = 'x'\nargs = {{ {args} }}\nretry = '[retry: 3]'\n"
        );
        let service = move |_: &_| {
            move |request: Request| {
                let got = (request.path.as_str(), request.query.as_str(), &request.body[..]);
                let right = got == (path, query, body.as_bytes());
                let answer = Response { body: "three rows".into(), ..Response::status(200) };
                let answer = answer.with_header("content-type", "text/plain");
                ready(if right { answer } else { Response::status(404) })
            }
        };
        let check = Check::new("carried").workflow_file("w.toml", &file);
        let check = check.service("data.test", service).runs(1..=2).seeds(12);
        let passed = check.holds("completed", move |seen| {
            let ended = seen.runs().iter().map(|run| seen.outcome(run.id));
            let failed = ended.into_iter().find_map(|outcome| match outcome {
                Some(Outcome::Failed { error }) if error.code.as_str() == "404" => {
                    Some(error.message.clone())
                }
                _ => None,
            });
            failed.map_or(Ok(()), Err)
        });
        held(passed);
    }
}
