//! Where HTTP actions may connect, judged by the address that a name leads to.
#![cfg(feature = "http")]

use crate::action_support;

use std::collections::BTreeMap;

use retrial::action::{Actions, HttpActions};
use retrial::failure::{Class, Failure};
use retrial::net::{Authority, Hosts, TcpConnect};
use retrial::workflow::{Endpoint, HeaderText, Target};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn to(url: String, headers: BTreeMap<String, HeaderText>) -> Endpoint {
    Endpoint { headers, ..Endpoint::new("POST", url) }
}

async fn ask(hosts: Hosts, url: String) -> Result<Value, Failure> {
    let actions = HttpActions::new(TcpConnect::new().only_to(hosts), |_| None);
    actions.invoke(action_support::call(Target::Http(to(url, BTreeMap::new())))).await
}

/// Answers one request with 1.
async fn answer(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = [0; 4096];
    let n = stream.read(&mut request).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1").await.unwrap();
    String::from_utf8_lossy(&request[..n]).into_owned()
}

/// However an address inside is written, nothing connects to it, and the failure says what to do.
#[tokio::test]
async fn x16_nothing_connects_inside_unless_it_is_listed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (host, leads_to) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("localhost", "1"),
        ("[::1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0"),
        ("169.254.169.254", "169.254.169.254"),
        ("[64:ff9b::a9fe:a9fe]", "64:ff9b::a9fe:a9fe"),
        ("10.0.0.1", "10.0.0.1"),
    ] {
        let url = format!("http://{host}:{port}/");
        let failure = ask(Hosts::public(), url).await.unwrap_err();
        let kind = (failure.code().as_str(), failure.class());
        assert_eq!(kind, ("HOST_NOT_ALLOWED", Class::Permanent), "{host}: {failure}");
        let message = failure.message();
        assert!(message.contains(leads_to) && message.contains("allow_hosts"), "{message}");
    }
    tokio::select! {
        biased;
        _ = listener.accept() => panic!("a connection came"),
        () = async {} => {}
    }
}

#[tokio::test]
async fn x16_what_is_listed_is_called() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (listed, host) in [
        ("127.0.0.1".to_owned(), "127.0.0.1"),
        ("127.0.0.0/8".to_owned(), "127.0.0.1"),
        (format!("127.0.0.1:{port}"), "127.0.0.1"),
    ] {
        let hosts = Hosts::new([&listed]).unwrap();
        let asked = ask(hosts, format!("http://{host}:{port}/"));
        let (answered, _) = tokio::join!(biased; asked, answer(&listener));
        assert_eq!(answered, Ok(1.into()), "{listed}");
    }
    let failure = ask(Hosts::default(), format!("http://127.0.0.1:{port}/")).await.unwrap_err();
    assert_eq!(failure.code().as_str(), "HOST_NOT_ALLOWED", "an empty list allows nothing");
}

/// A secret goes to its own host and to no other.
#[tokio::test]
async fn x16_promise_8_a_variable_goes_only_to_its_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = Hosts::new([format!("127.0.0.1:{port}")]).unwrap();
    let actions = HttpActions::by_host(TcpConnect::new(), move |name: &str, to: &Authority| {
        own.name(to).then(|| format!("secret of {name}"))
    });
    let call = |port: u16| {
        let headers = [("x-key".to_owned(), HeaderText::Env("KEY".to_owned()))].into();
        action_support::call(Target::Http(to(format!("http://127.0.0.1:{port}/"), headers)))
    };
    let (answered, request) = tokio::join!(biased; actions.invoke(call(port)), answer(&listener));
    assert_eq!(answered, Ok(1.into()));
    assert!(request.contains("x-key: secret of KEY"), "{request}");
    let failure = actions.invoke(call(port - 1)).await.unwrap_err();
    assert_eq!(failure.code().as_str(), "MISSING_ENV");
}
