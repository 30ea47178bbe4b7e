//! A service on a free port, its engine on a store of the test's choice, its actions functions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine};
use retrial::failure::Failure;
use retrial::observe::Observer;
use retrial::runtime::TokioRuntime;
use retrial::store::{DynStore, MemoryStore, RedbStore, Store};
use retrial::time::Nanos;
use retrial_service::server::{Monitor, Service, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::client::Client;

/// The world of a service under test.
pub(crate) type Test = (TokioRuntime, DynStore, Registry);

pub(crate) type Memory = Arc<MemoryStore<TokioRuntime>>;

/// A service at work. Ends with the test.
pub(crate) struct Served {
    pub(crate) engine: Engine<Test>,
    pub(crate) client: Client,
    pub(crate) acts: Acts,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// What the functions share with the test.
#[derive(Clone)]
pub(crate) struct Acts {
    /// `gated` waits for a permit.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) calls: Arc<AtomicUsize>,
}

impl Acts {
    fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), calls: Arc::default() }
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        let calls = Arc::clone(&self.calls);
        registry.register("echo", move |context: Context| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move { context.args::<Value>() }
        });
        registry.register("flaky", |context: Context| async move {
            let fails = context.args::<Value>()?["of"]["fails"].as_u64().unwrap_or(1);
            match u64::from(context.attempt()) {
                n if n <= fails => Err(Failure::http(503, "busy")),
                n => Ok(json!({ "attempt": n })),
            }
        });
        registry.register("broken", |context: Context| async move {
            let says = context.args::<Value>()?["of"]["says"].as_str().unwrap_or("no").to_owned();
            Err::<(), _>(Failure::http(400, &says))
        });
        let gate = Arc::clone(&self.gate);
        registry.register("gated", move |_: Context| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok::<_, Failure>(json!({ "passed": true }))
            }
        });
        registry
    }
}

pub(crate) fn memory() -> Memory {
    Arc::new(MemoryStore::new(TokioRuntime::current()))
}

/// A redb store in a folder that lives as long as what is given with it.
pub(crate) async fn redb() -> (RedbStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(TokioRuntime::current(), folder.path().join("s.redb")).await;
    (store.unwrap(), folder)
}

/// A service on `store` with these settings.
pub(crate) async fn serve_with(store: impl Store, settings: Settings) -> Served {
    serve_as(store, settings, Config { poll: Nanos::from_millis(200), ..Config::default() }).await
}

pub(crate) async fn serve_as(store: impl Store, settings: Settings, config: Config) -> Served {
    serve_any(DynStore::new(store), settings, config).await
}

async fn serve_any(store: DynStore, settings: Settings, config: Config) -> Served {
    let monitor = Monitor::new().unwrap();
    let acts = Acts::new();
    let observers = vec![Arc::clone(&monitor) as Arc<dyn Observer>];
    let runtime = TokioRuntime::current();
    let engine = Engine::start(runtime, store, acts.registry(), config, observers).await;
    let service = Service::new(engine.clone(), monitor, settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let until = async move {
            let _ = stopped.await;
        };
        service.serve(listener, until).await.unwrap();
    });
    let client = Client::new(address);
    Served { engine, client, acts, stop: Some(stop), task: Some(task) }
}

/// A service on a memory store, as it is unless told.
pub(crate) async fn serve() -> Served {
    serve_with(memory(), Settings::default()).await
}

impl Served {
    /// Submits `definition`; gives the run's id.
    pub(crate) async fn submit(&self, definition: &str, input: &Value) -> String {
        let answer = self.client.post("/v1/runs", &submission(definition, input)).await;
        answer.expect(201)["run"].as_str().unwrap().to_owned()
    }

    /// Waits until the run has ended; gives what is shown of it then.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        self.engine.outcome(run.parse().unwrap()).await.unwrap();
        self.client.get(&format!("/v1/runs/{run}")).await.expect(200)
    }

    /// Begins the shutdown.
    pub(crate) fn begin_stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Waits until the service has ended.
    pub(crate) async fn stopped(&mut self) {
        self.begin_stop();
        self.task.take().unwrap().await.unwrap();
    }
}

/// A body for `POST /v1/runs`.
pub(crate) fn submission(definition: &str, input: &Value) -> Value {
    json!({ "definition": definition, "format": "toml", "input": input })
}

/// One step of `action`, whose arguments are the run's input.
pub(crate) fn one(action: &str, policy: &str) -> String {
    format!(
        "workflow = \"w\"\n[[steps]]\nid = \"s\"\naction = \"{action}\"\nargs = {{ of = \"${{input}}\" }}\n{policy}\n"
    )
}

/// So many attempts in all, 1 ms apart.
pub(crate) fn tries(attempts: u32) -> String {
    format!("work_config = {{ max_retries = {}, backoff = 1 }}", attempts - 1)
}
