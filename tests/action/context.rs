//! What a registered function's context gives it of the world, in production: clocks, timers, chance,
//! streams and HTTP.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::action_support;
use crate::action_support::server;

use action_support::call;
use retrial::action::{Actions, Call, Context, ContextRuntime, Registry, Response};
use retrial::failure::{Class, Failure};
use retrial::net::{Authority, Connect, ConnectError};
use retrial::runtime::TokioRuntime;
use retrial::time::Nanos;
use retrial::workflow::Target;
use serde_json::{Value, json};
use server::{Script, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

async fn run<F, Fut>(mut registry: Registry, function: F) -> Result<Value, Failure>
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, Failure>> + Send + 'static,
{
    let call = Call {
        context_runtime: ContextRuntime::by(TokioRuntime::current()),
        ..call(Target::Registered)
    };
    registry.register("act", function);
    registry.invoke(call).await
}

fn answer(head: &str, body: &str) -> Script {
    let length = body.len();
    Script::Send(format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes())
}

fn failed(got: Result<Value, Failure>) -> (String, Class, bool) {
    match got {
        Err(f) => (f.code().to_string(), f.class(), f.is_outcome_unknown()),
        Ok(value) => panic!("{value} is no failure"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_sleeps_by_its_nodes_clock() {
    let slept = run(Registry::new(), |context| async move {
        let began = context.now();
        context.sleep(Nanos::from_secs(600)).await;
        context.sleep_until(began.after(Nanos::from_secs(900))).await;
        Ok(json!(context.now().since(began).as_millis()))
    });
    let slept = slept.await.unwrap().as_u64().unwrap();
    assert!((900_000..900_100).contains(&slept), "{slept}");
}

#[tokio::test]
async fn wall_clock_and_chance_are_the_systems() {
    let drawn = run(Registry::new(), |context| async move {
        Ok(json!([context.wall().as_nanos(), context.random(), context.random()]))
    });
    let drawn = drawn.await.unwrap();
    // 2020-01-01T00:00:00Z
    assert!(drawn[0].as_u64().unwrap() > 1_577_836_800_000_000_000);
    assert_ne!(drawn[1], drawn[2]);
}

#[tokio::test(start_paused = true)]
async fn work_within_a_limit_is_dropped_when_it_is_over() {
    let limit = Nanos::from_secs(5);
    let quick = run(Registry::new(), move |context| async move {
        context.within(limit, context.sleep(Nanos::from_secs(4))).await.map(|()| json!("quick"))
    });
    assert_eq!(quick.await, Ok(json!("quick")));
    let slow = run(Registry::new(), move |context| async move {
        context.within(limit, context.sleep(Nanos::from_secs(6))).await.map(|()| Value::Null)
    });
    assert_eq!(failed(slow.await), ("TIMEOUT".to_owned(), Class::Retryable, true));
}

#[tokio::test]
async fn a_request_arrives_as_it_was_made() {
    let server = serve(answer("201 Created\r\nX-Id: 7", "{\"id\": 7}")).await;
    let url = server.url("/orders?a=b");
    let got = run(Registry::new(), move |context| {
        let url = url.clone();
        async move {
            let asked = context.http().post(&url).header("X-Own", "mine").json(&json!({"n": 1}));
            let got: Response = asked.with_attempt().send().await?;
            let body: Value = got.json()?;
            Ok(json!([got.status(), got.header("x-id"), body["id"]]))
        }
    });
    assert_eq!(got.await, Ok(json!([201, "7", 7])));
    let request = server.request().await;
    assert_eq!(
        (request.line.as_str(), request.body.as_str()),
        ("POST /orders?a=b HTTP/1.1", "{\"n\":1}")
    );
    assert_eq!(request.all("x-own"), ["mine"]);
    assert_eq!(request.all("content-type"), ["application/json"]);
    let receipt = action_support::call(Target::Registered).receipt().to_string();
    assert_eq!(request.all("receipt-token"), [receipt.as_str()]);
    assert_eq!(request.all("idempotency-key"), [receipt.as_str()]);
    assert_eq!(request.all("x-retry-attempt"), ["0"]);
}

/// Whoever is not asked for them does not get the attempt's headers.
#[tokio::test]
async fn a_plain_request_says_nothing_of_its_attempt() {
    let server = serve(answer("204 No Content", "")).await;
    let url = server.url("/");
    let got = run(Registry::new(), move |context| {
        let url = url.clone();
        async move { context.http().get(&url).send().await.map(|got| json!(got.status())) }
    });
    assert_eq!(got.await, Ok(json!(204)));
    let request = server.request().await;
    assert_eq!(request.line, "GET / HTTP/1.1");
    for name in ["receipt-token", "idempotency-key", "x-retry-attempt", "content-type"] {
        assert_eq!(request.all(name), [""; 0], "{name}");
    }
}

/// As HTTP actions read answers: the status is the code, `Retry-After` a hint, a broken exchange
/// leaves its outcome unknown.
#[tokio::test]
async fn what_goes_wrong_is_read_as_for_http_actions() {
    let ask = |script: Script, any: bool| async move {
        let server = serve(script).await;
        let url = server.url("/");
        run(Registry::new(), move |context| {
            let url = url.clone();
            async move {
                let asked = context.http().get(&url);
                let asked = if any { asked.any_status() } else { asked };
                asked.send().await.map(|got| json!(got.status()))
            }
        })
        .await
    };
    let busy = ask(answer("503 Busy\r\nRetry-After: 7", "later"), false).await;
    assert_eq!(busy.clone().unwrap_err().retry_after(), Some(Nanos::from_secs(7)));
    assert_eq!(failed(busy), ("503".to_owned(), Class::Retryable, false));
    let missing = ask(answer("404 Not Found", ""), false).await;
    assert_eq!(failed(missing), ("404".to_owned(), Class::Permanent, false));
    assert_eq!(ask(answer("404 Not Found", ""), true).await, Ok(json!(404)));
    let broken = ask(Script::Reset, true).await;
    assert_eq!(failed(broken), ("NETWORK_ERROR".to_owned(), Class::Retryable, true));
}

#[tokio::test]
async fn a_request_that_cannot_be_made_is_permanent() {
    let server = serve(answer("200 OK", "")).await;
    for (method, scheme, header) in [
        ("GET", "ftp", "x"),
        ("G T", "http", "x"),
        ("GET", "http", "b d"),
        ("GET", "http", "content-length"),
    ] {
        let url = server.url("/").replace("http", scheme);
        let got = run(Registry::new(), move |context| {
            let url = url.clone();
            async move {
                let asked = context.http().request(method, &url).header(header, "1");
                asked.send().await.map(|_| Value::Null)
            }
        });
        let got = got.await;
        assert_eq!(failed(got), ("BAD_REQUEST".to_owned(), Class::Permanent, false), "{header}");
    }
    assert!(server.was_never_asked());
}

/// What a function holds may hold secrets.
#[tokio::test]
async fn nothing_of_a_request_or_answer_is_shown() {
    let server = serve(answer("200 OK\r\nSet-Cookie: hunter2", "\"hunter2\"")).await;
    let url = server.url("/");
    let got = run(Registry::new(), move |context| {
        let url = url.clone();
        async move {
            let asked =
                context.http().post(&url).header("authorization", "hunter2").body("hunter2");
            let shown = format!("{asked:?}");
            Ok(json!(format!("{shown} {:?}", asked.send().await?)))
        }
    });
    let shown = got.await.unwrap().to_string();
    assert!(
        shown.contains("POST") && shown.contains("200") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_stream_reaches_the_system() {
    let server = serve(answer("200 OK", "hello")).await;
    let host = server.host();
    let got = run(Registry::new(), move |context| {
        let host = host.clone();
        async move {
            let mut stream = context.connect(&host).await?;
            let mut answer = [0; 15];
            let talked = async {
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await?;
                stream.read_exact(&mut answer).await
            };
            talked.await.map_err(|error| Failure::from(error.to_string()))?;
            Ok(json!(String::from_utf8_lossy(&answer)))
        }
    });
    assert_eq!(got.await, Ok(json!("HTTP/1.1 200 OK")));
    let nowhere = run(Registry::new(), |context| async move {
        context.connect("nowhere").await.map(|_| Value::Null)
    });
    assert_eq!(failed(nowhere.await), ("BAD_ADDRESS".to_owned(), Class::Permanent, false));
}

/// A network that leads everywhere to whoever holds the other end.
#[derive(Clone)]
struct Tunnel;

impl Connect for Tunnel {
    type Stream = DuplexStream;

    async fn connect(&self, to: &Authority) -> Result<DuplexStream, ConnectError> {
        let (mut near, far) = tokio::io::duplex(64);
        // What fits into the tunnel is there before anybody reads.
        let said = near.write_all(to.to_string().as_bytes()).await;
        said.map_err(|error| ConnectError::from_io("writing", &error))?;
        Ok(far)
    }
}

#[tokio::test]
async fn functions_use_the_network_that_they_are_given() {
    let mut registry = Registry::new();
    registry.over(Tunnel);
    let got = run(registry, |context| async move {
        let mut heard = String::new();
        let mut stream = context.connect("https://bank.test").await?;
        let read = stream.read_to_string(&mut heard).await;
        read.map_err(|error| Failure::from(error.to_string()))?;
        Ok(json!(heard))
    });
    assert_eq!(got.await, Ok(json!("https://bank.test:443")));
}
