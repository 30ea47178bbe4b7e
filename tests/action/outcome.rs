//! Which failures leave open whether the work was done (C18, H17): those of an attempt whose request
//! may have reached its endpoint and whose answer nobody could read to its end.
#![cfg(feature = "http")]
#![allow(clippy::panic, reason = "a test fails by panicking")]

use crate::action_support;
use crate::action_support::server;

use retrial::action::{Actions, HttpActions};
use retrial::failure::{Failure, NetworkFault};
use retrial::net::TcpConnect;
use retrial::time::Nanos;
use retrial::workflow::{Endpoint, Target};
use server::{Script, serve};

async fn failure(url: &str) -> Failure {
    let http = HttpActions::new(TcpConnect::new(), |_| None);
    let (method, url) = ("POST".to_owned(), url.to_owned());
    let to = Target::Http(Endpoint::new(method, url));
    match http.invoke(action_support::call(to)).await {
        Err(failure) => failure,
        Ok(value) => panic!("{value} is no failure"),
    }
}

async fn answered(script: Script) -> Failure {
    let server = serve(script).await;
    failure(&server.url("/work")).await
}

async fn sent(bytes: &str) -> Failure {
    answered(Script::Send(bytes.into())).await
}

#[tokio::test]
async fn h17_a_request_that_may_have_arrived_leaves_the_outcome_open() {
    for failure in [
        answered(Script::Reset).await,
        sent("").await,
        sent("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"success\":").await,
        sent("HTTP/1.1 200 OK\r\n\r\n{\"success\":").await,
        sent("HTTP/1.1 503 Busy\r\nContent-Length: 20\r\n\r\nbu").await,
        sent("nonsense\r\n\r\n").await,
        sent("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Type: application/json\r\n\r\nnope")
            .await,
        Failure::timeout(Nanos::from_secs(1)),
        Failure::lease_lost(),
    ] {
        assert!(failure.is_outcome_unknown(), "{failure}");
    }
}

#[tokio::test]
async fn h17_a_request_that_never_left_and_an_answer_that_was_read_are_known() {
    let gone = serve(Script::Reset).await.url("/work");
    for failure in [
        failure(&gone).await,
        failure("http://nowhere.invalid/work").await,
        sent("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy").await,
        sent("HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"success\":false}").await,
        Failure::network(NetworkFault::Refused, ""),
        Failure::timed_out("the endpoint says so"),
        Failure::http(504, ""),
    ] {
        assert!(!failure.is_outcome_unknown(), "{failure}");
    }
}
