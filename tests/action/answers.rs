//! Answers that are not JSON, are packed, or lead elsewhere.
#![cfg(feature = "http")]

use crate::action_support;
use crate::action_support::server::{Script, serve};

use retrial::action::{Actions, HttpActions};
use retrial::failure::{Class, Failure};
use retrial::net::TcpConnect;
use retrial::workflow::{AnswerForm, Endpoint, Target};
use serde_json::{Value, json};

/// What an action of this form makes of an answer with these headers, each line ended.
async fn ask(
    form: Option<AnswerForm>,
    status: &str,
    headers: &str,
    body: impl AsRef<[u8]>,
) -> Result<Value, Failure> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    raw(form, [head.as_bytes(), body].concat()).await
}

async fn raw(form: Option<AnswerForm>, answer: Vec<u8>) -> Result<Value, Failure> {
    let server = serve(Script::Send(answer)).await;
    let endpoint = Endpoint { answer: form, ..Endpoint::new("POST", server.url("/work")) };
    let actions = HttpActions::new(TcpConnect::new(), |_| None);
    actions.invoke(action_support::call(Target::Http(endpoint))).await
}

fn kind(got: &Result<Value, Failure>) -> Result<&Value, &str> {
    got.as_ref().map_err(|failure| failure.code().as_str())
}

#[tokio::test]
async fn x19_an_answer_is_read_by_its_type() {
    let bad = || Err("BAD_RESPONSE");
    let text = |text: &str| Ok(json!(text));
    for (kind_of, body, expected) in [
        ("", "{\"a\": 1}", Ok(json!({"a": 1}))),
        ("", "three rows", text("three rows")),
        ("", "{\"a\": ", text("{\"a\": ")),
        ("", "\u{fc}", text("\u{fc}")),
        ("application/json", "7", Ok(json!(7))),
        ("application/json; charset=utf-8", "rows", bad()),
        ("application/problem+json", "rows", bad()),
        ("application/vnd.api+json", "[1]", Ok(json!([1]))),
        ("text/plain", "7", text("7")),
        ("text/plain; charset=utf-8", " a\n", text(" a\n")),
        ("Text/HTML", "<p>", text("<p>")),
        ("application/xml", "<a/>", text("<a/>")),
        ("image/svg+xml", "<svg/>", text("<svg/>")),
        ("application/x-www-form-urlencoded", "a=1", text("a=1")),
        ("text/plain", "", Ok(Value::Null)),
        ("text/plain", " \n", Ok(Value::Null)),
        // What says that it failed has failed, whatever its type.
        ("text/plain", "{\"success\": false}", Err("WORK_FAILED")),
        ("text/plain", "{\"type\": \"E\", \"message\": \"m\"}", Err("E")),
        ("text/plain", "{\"success\": true}", text("{\"success\": true}")),
        ("application/octet-stream", "{\"a\": 1}", Ok(json!({"a": 1}))),
        ("application/octet-stream", "rows", bad()),
        ("image/png", "\u{1}", bad()),
    ] {
        let header = match kind_of {
            "" => String::new(),
            kind_of => format!("Content-Type: {kind_of}\r\n"),
        };
        let got = ask(None, "200 OK", &header, body).await;
        assert_eq!(kind(&got), expected.as_ref().map_err(|code| *code), "{kind_of}: {body}");
    }
    let latin = "Content-Type: text/plain; charset=ISO-8859-1\r\n";
    assert_eq!(ask(None, "200 OK", latin, b"\xfc").await, Ok(json!("\u{fc}")));
    let utf = "Content-Type: text/plain\r\n";
    assert_eq!(kind(&ask(None, "200 OK", utf, b"\xfc").await), Err("BAD_RESPONSE"));
    let large = "x".repeat(300 * 1024);
    assert_eq!(kind(&ask(None, "200 OK", utf, &large).await), Err("RESULT_TOO_LARGE"));
}

/// Without a type and without a length, JSON that ends too soon was cut; other text may be whole.
#[tokio::test]
async fn x19_a1_a_text_whose_end_is_the_connections_is_taken() {
    let ended = |body: &str| raw(None, format!("HTTP/1.0 200 OK\r\n\r\n{body}").into_bytes());
    assert_eq!(ended("three rows").await, Ok(json!("three rows")));
    assert_eq!(kind(&ended("{\"a\": ").await), Err("NETWORK_ERROR"));
}

#[tokio::test]
async fn x19_an_action_says_how_its_answer_is_read() {
    let (json, text, status) =
        (Some(AnswerForm::Json), Some(AnswerForm::Text), Some(AnswerForm::Status));
    let plain = "Content-Type: text/plain\r\n";
    let packed = "Content-Encoding: gzip\r\n";
    for (form, code, headers, body, expected) in [
        (json, "200 OK", plain, "{\"a\": 1}", Ok(json!({"a": 1}))),
        (json, "200 OK", plain, "rows", Err("BAD_RESPONSE")),
        (json, "200 OK", "", "rows", Err("BAD_RESPONSE")),
        (text, "200 OK", "", "{\"success\": false}", Ok(json!("{\"success\": false}"))),
        (text, "200 OK", "Content-Type: application/json\r\n", "7", Ok(json!("7"))),
        (text, "200 OK", plain, "", Ok(json!(""))),
        (status, "200 OK", plain, "{\"success\": false}", Ok(json!(200))),
        (status, "202 Accepted", packed, "no gzip", Ok(json!(202))),
        (status, "204 No Content", "", "", Ok(json!(204))),
        (status, "503 Service Unavailable", plain, "", Err("503")),
        (text, "404 Not Found", plain, "none", Err("404")),
    ] {
        let got = ask(form, code, headers, body).await;
        assert_eq!(kind(&got), expected.as_ref().map_err(|code| *code), "{form:?} {code} {body}");
    }
}

/// The message shows the type and the beginning of the body, without secrets.
#[tokio::test]
async fn x19_promise_8_a_bad_response_says_what_came() {
    let html = format!("<html>password=hunter2 {}", "y".repeat(500));
    let json = Some(AnswerForm::Json);
    let failure = ask(json, "200 OK", "Content-Type: text/html\r\n", &html).await.unwrap_err();
    let message = failure.message();
    assert!(message.starts_with("the answer 200 text/html is not JSON: "), "{message}");
    assert!(message.contains("it begins with \"<html>password=*** yyy"), "{message}");
    assert!(!message.contains("hunter2") && message.len() < 250, "{message}");
    assert_eq!((failure.class(), failure.is_outcome_unknown()), (Class::Permanent, true));
    // It is masked before it is cut: no part of a secret remains.
    let split = format!("{} ghp_AbCd1234EfGh5678IjKl9012MnOp3456QrSt", "y".repeat(68));
    let failure = ask(json, "200 OK", "", &split).await.unwrap_err();
    assert!(!failure.message().contains("AbCd"), "{failure}");
    let failure = ask(None, "200 OK", "", b"\xff\xfe").await.unwrap_err();
    let message = failure.message();
    assert!(message.starts_with("the answer 200 without a Content-Type is not text"), "{message}");
}

#[tokio::test]
async fn x19_packed_answers_are_read() {
    let expected = json!({"packed": "x".repeat(300)});
    let small: [(&str, &[u8]); 3] = [
        ("gzip", include_bytes!("../fixtures/packed/small.gz")),
        ("br", include_bytes!("../fixtures/packed/small.br")),
        ("zstd", include_bytes!("../fixtures/packed/small.zst")),
    ];
    let encoded = |name: &str| format!("Content-Encoding: {name}\r\n");
    for (name, body) in small {
        let got = ask(None, "200 OK", &encoded(name), body).await;
        assert_eq!(got, Ok(expected.clone()), "{name}");
        // A refusal's body is read as well.
        let refused = ask(None, "500 Oh", &encoded(name), body).await.unwrap_err();
        assert!(refused.message().contains("xxx"), "{refused}");
        for wrong in [&body[..body.len() / 2], &body[..1], b"none", b"\x11\x00\x00\x00\x00\x00"] {
            let got = ask(None, "200 OK", &encoded(name), wrong).await;
            assert_eq!(kind(&got), Err("BAD_RESPONSE"), "{name} {wrong:?}");
            assert_eq!(kind(&ask(None, "503 No", &encoded(name), wrong).await), Err("503"));
        }
        // If only the connection's end marks the body's end, a packed body that ends early was cut.
        let head = format!("HTTP/1.0 200 OK\r\n{}\r\n", encoded(name));
        let cut = [head.as_bytes(), &body[..body.len() / 2]].concat();
        assert_eq!(kind(&raw(None, cut).await), Err("NETWORK_ERROR"), "{name}");
    }
    let members = include_bytes!("../fixtures/packed/members.gz");
    let got = ask(None, "200 OK", &encoded("gzip"), members).await;
    assert_eq!(got, Ok(expected), "several members");
    for name in ["identity", ""] {
        assert_eq!(ask(None, "200 OK", &encoded(name), "7").await, Ok(json!(7)));
    }
    for name in ["compress", "gzip, gzip, gzip, gzip"] {
        assert_eq!(kind(&ask(None, "200 OK", &encoded(name), "7").await), Err("BAD_RESPONSE"));
    }
}

/// Each would unpack to 64 MiB, or asks for more memory than HTTP allows.
#[tokio::test]
async fn x19_no_packed_answer_takes_more_room_than_a_plain_one() {
    let bombs: [(&str, &[u8]); 4] = [
        ("gzip", include_bytes!("../fixtures/packed/bomb.gz")),
        ("br", include_bytes!("../fixtures/packed/bomb.br")),
        ("zstd", include_bytes!("../fixtures/packed/bomb.zst")),
        ("zstd", include_bytes!("../fixtures/packed/wide.zst")),
    ];
    for (name, body) in bombs {
        let got = ask(None, "200 OK", &format!("Content-Encoding: {name}\r\n"), body).await;
        let failure = got.unwrap_err();
        assert_eq!(failure.code().as_str(), "BAD_RESPONSE", "{name}");
        let said = ["longer than 1024 KiB", "zstd is damaged"];
        assert!(said.iter().any(|said| failure.message().contains(said)), "{failure}");
    }
}

/// A redirect says where it leads, without what may be secret there.
#[tokio::test]
async fn x19_promise_8_a_redirect_names_its_target() {
    for (location, shown) in [
        ("https://new.example/v2/work", "https://new.example/v2/work"),
        ("/login?token=hunter2", "/login?***"),
        ("https://u:hunter2@h.example/x#hunter2", "https://***@h.example/x"),
    ] {
        let header = format!("Location: {location}\r\n");
        let got = ask(None, "301 Moved Permanently", &header, "moved").await.unwrap_err();
        let whole = format!(
            "HTTP 301 Moved Permanently: it leads to {shown}, and redirects are not followed; write that URL"
        );
        assert_eq!(got.message(), whole);
        assert_eq!((got.code().as_str(), got.class()), ("301", Class::Permanent));
    }
    let long = format!("Location: https://h.example/{}\r\n", "a/".repeat(2_000));
    let got = ask(None, "302 Found", &long, "").await.unwrap_err();
    assert!(got.message().len() < 400, "{got}");
    // Only a redirect leads elsewhere.
    let got = ask(None, "404 Not Found", "Location: /x\r\n", "gone").await.unwrap_err();
    assert_eq!(got.message(), "HTTP 404 Not Found: gone");
}
