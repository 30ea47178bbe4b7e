//! The wire of the service: any bytes on a connection. The service answers with well-formed answers
//! only, answers a whole request, and goes on to answer others.

use std::net::SocketAddr;
use std::sync::Arc;

use retrial::action::Registry;
use retrial::engine::{Config, Engine};
use retrial::observe::Observer;
use retrial::runtime::TokioRuntime;
use retrial::store::MemoryStore;
use retrial::time::Nanos;
use retrial_service::server::{Limits, Monitor, Service, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, timeout};

use super::block_on;

type Test = (TokioRuntime, MemoryStore<TokioRuntime>, Registry);

/// What is read of one connection at most: event streams do not end.
const MOST: usize = 256 * 1024;

/// Longer than any limit of the service but a stream's. The clock is not the machine's.
const PATIENCE: Duration = Duration::from_secs(120);

async fn serve() -> SocketAddr {
    let monitor = Monitor::new().unwrap();
    let observers = vec![Arc::clone(&monitor) as Arc<dyn Observer>];
    let runtime = TokioRuntime::current();
    let store = MemoryStore::new(runtime.clone());
    let config = Config { poll: Nanos::from_secs(60), ..Config::default() };
    let engine = Engine::<Test>::start(runtime, store, Registry::new(), config, observers).await;
    let limits = Limits { keep_alive: Nanos::from_secs(3_600), ..Limits::default() };
    let service = Service::new(engine, monitor, Settings { limits, ..Settings::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { service.serve(listener, std::future::pending()).await });
    address
}

/// Sends `bytes` on a connection of its own and reads what comes until the service closes it.
async fn talk(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut from, mut to) = stream.split();
    let mut answers = Vec::new();
    let read = async {
        let mut part = [0; 4096];
        while answers.len() < MOST {
            match from.read(&mut part).await {
                Ok(n @ 1..) => answers.extend_from_slice(&part[..n]),
                Ok(0) | Err(_) => return,
            }
        }
    };
    let write = async {
        let _ = to.write_all(bytes).await;
        std::future::pending::<()>().await;
    };
    let _ = timeout(PATIENCE, async {
        tokio::select! {
            biased;
            () = read => {}
            () = write => {}
        }
    })
    .await;
    answers
}

pub(crate) fn wire(bytes: &[u8]) {
    block_on(async {
        let address = serve().await;
        let answers = talk(address, bytes).await;
        assert!(answers.is_empty() || status(&answers).is_some(), "{}", shown(&answers));
        if has_whole_request(bytes) {
            assert!(!answers.is_empty(), "a whole request has no answer");
        }
        let healthy = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let answers = talk(address, healthy).await;
        assert_eq!(status(&answers), Some(200), "{}", shown(&answers));
    });
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The status of the first answer, if its head is well-formed.
fn status(answers: &[u8]) -> Option<u16> {
    let end = answers.windows(4).position(|w| w == b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&answers[..end]).ok()?.split("\r\n");
    let line = lines.next()?;
    let line = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
    let status = line.get(..3)?.parse().ok()?;
    let is_header = |line: &str| line.split_once(": ").is_some_and(|(name, _)| is_token(name));
    (lines.all(is_header) && (100..600).contains(&status)).then_some(status)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Whether `bytes` begin with a request whose head is plain and whose body is all there.
fn has_whole_request(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else { return false };
    let mut lines = head.split("\r\n");
    let request: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    let [method, path, "HTTP/1.1"] = request[..] else { return false };
    let mut length = Some(0);
    for line in lines {
        let Some((name, value)) = line.split_once(": ") else { return false };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse::<usize>().ok(),
            "transfer-encoding" | "expect" | "upgrade" | "connection" => return false,
            _ if !is_token(name) || !is_plain(value) => return false,
            _ => {}
        }
    }
    let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    let has_body = length.is_some_and(|length| bytes.len() - end - 4 >= length);
    is_method && path.starts_with('/') && is_plain(path) && has_body
}
