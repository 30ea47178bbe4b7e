//! Connections that are kept between attempts, and HTTP/2.
#![cfg(feature = "tls")]
#![expect(clippy::disallowed_methods, reason = "servers beside the tests, outside the simulation")]

use crate::action_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use retrial::action::{Actions, Call, HttpActions};
use retrial::failure::Failure;
use retrial::net::TcpConnect;
use retrial::time::Nanos;
use retrial::workflow::{Action, Endpoint, Target};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// How many connections were opened, and how many of them the server has closed.
#[derive(Default)]
struct Connections {
    opened: AtomicUsize,
    closed: AtomicUsize,
    close: Notify,
}

impl Connections {
    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Waits until the server has closed so many.
    async fn closed(&self, many: usize) {
        while self.closed.load(Ordering::SeqCst) < many {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Let the end of the connection arrive.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Answers each request with the number of its connection, from 1, and whether it asks to close it.
/// After `last` answers the server closes a connection when it is told to. With `says` it says
/// so in each answer instead, and waits for the client to close.
async fn numbering(last: usize, says: bool) -> (String, Arc<Connections>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let all = Arc::new(Connections::default());
    let counted = Arc::clone(&all);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = counted.opened.fetch_add(1, Ordering::SeqCst) + 1;
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                for _ in 0..last {
                    let head = request(&mut stream).await?;
                    let body = json!([number, head.contains("connection: close")]).to_string();
                    let close = if says { "connection: close\r\n" } else { "" };
                    let length = body.len();
                    let head =
                        format!("HTTP/1.1 200 OK\r\n{close}content-length: {length}\r\n\r\n");
                    stream.write_all((head + &body).as_bytes()).await?;
                }
                match says {
                    true => drop(stream.read_to_end(&mut Vec::new()).await),
                    false => counted.close.notified().await,
                }
                drop(stream);
                counted.closed.fetch_add(1, Ordering::SeqCst);
                Ok::<_, std::io::Error>(())
            });
        }
    });
    (url, all)
}

/// Reads a request with an empty object, and gives its head in lower case.
async fn request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    stream.read_exact(&mut [0; 2]).await?;
    Ok(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

fn call(url: &str, idempotent: Option<bool>) -> Call {
    let mut call = action_support::call(Target::Http(Endpoint::new("POST", url)));
    let action = call.action.as_deref().unwrap().clone();
    call.action = Some(Arc::new(Action { idempotent, ..action }));
    call
}

fn keeping(per_host: usize, idle: Nanos) -> HttpActions<TcpConnect> {
    HttpActions::new(TcpConnect::new(), |_| None).keeping(per_host, idle)
}

const LONG: Nanos = Nanos::from_secs(3_600);

/// The number of the connection that carried the attempt, and whether it was to be closed.
fn said(got: Result<Value, Failure>) -> (u64, bool) {
    let got = got.unwrap();
    (got[0].as_u64().unwrap(), got[1].as_bool().unwrap())
}

#[tokio::test]
async fn x19_a_kept_connection_carries_the_next_attempt() {
    let (url, all) = numbering(usize::MAX, false).await;
    let actions = keeping(2, LONG);
    for _ in 0..3 {
        assert_eq!(said(actions.invoke(call(&url, None)).await), (1, false));
    }
    // Attempts at the same time have their own, of which two are kept.
    let both = tokio::join!(
        biased;
        actions.invoke(call(&url, None)),
        actions.invoke(call(&url, Some(true))),
        actions.invoke(call(&url, None))
    );
    let numbers = [both.0, both.1, both.2].map(|got| said(got).0);
    assert_eq!(numbers, [1, 2, 3]);
    let again = tokio::join!(
        biased;
        actions.invoke(call(&url, None)),
        actions.invoke(call(&url, None)),
        actions.invoke(call(&url, None))
    );
    let numbers = [again.0, again.1, again.2].map(|got| said(got).0);
    assert_eq!(numbers[2], 4, "two are kept: {numbers:?}");
    assert_eq!(all.opened(), 4);
}

/// Without a pool, or where an attempt may not run twice, each attempt has a connection of its own.
#[tokio::test]
async fn x19_an_action_that_is_not_idempotent_has_a_fresh_connection() {
    let (url, all) = numbering(usize::MAX, false).await;
    let fresh = HttpActions::new(TcpConnect::new(), |_| None);
    let none = keeping(0, LONG);
    for (actions, idempotent) in [(fresh, None), (none, None), (keeping(9, LONG), Some(false))] {
        let before = all.opened() as u64;
        for n in 1..=2 {
            let got = said(actions.invoke(call(&url, idempotent)).await);
            assert_eq!(got, (before + n, true), "{idempotent:?}");
        }
    }
}

#[tokio::test]
async fn x19_a_connection_that_was_idle_for_too_long_is_not_used() {
    let (url, _) = numbering(usize::MAX, false).await;
    let actions = keeping(2, Nanos::ZERO);
    let first = call(&url, None);
    for n in 1..=3 {
        assert_eq!(said(actions.invoke(first.clone()).await).0, n);
    }
}

/// The other side's end of a kept connection costs no attempt.
#[tokio::test]
async fn x19_a_kept_connection_that_has_closed_costs_no_attempt() {
    let (url, all) = numbering(2, false).await;
    let actions = keeping(2, LONG);
    for n in 1..=3 {
        for _ in 0..2 {
            assert_eq!(said(actions.invoke(call(&url, None)).await).0, n as u64);
        }
        all.close.notify_one();
        all.closed(n).await;
    }
}

/// A connection that is to be closed is not kept.
#[tokio::test]
async fn x19_a_connection_that_the_endpoint_ends_is_closed() {
    let (url, all) = numbering(1, true).await;
    let actions = keeping(2, LONG);
    for n in 1..=2 {
        assert_eq!(said(actions.invoke(call(&url, None)).await).0, n as u64);
        let long = Duration::from_secs(60);
        assert!(tokio::time::timeout(long, all.closed(n)).await.is_ok(), "it stays open");
    }
}

/// An HTTP/2 server under TLS that answers with what it was asked.
async fn http2_server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("../fixtures/tls/leaf.key.der")[..]);
    let leaf = CertificateDer::from(&include_bytes!("../fixtures/tls/leaf.der")[..]);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key.into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(tcp).await else { continue };
            count.fetch_add(1, Ordering::SeqCst);
            let served = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service_fn(echo));
            tokio::spawn(served);
        }
    });
    (url, opened)
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let version = format!("{:?}", request.version());
    let (uri, headers) = (request.uri().to_string(), request.headers().clone());
    let body = request.into_body().collect().await?.to_bytes();
    if uri.ends_with("/cut") {
        let cut = Response::builder().header("content-length", "9").body(Full::from("short"));
        return Ok(cut.unwrap_or_default());
    }
    let token = headers.get("receipt-token").is_some();
    let json = json!({
        "version": version, "uri": uri, "length": body.len(), "token": token,
        "connection": headers.get("connection").is_some(),
    });
    Ok(Response::new(Full::from(json.to_string())))
}

#[tokio::test]
async fn x19_http2_is_spoken_where_both_sides_can() {
    let root = include_bytes!("../fixtures/tls/root.der").to_vec();
    let network = TcpConnect::new().with_roots(&[root]).unwrap();
    let (url, opened) = http2_server().await;
    let actions = HttpActions::new(network, |_| None);
    let mut large = call(&format!("{url}/a?b=c"), None);
    large.args = json!({"text": "x".repeat(200_000)});
    let expected = json!({
        "version": "HTTP/2.0", "uri": format!("{url}/a?b=c"), "length": 200_011, "token": true,
        "connection": false,
    });
    assert_eq!(actions.invoke(large.clone()).await, Ok(expected.clone()));
    assert_eq!(actions.invoke(large.clone()).await, Ok(expected.clone()));
    assert_eq!(opened.load(Ordering::SeqCst), 2, "fresh each time");
    let keeping = actions.keeping(1, LONG);
    for _ in 0..3 {
        assert_eq!(keeping.invoke(large.clone()).await, Ok(expected.clone()));
    }
    assert_eq!(opened.load(Ordering::SeqCst), 3, "one that is kept");
    let failure = keeping.invoke(call(&format!("{url}/cut"), None)).await.unwrap_err();
    assert_eq!(failure.code().as_str(), "NETWORK_ERROR", "{failure}");
    assert!(failure.is_outcome_unknown());
}

/// A request that may have arrived is not sent again: whether it is retried is for its policy to say.
#[tokio::test]
async fn x19_a_request_on_a_kept_connection_is_sent_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // The first request of a connection is answered, the second one is not.
            for answered in [true, false] {
                request(&mut stream).await?;
                counted.fetch_add(1, Ordering::SeqCst);
                if answered {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";
                    stream.write_all(answer).await?;
                }
            }
        }
        Ok::<_, std::io::Error>(())
    });
    let actions = keeping(2, LONG);
    assert_eq!(actions.invoke(call(&url, None)).await, Ok(json!(true)));
    let failure = actions.invoke(call(&url, None)).await.unwrap_err();
    assert_eq!(failure.code().as_str(), "NETWORK_ERROR", "{failure}");
    assert!(failure.is_outcome_unknown());
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
