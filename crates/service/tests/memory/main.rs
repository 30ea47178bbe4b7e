//! What clients that do not read cost. A program of its own with one test: it counts every byte that
//! the process allocates.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failing test panics; the clients are outside every simulated path"
)]

use std::alloc::System;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use retrial::action::{Context, Registry};
use retrial::engine::{Config, Engine, Submission, World};
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use retrial_service::server::{Monitor, Service, Settings};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Test(PhantomData<()>);

impl World for Test {
    type Runtime = TokioRuntime;
    type Store = Arc<MemoryStore<TokioRuntime>>;
    type Actions = Registry;
}

/// The most bytes of one stream.
const MOST: isize = 256_000;
const STREAMS: isize = 20;

/// A client that sends `ask` and reads nothing.
async fn asleep(to: SocketAddr, ask: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let head = format!("GET {ask} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn streams_open(to: SocketAddr) -> isize {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let ask = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let line = answer.lines().find_map(|l| l.strip_prefix("retrial_http_streams_open "));
    line.map_or(0, |count| count.parse().unwrap())
}

fn held(region: &Region<'_, System>) -> isize {
    let change = region.change();
    isize::try_from(change.bytes_allocated).unwrap()
        - isize::try_from(change.bytes_deallocated).unwrap()
}

/// What is in memory for sleeping readers of `path` once nothing changes any more, for each.
async fn cost(to: SocketAddr, path: &str, streams: isize) -> isize {
    let region = Region::new(COUNTED);
    let mut readers = Vec::new();
    for _ in 0..streams {
        readers.push(asleep(to, path).await);
    }
    while streams_open(to).await < streams {
        tokio::task::yield_now().await;
    }
    let (mut before, mut same) = (0, 0);
    while same < 10 {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        let now = held(&region);
        same = if (now - before).abs() < 10_000 { same + 1 } else { 0 };
        before = now;
    }
    drop(readers);
    while streams_open(to).await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    before / streams
}

/// A run with a large definition, a large input, and thousands of events.
async fn large_run(engine: &Engine<Test>) -> String {
    let mut text = "workflow = \"w\"\n".to_owned();
    for n in 0..600 {
        text += &format!(
            "[[steps]]\nid = \"s{n}\"\naction = \"echo\"\nargs = {{ text = \"{}\" }}\n",
            "x".repeat(200)
        );
    }
    text += "[[steps]]\nid = \"all\"\naction = \"echo\"\nfor_each = \"${input.items}\"\n\
             args = { a = \"${item}\" }\n";
    let document = retrial::dialect::parse_workflow(
        "w.toml",
        &text,
        retrial::dialect::Format::Toml,
        &retrial::dialect::Environment::default(),
    );
    let items: Vec<u32> = (0..4_000).collect();
    let Value::Object(input) = json!({ "items": items, "more": vec![1; 60_000] }) else {
        unreachable!()
    };
    let submission = Submission::new(Arc::new(document.unwrap().workflow)).with_input(input);
    let handle = engine.submit(submission).await.unwrap();
    handle.outcome().await.unwrap();
    handle.run.to_string()
}

#[tokio::test]
async fn a_stream_that_is_not_read_costs_little() {
    let monitor = Monitor::new().unwrap();
    let runtime = TokioRuntime::current();
    let store = Arc::new(MemoryStore::new(runtime.clone()));
    let mut registry = Registry::new();
    registry.register("echo", |context: Context| async move { context.args::<Value>() });
    let config = Config { keep_events: 100_000, ..Config::default() };
    let engine =
        Engine::<Test>::start(runtime, store, registry, config, vec![monitor.clone()]).await;
    let service = Service::new(engine.clone(), monitor, Settings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        service.serve(listener, std::future::pending()).await.unwrap();
    });
    let run = large_run(&engine).await;
    for path in [format!("/v1/runs/{run}/events"), "/v1/runs/watch?limit=500".to_owned()] {
        // What the first one leaves in memory, all of them share.
        cost(to, &path, 1).await;
        let each = cost(to, &path, STREAMS).await;
        assert!(each <= MOST, "{path}: {each} bytes");
    }
    serving.abort();
}
