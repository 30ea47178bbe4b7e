//! Connections through a proxy.
#![cfg(feature = "tls")]

use crate::action_support;

use std::sync::Mutex;

use retrial::action::{Actions, HttpActions};
use retrial::failure::Failure;
use retrial::net::{Hosts, Proxy, TcpConnect};
use retrial::workflow::{Endpoint, Target};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A proxy that answers the first request with `answer` and closes, and what it was asked.
async fn asked(
    network: impl FnOnce(TcpConnect, Proxy) -> TcpConnect,
    user: &str,
    without: &str,
    url: &str,
    answer: &str,
) -> (Result<Value, Failure>, Option<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{user}{}", listener.local_addr().unwrap());
    let proxy = Proxy::new(&at, without).unwrap();
    let actions = HttpActions::new(network(TcpConnect::new(), proxy), |_| None);
    let call = action_support::call(Target::Http(Endpoint::new("POST", url)));
    let head = Mutex::new(None);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read.push(stream.read_u8().await.unwrap());
        }
        *head.lock().unwrap() = Some(String::from_utf8(read).unwrap());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        std::future::pending::<()>().await
    };
    let got = tokio::select! {
        biased;
        got = actions.invoke(call) => got,
        () = serve => unreachable!("the proxy stays"),
    };
    (got, head.into_inner().unwrap())
}

fn any(network: TcpConnect, proxy: Proxy) -> TcpConnect {
    network.through(proxy)
}

const NO: &str = "HTTP/1.1 403 Forbidden\r\n\r\n";

#[tokio::test]
async fn x19_a_proxy_is_asked_for_hosts_under_tls() {
    let (got, head) = asked(any, "", "", "https://api.example.invalid/x?k=v", NO).await;
    let asks = "CONNECT api.example.invalid:443 HTTP/1.1\r\nHost: api.example.invalid:443\r\n\r\n";
    assert_eq!(head.as_deref(), Some(asks));
    let failure = got.unwrap_err();
    assert_eq!(failure.code().as_str(), "NETWORK_ERROR");
    assert!(failure.message().ends_with("the proxy answered 403"), "{failure}");
    assert!(!failure.is_outcome_unknown(), "no request was sent");
    for (answer, said) in [
        ("HTTP/1.1 407 Who\r\n\r\n", "asks for a user and a password"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "did not answer in HTTP"),
        ("HTTP/1.1 200 OK\r\nX: ", "end of file"),
        // The tunnel is there, and no TLS comes out of it.
        ("HTTP/1.1 200 OK\r\n\r\nplain", "agreeing on TLS"),
    ] {
        let (got, _) = asked(any, "", "", "https://h.invalid:8443/", answer).await;
        let failure = got.unwrap_err();
        assert!(failure.message().contains(said), "{answer}: {failure}");
    }
}

/// The user and the password go to the proxy and into no message.
#[tokio::test]
async fn x19_promise_8_a_proxys_password_goes_to_the_proxy_alone() {
    let (got, head) = asked(any, "u:hunter%32@", "", "https://h.invalid/", NO).await;
    let head = head.unwrap();
    assert!(head.contains("\r\nProxy-Authorization: Basic dTpodW50ZXIy\r\n"), "{head}");
    assert!(!got.unwrap_err().message().contains("hunter"));
    let proxy = Proxy::new("http://u:hunter2@h:1", "").unwrap();
    assert!(!format!("{proxy:?}").contains("hunter2"));
    for (url, without) in
        [("http://u:hunter2@h:0", ""), ("https://hunter2@h:1", ""), ("h:1", "a b")]
    {
        let error = Proxy::new(url, without).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn x19_hosts_without_a_proxy_are_connected_to() {
    for (without, url) in [
        ("*", "https://a.invalid/"),
        ("x, a.invalid", "https://a.invalid/"),
        (".invalid", "https://b.a.invalid/"),
        ("invalid", "https://b.a.invalid/"),
        ("*.a.invalid", "https://a.invalid/"),
        ("127.0.0.0/8", "https://127.0.0.1:1/"),
        ("127.0.0.1:1", "https://127.0.0.1:1/"),
        ("::1", "https://[::1]:1/"),
        // Only what goes under TLS goes through it.
        ("", "http://127.0.0.1:1/"),
    ] {
        let (got, head) = asked(any, "", without, url, NO).await;
        assert_eq!(head, None, "{without} {url}");
        assert!(!got.unwrap_err().message().contains("proxy"));
    }
    for (without, url) in [
        ("nvalid", "https://a.invalid/"),
        ("a.invalid:8443", "https://a.invalid/"),
        ("10.0.0.0/8", "https://127.0.0.1:1/"),
    ] {
        let (_, head) = asked(any, "", without, url, NO).await;
        assert!(head.is_some(), "{without} {url}");
    }
}

/// Behind a proxy an address is judged as everywhere, and the proxy is asked for that very address.
#[tokio::test]
async fn x19_x16_a_proxy_opens_no_address_that_is_not_listed() {
    for url in [
        "https://127.0.0.1/",
        "https://localhost/",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "https://[::ffff:127.0.0.1]/",
        "https://2130706433/",
    ] {
        let public = |network: TcpConnect, proxy| network.only_to(Hosts::public()).through(proxy);
        let (got, head) = asked(public, "", "", url, NO).await;
        assert_eq!((got.unwrap_err().code().as_str(), head), ("HOST_NOT_ALLOWED", None), "{url}");
    }
    for (listed, url, target) in [
        ("127.0.0.1", "https://127.0.0.1:8443/", "127.0.0.1:8443"),
        ("127.0.0.0/8", "https://2130706433/", "127.0.0.1:443"),
        ("::1", "https://[::1]/", "[::1]:443"),
    ] {
        let hosts = Hosts::new([listed]).unwrap();
        let some = |network: TcpConnect, proxy| network.only_to(hosts).through(proxy);
        let (_, head) = asked(some, "", "", url, NO).await;
        assert!(head.unwrap().starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")), "{url}");
    }
}
