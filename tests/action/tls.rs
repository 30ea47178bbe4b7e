//! HTTPS by rustls over ring, in a process without a default provider.
#![cfg(feature = "tls")]
#![expect(clippy::unwrap_used, reason = "what the server beside a test can't do fails the test")]

use crate::action_support;

use std::sync::Arc;

use retrial::action::{Actions, HttpActions};
use retrial::failure::Failure;
use retrial::net::TcpConnect;
use retrial::workflow::{Endpoint, Target};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const ROOT: &[u8] = include_bytes!("../fixtures/tls/root.der");
const LEAF: &[u8] = include_bytes!("../fixtures/tls/leaf.der");
const KEY: &[u8] = include_bytes!("../fixtures/tls/leaf.key.der");

fn acceptor() -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(LEAF)], PrivatePkcs8KeyDer::from(KEY).into())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Answers one connection with `answer` and closes it, politely under TLS or by just hanging up.
async fn serve(listener: TcpListener, answer: &str, polite: bool) {
    let (tcp, _) = listener.accept().await.unwrap();
    let Ok(mut stream) = acceptor().accept(tcp).await else { return };
    let mut request = [0; 4096];
    assert!(stream.read(&mut request).await.unwrap() > 0);
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    if polite {
        stream.shutdown().await.unwrap();
    }
}

async fn ask(
    network: TcpConnect,
    host: &str,
    answer: &str,
    polite: bool,
) -> Result<Value, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{host}:{}/", listener.local_addr().unwrap().port());
    let endpoint = Endpoint::new("POST", url);
    let actions = HttpActions::new(network, |_| None);
    let call = action_support::call(Target::Http(endpoint));
    tokio::join!(biased; actions.invoke(call), serve(listener, answer, polite)).0
}

fn trusting() -> TcpConnect {
    TcpConnect::new().with_roots(&[ROOT.to_vec()]).unwrap()
}

const SEVEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7";

#[tokio::test]
async fn a_trusted_endpoint_is_called() {
    assert_eq!(ask(trusting(), "localhost", SEVEN, true).await, Ok(json!(7)));
}

#[tokio::test]
async fn an_endpoint_nobody_vouches_for_is_not() {
    for (network, host) in [(TcpConnect::new(), "localhost"), (trusting(), "127.0.0.1")] {
        let failure = ask(network, host, SEVEN, true).await.unwrap_err();
        assert_eq!(failure.lineage(), ["TlsError", "ConnectionError", "NetworkError"], "{failure}");
    }
}

/// A connection that ends without TLS's own goodbye was cut, also where its end is the body's.
#[tokio::test]
async fn a1_hanging_up_under_tls_is_a_cut() {
    let answer = "HTTP/1.0 200 OK\r\n\r\n7";
    assert_eq!(ask(trusting(), "localhost", answer, true).await, Ok(json!(7)));
    let failure = ask(trusting(), "localhost", answer, false).await.unwrap_err();
    assert_eq!(failure.lineage()[0], "IncompleteReadError", "{failure}");
}
