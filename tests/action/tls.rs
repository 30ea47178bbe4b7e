//! HTTPS by rustls over ring, in a process without a default provider.
#![cfg(feature = "tls")]
#![expect(clippy::unwrap_used, reason = "what the server beside a test can't do fails the test")]

use crate::action_support;

use std::sync::Arc;

use retrial::action::{Actions, HttpActions};
use retrial::failure::Failure;
use retrial::net::{Proxy, TcpConnect};
use retrial::workflow::{Endpoint, Target};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const ROOT: &[u8] = include_bytes!("../fixtures/tls/root.der");
const LEAF: &[u8] = include_bytes!("../fixtures/tls/leaf.der");
const KEY: &[u8] = include_bytes!("../fixtures/tls/leaf.key.der");

/// A certificate and its key.
type Pair = (&'static [u8], &'static [u8]);

const OF_LOCALHOST: Pair = (LEAF, KEY);

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Shows this certificate, and asks for one of the client's where `asking`.
fn acceptor((leaf, key): Pair, asking: bool) -> TlsAcceptor {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(ROOT)).unwrap();
    let client = WebPkiClientVerifier::builder_with_provider(roots.into(), provider()).build();
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match asking {
        true => config.with_client_cert_verifier(client.unwrap()),
        false => config.with_no_client_auth(),
    };
    let key = PrivatePkcs8KeyDer::from(key).into();
    let config = config.with_single_cert(vec![CertificateDer::from(leaf)], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Answers one connection with `answer` and closes it, politely under TLS or by just hanging up.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: &str, polite: bool) {
    let (tcp, _) = listener.accept().await.unwrap();
    let mut stream = match acceptor.accept(tcp).into_fallible().await {
        Ok(stream) => stream,
        Err((_, mut refused)) => {
            // Closing with unread bytes would reset before the refusal was read.
            let _ = refused.read_to_end(&mut Vec::new()).await;
            return;
        }
    };
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
    ask_of(network, host, acceptor(OF_LOCALHOST, false), answer, polite).await
}

async fn ask_of(
    network: TcpConnect,
    host: &str,
    acceptor: TlsAcceptor,
    answer: &str,
    polite: bool,
) -> Result<Value, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{host}:{}/", listener.local_addr().unwrap().port());
    let actions = HttpActions::new(network, |_| None);
    let call = action_support::call(Target::Http(Endpoint::new("POST", url)));
    tokio::join!(biased; actions.invoke(call), serve(listener, acceptor, answer, polite)).0
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

/// The message of a failure says which certificate was refused and why.
#[tokio::test]
async fn x19_a_refused_certificate_is_named_with_the_reason() {
    let expired: Pair = (
        include_bytes!("../fixtures/tls/expired.der"),
        include_bytes!("../fixtures/tls/expired.key.der"),
    );
    let early: Pair = (
        include_bytes!("../fixtures/tls/early.der"),
        include_bytes!("../fixtures/tls/early.key.der"),
    );
    let other: Pair = (
        include_bytes!("../fixtures/tls/other.der"),
        include_bytes!("../fixtures/tls/other.key.der"),
    );
    let by = "issued by `Retrial test root`,";
    for (network, host, pair, said) in [
        (
            TcpConnect::new(),
            "localhost",
            OF_LOCALHOST,
            format!(
                "for localhost, {by} is signed by nobody that this node trusts; for a private CA, set its certificate (ca_file)"
            ),
        ),
        (
            trusting(),
            "127.0.0.1",
            OF_LOCALHOST,
            format!("for localhost, {by} is not for the host 127.0.0.1"),
        ),
        (
            trusting(),
            "localhost",
            other,
            format!("for other.test, *.more.test, {by} is not for the host localhost"),
        ),
        (
            trusting(),
            "localhost",
            expired,
            format!("for localhost, {by} expired on Wed, 03 Feb 2021 00:00:00 GMT"),
        ),
        (
            trusting(),
            "localhost",
            early,
            format!(
                "for localhost, {by} is valid only from Thu, 01 Jan 2099 00:00:00 GMT; is this machine's clock right?"
            ),
        ),
    ] {
        let got = ask_of(network, host, acceptor(pair, false), SEVEN, true).await;
        let failure = got.unwrap_err();
        let message = failure.message();
        assert!(message.starts_with("agreeing on TLS with https://"), "{message}");
        assert!(message.ends_with(&format!("its certificate {said}")), "{message}");
        assert_eq!(failure.lineage()[0], "TlsError");
    }
}

/// An endpoint that speaks HTTP without TLS is no riddle.
#[tokio::test]
async fn x19_an_endpoint_without_tls_is_named_as_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let call = action_support::call(Target::Http(Endpoint::new("POST", url)));
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let actions = HttpActions::new(trusting(), |_| None);
    let (got, _stream) = tokio::join!(biased; actions.invoke(call), plain);
    let got = got.unwrap_err();
    assert!(got.message().contains("does not answer in TLS; is it an http:// endpoint?"), "{got}");
}

#[tokio::test]
async fn x19_a_private_ca_is_trusted_where_it_is_named() {
    let trusting = TcpConnect::new().with_ca(include_bytes!("../fixtures/tls/root.pem")).unwrap();
    assert_eq!(ask(trusting, "localhost", SEVEN, true).await, Ok(json!(7)));
    for wrong in
        [&b""[..], b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
    {
        assert!(TcpConnect::new().with_ca(wrong).is_err());
    }
}

#[tokio::test]
async fn x19_a_client_certificate_is_shown_to_who_asks() {
    let (chain, key) = (
        include_bytes!("../fixtures/tls/client.pem"),
        include_bytes!("../fixtures/tls/client.key.pem"),
    );
    let known = trusting().with_client_certificate(chain, key).unwrap();
    let got = ask_of(known, "localhost", acceptor(OF_LOCALHOST, true), SEVEN, true).await;
    assert_eq!(got, Ok(json!(7)));
    let got = ask_of(trusting(), "localhost", acceptor(OF_LOCALHOST, true), SEVEN, true).await;
    let failure = got.unwrap_err();
    assert_eq!(failure.lineage()[0], "TlsError");
    assert!(
        failure.message().ends_with("it asks for a client's certificate, and none is set"),
        "{failure}"
    );
    // Another's key is refused where it is set, and no error shows a key.
    let root = include_bytes!("../fixtures/tls/root.pem");
    for (chain, key) in [(&root[..], &key[..]), (&chain[..], b"PRIVATE hunter2"), (b"", key)] {
        let error = trusting().with_client_certificate(chain, key).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// A proxy for one connection: reads who is asked for, and carries bytes both ways.
async fn carry(listener: TcpListener) -> String {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let to = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap();
    let mut server = tokio::net::TcpStream::connect(to).await.unwrap();
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    to.to_owned()
}

/// TLS is with the endpoint, whatever carries it.
#[tokio::test]
async fn x19_tls_goes_through_a_proxys_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let network = |base: TcpConnect| base.through(Proxy::new(&proxy, "").unwrap());
    let asked = ask(network(trusting()), "localhost", SEVEN, true);
    let (got, to) = tokio::join!(asked, carry(listener));
    assert_eq!(got, Ok(json!(7)));
    assert!(to.starts_with("localhost:"), "{to}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let network = TcpConnect::new().through(Proxy::new(&proxy, "").unwrap());
    let (got, _) = tokio::join!(ask(network, "localhost", SEVEN, true), carry(listener));
    let failure = got.unwrap_err();
    assert_eq!(failure.lineage()[0], "TlsError", "{failure}");
    assert!(failure.message().contains("issued by `Retrial test root`"), "{failure}");
}

/// Where the system keeps its certificates is said by the environment, so the test is a process.
#[tokio::test]
async fn x19_what_the_system_trusts_is_trusted_on_request() {
    const CHILD: &str = "RETRIAL_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let system = TcpConnect::new().with_system_roots().unwrap();
        return assert_eq!(ask(system, "localhost", SEVEN, true).await, Ok(json!(7)));
    }
    let name = "tls::x19_what_the_system_trusts_is_trusted_on_request";
    let with = |certificates: &str| {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/");
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", name]).env(CHILD, "1").env_remove("SSL_CERT_DIR");
        program.env("SSL_CERT_FILE", format!("{fixtures}{certificates}")).output().unwrap()
    };
    let trusted = with("root.pem");
    assert!(trusted.status.success(), "{trusted:?}");
    let other = with("client.pem");
    let said = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(!other.status.success() && said.contains("TlsError"), "{said}");
}
