//! H17, C16: spans around runs, attempts and requests, by OpenTelemetry's conventions.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use crate::action_support::server;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use retrial::action::{ActionSet, HttpActions, Registry};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Config, Engine, Submission};
use retrial::net::TcpConnect;
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use server::{Script, serve};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

type Real = (TokioRuntime, MemoryStore<TokioRuntime>, ActionSet<TcpConnect>);

/// A span that has closed.
#[derive(Clone, Debug)]
struct Seen {
    name: &'static str,
    parent: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

struct Fields<'f>(&'f mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

fn ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("retrial")
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut extensions = span.extensions_mut();
        values.record(&mut Fields(extensions.get_mut().unwrap()));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        if !ours(span.metadata()) {
            return;
        }
        let fields: &BTreeMap<&'static str, String> = &span.extensions().get().cloned().unwrap();
        let parent = span.parent().map(|parent| parent.name());
        let seen = Seen { name: span.name(), parent, fields: fields.clone() };
        self.0.lock().unwrap().push(seen);
    }
}

/// A run whose endpoint, at a URL with a secret, is busy twice.
async fn run_against(url: &str) {
    let text = format!(
        "workflow = \"w\"\n[actions.get]\nhttp = \"POST {url}\"\n[[steps]]\nid = \"fetch\"\n\
         action = \"get\"\nwork_config = {{ max_retries = 1, backoff = 1 }}\n"
    );
    let document = parse_workflow("w.toml", &text, Format::Toml, &Environment::default()).unwrap();
    let runtime = TokioRuntime::current();
    let http = HttpActions::new(TcpConnect::new(), |_: &str| None);
    let actions = ActionSet::new(Registry::new(), http);
    let store = MemoryStore::new(runtime.clone());
    let engine = Engine::<Real>::start(runtime, store, actions, Config::default(), vec![]).await;
    let submitted = engine.submit(Submission::new(Arc::new(document.workflow))).await.unwrap();
    engine.outcome(submitted.run).await.unwrap();
    engine.shutdown().await;
}

/// Whether this process runs no other test. If it does, `test` runs in one of its own, and passes
/// there.
///
/// tracing keeps for all threads whether anybody wants a span, and asks when its code first runs. A
/// test that runs it at the moment at which another one's subscriber comes switches the span off.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "RETRIAL_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut program = Command::new(std::env::current_exe().unwrap());
    let done = program.args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// The spans of such a run.
async fn spans() -> (Vec<Seen>, String) {
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
    let server = serve(Script::Send(busy.to_vec())).await;
    let (url, host) = (server.url("/work?key=hunter2"), server.host());
    let spans = Spans::default();
    let subscriber = tracing_subscriber::Registry::default().with(spans.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    run_against(&url).await;
    drop(guard);
    let seen = spans.0.lock().unwrap().clone();
    (seen, host)
}

#[tokio::test]
async fn h17_c16_spans_tell_runs_attempts_and_requests() {
    if !is_alone("spans::h17_c16_spans_tell_runs_attempts_and_requests") {
        return;
    }
    let (seen, host) = spans().await;
    let (address, port) = host.split_once(':').unwrap();
    let shown = |span: &Seen| {
        let fields: Vec<String> = span.fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let text = format!("{} in {:?}: {}\n", span.name, span.parent, fields.join(" "));
        let run = &span.fields.get("retrial.run.id").map_or("-", |id| id);
        text.replace(run, "ID").replace(port, "PORT").replace(address, "HOST")
    };
    insta::assert_snapshot!(seen.iter().map(shown).collect::<String>(), @r#"
    http in Some("attempt"): error.type=503 http.request.method=POST http.response.status_code=503 network.protocol.name=http otel.kind=client otel.name=POST otel.status_code=ERROR server.address=HOST server.port=PORT url.full=http://HOST:PORT/work?***
    attempt in Some("run"): error.type=503 otel.kind=internal otel.name=attempt fetch otel.status_code=ERROR retrial.action=get retrial.attempt=1 retrial.item=0 retrial.outcome=failure retrial.retries_left=1 retrial.run.id=ID retrial.step=fetch
    http in Some("attempt"): error.type=503 http.request.method=POST http.request.resend_count=1 http.response.status_code=503 network.protocol.name=http otel.kind=client otel.name=POST otel.status_code=ERROR server.address=HOST server.port=PORT url.full=http://HOST:PORT/work?***
    attempt in Some("run"): error.type=503 otel.kind=internal otel.name=attempt fetch otel.status_code=ERROR retrial.action=get retrial.attempt=2 retrial.item=0 retrial.outcome=failure retrial.retries_left=0 retrial.run.id=ID retrial.step=fetch
    run in None: error.type=503 otel.kind=internal otel.name=run w otel.status_code=ERROR retrial.outcome=failed retrial.run.id=ID retrial.workflow=w
    "#);
}

#[tokio::test]
async fn h17_the_page_lists_every_field_of_every_span() {
    if !is_alone("spans::h17_the_page_lists_every_field_of_every_span") {
        return;
    }
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md"));
    let page = page.unwrap();
    let spans = spans().await.0;
    assert!(!spans.is_empty());
    for span in spans {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", span.name)));
        let row = row.unwrap_or_else(|| panic!("docs/metrics.md has no row for `{}`", span.name));
        for field in span.fields.keys() {
            assert!(row.contains(&format!("`{field}`")), "`{field}` of `{}`", span.name);
        }
    }
}
