//! Reading definitions delays nobody else's request.

use std::sync::{Arc, Condvar, Mutex};

use retrial::action::Registry;
use retrial::engine::{Config, Engine};
use retrial::runtime::{Runtime, Task, TokioRuntime, WorkLost};
use retrial::time::{Mono, Timestamp};
use retrial_service::server::{Monitor, Service, Settings};
use serde_json::json;
use tokio::net::TcpListener;

use super::client::{Answer, Client};
use super::kit::{Memory, memory, one, submission};

/// A runtime whose blocking work does not end before its gate is opened.
#[derive(Clone)]
struct Gated {
    under: TokioRuntime,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    /// Whether it is open, and how much work waits at it.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        while !state.0 {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    fn held(&self) -> usize {
        self.state.lock().unwrap().1
    }
}

impl Runtime for Gated {
    fn now(&self) -> Mono {
        self.under.now()
    }

    fn wall(&self) -> Timestamp {
        self.under.wall()
    }

    fn random(&self) -> u64 {
        self.under.random()
    }

    async fn sleep_until(&self, at: Mono) {
        self.under.sleep_until(at).await;
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        self.under.spawn(future)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        let gate = Arc::clone(&self.gate);
        let held = move || {
            gate.pass();
            work()
        };
        self.under.blocking(held).await
    }
}

type Busy = (Gated, Memory, Registry);

/// A service on this thread alone, and the gate of its blocking work.
async fn serve() -> (Client, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    let runtime = Gated { under: TokioRuntime::current(), gate: Arc::clone(&gate) };
    let (monitor, config) = (Monitor::new().unwrap(), Config::default());
    let engine =
        Engine::<Busy>::start(runtime, memory(), Registry::new(), config, vec![monitor.clone()]);
    let service = Service::new(engine.await, monitor, Settings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap());
    tokio::spawn(async move {
        service.serve(listener, std::future::pending()).await.unwrap();
    });
    (client, gate)
}

/// Begins so many requests, each after the one before was taken.
fn begin(
    client: &Client,
    count: usize,
    (method, path, body): (&'static str, &'static str, &str),
) -> Vec<tokio::task::JoinHandle<Answer>> {
    let ask = |_| {
        let (client, body) = (client.clone(), body.to_owned());
        tokio::spawn(async move {
            let kind = if method == "PUT" { "application/toml" } else { "application/json" };
            client.with("content-type", kind).ask(method, path, &body).await
        })
    };
    (0..count).map(ask).collect()
}

/// The answer that came first, with the others.
async fn first_ended(asked: &mut Vec<tokio::task::JoinHandle<Answer>>) -> Answer {
    loop {
        if let Some(ended) = asked.iter().position(|one| one.is_finished()) {
            return asked.swap_remove(ended).await.unwrap();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn health_answers_while_definitions_are_being_read() {
    let definition = one("echo", "");
    let written = json!({ "definition": definition, "format": "toml" }).to_string();
    let submitted = submission(&definition, &json!({})).to_string();
    for request in [
        ("POST", "/v1/workflows/validate", written.as_str()),
        ("POST", "/v1/runs", &submitted),
        ("PUT", "/v1/workflows/w", &definition),
    ] {
        let (client, gate) = serve().await;
        let asked = begin(&client, 50, request);
        while gate.held() == 0 {
            assert!(asked.iter().all(|one| !one.is_finished()), "{request:?} is read here");
            tokio::task::yield_now().await;
        }
        for path in ["/healthz", "/readyz", "/v1/runs"] {
            assert_eq!(client.get(path).await.status, 200, "{path} beside {request:?}");
        }
        assert!(asked.iter().all(|one| !one.is_finished()), "all are being read");
        gate.open();
        for one in asked {
            let status = one.await.unwrap().status;
            assert!(status == 200 || request.1 == "/v1/runs" && status == 201, "{request:?}");
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn health_answers_while_a_definition_is_masked() {
    let (client, gate) = serve().await;
    gate.open();
    let stored = begin(&client, 1, ("PUT", "/v1/workflows/w", &one("echo", "")));
    for put in stored {
        assert_eq!(put.await.unwrap().status, 200);
    }
    gate.state.lock().unwrap().0 = false;
    let before = gate.held();
    let asked = begin(&client, 10, ("GET", "/v1/workflows/w", ""));
    while gate.held() == before {
        assert!(asked.iter().all(|one| !one.is_finished()), "it is masked here");
        tokio::task::yield_now().await;
    }
    assert_eq!(client.get("/healthz").await.status, 200);
    assert!(asked.iter().all(|one| !one.is_finished()));
    gate.open();
    for one in asked {
        assert_eq!(one.await.unwrap().status, 200);
    }
}

/// So many requests may wait. One more is refused with a time to try again.
#[tokio::test(flavor = "current_thread")]
async fn more_definitions_than_can_wait_are_refused() {
    let (client, gate) = serve().await;
    let most = 64 + 2 * std::thread::available_parallelism().unwrap().get();
    let body = json!({ "definition": one("echo", ""), "format": "toml" }).to_string();
    let mut asked = begin(&client, most + 1, ("POST", "/v1/workflows/validate", &body));
    let refused = first_ended(&mut asked).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!(refused.json()["type"], "urn:retrial:problem:busy");
    assert!(asked.iter().all(|one| !one.is_finished()), "the others wait");
    gate.open();
    for one in asked {
        assert_eq!(one.await.unwrap().status, 200);
    }
}
