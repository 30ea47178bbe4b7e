//! A store that does not answer, or answers that it did nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use retrial::store::{Answer, Request, Store, StoreError};
use retrial::time::Nanos;
use retrial_service::server::{Limits, Settings, WatchedStore};
use serde_json::json;

use super::kit::{Memory, Served, memory, one, serve_with, submission};

/// A store that can be in trouble.
struct Troubled {
    under: Memory,
    trouble: AtomicU8,
}

const NONE: u8 = 0;
const SILENT: u8 = 1;
const NOT_DONE: u8 = 2;
const BROKEN: u8 = 3;
const FULL: u8 = 4;

impl Store for Troubled {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        match self.trouble.load(Ordering::SeqCst) {
            SILENT => std::future::pending().await,
            NOT_DONE => Err(StoreError::NotDone("out of reach".into())),
            BROKEN => Err(StoreError::Broken("it rots".into())),
            // Reads go on.
            FULL if matches!(request, Request::Create(_) | Request::Commit(_)) => {
                Err(StoreError::NotDone("no space left on device".into()))
            }
            _ => self.under.ask(request).await,
        }
    }
}

async fn troubled() -> (Arc<Troubled>, Served) {
    let store = Arc::new(Troubled { under: memory(), trouble: AtomicU8::new(NONE) });
    let limits = Limits { answer_within: Nanos::from_millis(300), ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    (Arc::clone(&store), serve_with(store, settings).await)
}

#[tokio::test]
async fn what_the_store_does_not_say_in_time_is_given_up() {
    let (store, served) = troubled().await;
    store.trouble.store(SILENT, Ordering::SeqCst);
    let refused = served.client.get("/v1/runs").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.json()["type"], "urn:retrial:problem:no-answer");
    assert_eq!(served.client.get("/readyz").await.status, 503);
    assert_eq!(served.client.get("/healthz").await.status, 200);
    store.trouble.store(NONE, Ordering::SeqCst);
    assert_eq!(served.client.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_store_out_of_reach_and_a_damaged_one_are_told_apart() {
    let (store, served) = troubled().await;
    for (trouble, status, kind) in [(NOT_DONE, 503, "no-store"), (BROKEN, 500, "damaged")] {
        store.trouble.store(trouble, Ordering::SeqCst);
        for path in ["/v1/runs", "/v1/tally", "/readyz"] {
            let refused = served.client.get(path).await.expect(status);
            assert_eq!(refused["type"], format!("urn:retrial:problem:{kind}"), "{path}");
        }
        let body = submission(&one("echo", ""), &json!({}));
        assert_eq!(served.client.post("/v1/runs", &body).await.status, status);
    }
    // Nothing was added meanwhile.
    store.trouble.store(NONE, Ordering::SeqCst);
    assert_eq!(served.client.get("/v1/runs").await.expect(200)["runs"], json!([]));
}

/// A watched page goes on once the store is back.
#[tokio::test]
async fn a_watched_page_outlives_a_store_out_of_reach() {
    let (store, served) = troubled().await;
    let mut watched = served.client.stream("/v1/runs/watch").await;
    watched.next().await.unwrap();
    store.trouble.store(NOT_DONE, Ordering::SeqCst);
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    store.trouble.store(NONE, Ordering::SeqCst);
    let run = served.submit(&one("echo", ""), &json!({})).await;
    let page = watched.next().await.unwrap();
    assert_eq!(page.data["runs"][0]["run"], json!(run));
}

/// Reads go on, and so does every check that only reads.
#[tokio::test]
async fn a_store_that_can_not_be_written_is_not_ready() {
    let troubled = Arc::new(Troubled { under: memory(), trouble: AtomicU8::new(NONE) });
    let store = WatchedStore::new(Arc::clone(&troubled));
    let limits = Limits { answer_within: Nanos::from_millis(300), ..Limits::default() };
    let writes = Some(store.writes());
    let served = serve_with(store, Settings { limits, writes, ..Settings::default() }).await;
    let body = submission(&one("echo", ""), &json!({}));
    served.client.post("/v1/runs", &body).await.expect(201);
    assert_eq!(served.client.get("/readyz").await.status, 200);
    troubled.trouble.store(FULL, Ordering::SeqCst);
    served.client.post("/v1/runs", &body).await.expect(503);
    assert_eq!(served.client.get("/v1/runs").await.status, 200);
    let refused = served.client.get("/readyz").await.expect(503);
    assert!(refused["detail"].as_str().unwrap().contains("no space left"), "{refused}");
    assert_eq!(served.client.get("/healthz").await.status, 200);
    troubled.trouble.store(NONE, Ordering::SeqCst);
    while served.client.post("/v1/runs", &body).await.status != 201 {
        tokio::task::yield_now().await;
    }
    assert_eq!(served.client.get("/readyz").await.status, 200);
}
