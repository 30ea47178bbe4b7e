//! A service on a free port, its actions functions, and a browser that looks at it.

use std::net::SocketAddr;
use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::Failure;
use retrial::observe::Observer;
use retrial::run::RunId;
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::store::{DynStore, MemoryStore};
use retrial::time::Nanos;
use retrial_service::server::{AccessToken, Monitor, Service, Settings};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use retrial_testkit::browser::Browser;

type Test = (TokioRuntime, DynStore, Registry);

/// A service at work, and a browser. Both end with the test.
pub(crate) struct Inspected {
    pub(crate) browser: Browser,
    pub(crate) store: Arc<MemoryStore<TokioRuntime>>,
    pub(crate) engine: Engine<Test>,
    /// `gated` waits for a permit.
    gate: Arc<Semaphore>,
    to: SocketAddr,
    runtime: Runtime,
}

fn registry(gate: &Arc<Semaphore>) -> Registry {
    let mut registry = Registry::new();
    registry
        .register("echo", async |context: Context| Ok::<Value, Failure>(context.args::<Value>()?));
    registry.register("flaky", async |context: Context| match context.attempt() {
        1 | 2 => Err(Failure::http(503, "busy")),
        n => Ok(json!({ "attempt": n })),
    });
    registry.register("broken", async |context: Context| {
        let says = context.args::<Value>()?["says"].as_str().unwrap_or("no").to_owned();
        Err::<(), _>(Failure::http(400, &says))
    });
    registry.register("hostile", async |context: Context| {
        let says = context.args::<Value>()?["says"].as_str().unwrap_or("no").to_owned();
        let failure =
            Failure::new("<b>CODE</b>", &says).with_lineage(["<svg/onload=window.pwned=4>"]);
        Err::<(), _>(failure.with_stack_trace(&says))
    });
    let gate = Arc::clone(gate);
    registry.register("gated", move |_: Context| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<_, Failure>(json!({ "passed": true }))
        }
    });
    registry
}

impl Inspected {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn wanting(token: &str) -> Self {
        let token = Some(AccessToken::new(token).unwrap());
        Self::with(Settings { token, ..Settings::default() })
    }

    fn with(settings: Settings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let (engine, store, to) = runtime.block_on(async {
            let monitor = Monitor::new().unwrap();
            let observers = vec![Arc::clone(&monitor) as Arc<dyn Observer>];
            let clocks = TokioRuntime::current();
            let store = Arc::new(MemoryStore::new(clocks.clone()));
            let config = Config { poll: Nanos::from_millis(200), ..Config::default() };
            let (kept, functions) = (DynStore::new(Arc::clone(&store)), registry(&gate));
            let engine = Engine::start(clocks, kept, functions, config, observers).await;
            let service = Service::new(engine.clone(), monitor, settings);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let serving = async move {
                service.serve(listener, std::future::pending()).await.unwrap();
            };
            TokioRuntime::current().spawn(serving).detach();
            (engine, store, to)
        });
        Self { browser: Browser::start(), store, engine, gate, to, runtime }
    }

    /// Opens a view, as `#/runs`, and waits until its page stands.
    pub(crate) fn open(&self, view: &str) {
        self.browser.open_url("about:blank");
        self.browser.open_url(&format!("http://{}/{view}", self.to));
        self.browser.wait("document.querySelector('.view') !== null");
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.to)
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Submits a run of a workflow file; gives its id.
    pub(crate) fn submit(&self, text: &str, input: &Value) -> String {
        let environment = Environment::default();
        let document = parse_workflow("test", text, Format::Toml, &environment);
        let workflow = Arc::new(document.unwrap_or_else(|found| panic!("{found:?}")).workflow);
        let submission = Submission::new(workflow).with_input(input.as_object().unwrap().clone());
        let submitted = self.block_on(self.engine.submit(submission));
        submitted.unwrap().run.to_string()
    }

    /// Submits a run and waits until it has ended.
    pub(crate) fn work_off(&self, text: &str, input: &Value) -> String {
        let run = self.submit(text, input);
        self.ended(&run);
        run
    }

    pub(crate) fn ended(&self, run: &str) {
        let run: RunId = run.parse().unwrap();
        self.block_on(self.engine.outcome(run)).unwrap();
    }

    /// Lets one attempt of `gated` pass.
    pub(crate) fn pass(&self) {
        self.gate.add_permits(1);
    }

    /// The text of what the selector finds, each.
    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let script = format!(
            "return [...document.querySelectorAll({})].map((e) => e.textContent)",
            json!(selector)
        );
        let found = self.browser.run(&script);
        found.as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect()
    }

    /// Waits until what the selector finds first holds this text.
    pub(crate) fn says(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.browser.wait(&format!(
            "(document.querySelector({selector})?.textContent ?? '').includes({text})"
        ));
    }

    /// Waits until the selector finds so many.
    pub(crate) fn finds(&self, selector: &str, n: usize) {
        let selector = json!(selector);
        self.browser.wait(&format!("document.querySelectorAll({selector}).length === {n}"));
    }

    /// What a script gives.
    pub(crate) fn value(&self, script: &str) -> Value {
        self.browser.run(&format!("return {script}"))
    }

    /// Nothing went wrong in the page, and nothing was asked of anybody else.
    pub(crate) fn is_sound(&self) {
        assert_eq!(self.browser.console(), [""; 0]);
        let asked = "performance.getEntriesByType('resource').map((e) => new URL(e.name).origin)";
        let asked = self.value(asked);
        let origin = self.origin();
        assert!(asked.as_array().unwrap().iter().all(|from| *from == *origin), "{asked}");
        assert_eq!(self.value("window.pwned === undefined"), true);
    }
}

/// A workflow of one step, whose arguments are the run's input.
pub(crate) fn one(name: &str, action: &str, policy: &str) -> String {
    let name = json!(name);
    format!(
        "workflow = {name}\n[[steps]]\nid = \"only\"\naction = \"{action}\"\nargs = {{ says = \"${{input.says}}\" }}\n{policy}\n"
    )
}

/// So many attempts in all, 1 ms apart.
pub(crate) fn tries(attempts: u32) -> String {
    format!("work_config = {{ max_retries = {}, backoff = 1 }}", attempts - 1)
}

pub(crate) fn nothing() -> Value {
    json!({ "says": "no" })
}
