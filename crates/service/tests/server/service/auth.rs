//! Who may ask.

use retrial::action::Registry;
use retrial::engine::{Config, Engine};
use retrial::runtime::TokioRuntime;
use retrial::store::{DynStore, MemoryStore};
use retrial_service::server::{AccessToken, Monitor, ServeError, Service, Settings};
use tokio::net::TcpListener;

use super::client::Client;
use super::kit::{Served, Test, memory, serve, serve_with};

const TOKEN: &str = "correct-horse-battery-staple";

async fn with_token() -> Served {
    let token = Some(AccessToken::new(TOKEN).unwrap());
    serve_with(memory(), Settings { token, ..Settings::default() }).await
}

#[tokio::test]
async fn without_the_token_nothing_is_told() {
    let served = with_token().await;
    let bearer = |token: &str| served.client.with("authorization", token);
    for path in [
        "/v1/runs",
        "/v1/actions",
        "/metrics",
        "/v1/tally",
        "/v1/letters",
        "/v1/runs/watch",
        "/nowhere",
    ] {
        let refused = served.client.get(path).await;
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Bearer")),
            "{path}"
        );
    }
    let refused = served.client.ask("POST", "/v1/runs", "{}").await;
    assert_eq!(refused.status, 401);
    for wrong in [
        "Bearer correct-horse-battery-stapl",
        "Bearer correct-horse-battery-staple2",
        "Bearer ",
        "Bearer",
        "Basic correct-horse-battery-staple",
        TOKEN,
    ] {
        assert_eq!(bearer(wrong).get("/v1/runs").await.status, 401, "{wrong}");
    }
    assert_eq!(bearer(&format!("Bearer {TOKEN}")).get("/v1/runs").await.status, 200);
    assert_eq!(bearer(&format!("bearer  {TOKEN}")).get("/v1/runs").await.status, 200);
}

/// Routes that reveal nothing of any run are open: a probe has no token.
#[tokio::test]
async fn health_and_description_are_open() {
    let served = with_token().await;
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(served.client.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn other_addresses_than_loopback_need_a_token() {
    let start = async |settings: Settings| {
        let runtime = TokioRuntime::current();
        let store = DynStore::new(MemoryStore::new(runtime.clone()));
        let engine: Engine<Test> =
            Engine::start(runtime, store, Registry::new(), Config::default(), vec![]).await;
        let service = Service::new(engine, Monitor::new().unwrap(), settings);
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        service.serve(listener, async {}).await
    };
    let refused = start(Settings::default()).await.unwrap_err();
    assert!(matches!(refused, ServeError::NeedsToken(_)), "{refused}");
    let token = Some(AccessToken::new(TOKEN).unwrap());
    start(Settings { token, ..Settings::default() }).await.unwrap();
}

/// DNS rebinding: another site's name may lead to 127.0.0.1.
#[tokio::test]
async fn on_loopback_the_host_must_be_this_machine() {
    let served = serve().await;
    let port = served.client.to.port();
    let ask = async |host: &str| served.client.with("host", host).get("/v1/runs").await.status;
    for good in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "localhost".into(),
        "[::1]:9".into(),
    ] {
        assert_eq!(ask(&good).await, 200, "{good}");
    }
    for bad in ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test:80", "0.0.0.0", "", "a b"]
    {
        assert_eq!(ask(bad).await, 403, "{bad}");
    }
}

/// A page of another site may send requests, though it can't read the answers.
#[tokio::test]
async fn pages_of_other_sites_may_not_ask() {
    let served = serve().await;
    let own = format!("http://{}", served.client.to);
    let status = async |client: Client| client.ask("POST", "/v1/runs", "{}").await.status;
    let with = |name: &str, value: &str| served.client.with(name, value);
    assert_eq!(status(with("origin", "http://evil.test")).await, 403);
    assert_eq!(status(with("origin", "null")).await, 403);
    assert_eq!(status(with("sec-fetch-site", "cross-site")).await, 403);
    assert_eq!(status(with("sec-fetch-site", "same-site")).await, 403);
    // These get as far as their body, which makes no sense.
    assert_eq!(status(with("origin", &own)).await, 400);
    assert_eq!(status(with("sec-fetch-site", "same-origin")).await, 400);
    assert_eq!(status(served.client.clone()).await, 400);
    // What a form can send is no JSON.
    let form = with("content-type", "text/plain");
    assert_eq!(form.ask("POST", "/v1/runs", "{}").await.status, 415);
}

#[tokio::test]
async fn every_answer_carries_what_protects_a_page() {
    let served = serve().await;
    for path in ["/v1/runs", "/nowhere", "/healthz"] {
        let answer = served.client.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}
