//! A server on loopback that does one thing to every connection, and calls to send it.

use std::collections::BTreeMap;
use std::sync::Arc;

use retrial::action::{Call, Canceller};
use retrial::run::{RunId, TaskId};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Action, Endpoint, StepIx, Target};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

/// What the server does once it has read a request.
#[derive(Clone)]
pub enum Script {
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Resets the connection.
    Reset,
}

/// Ends when it is dropped.
pub struct Server {
    host: String,
    seen: Mutex<mpsc::UnboundedReceiver<Request>>,
    accepting: JoinHandle<()>,
}

/// A request as it came in.
pub struct Request {
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    /// Every value of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
    }
}

pub async fn serve(script: Script) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (tell, seen) = mpsc::unbounded_channel();
    let accepting = tokio::task::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn(answer(stream, script.clone(), tell.clone()));
        }
    });
    Server { host, seen: Mutex::new(seen), accepting }
}

impl Server {
    pub fn host(&self) -> String {
        self.host.clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// The next request that was read whole.
    pub async fn request(&self) -> Request {
        self.seen.lock().await.recv().await.expect("the server runs")
    }

    pub fn was_never_asked(&self) -> bool {
        self.seen.try_lock().is_ok_and(|mut seen| seen.try_recv().is_err())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(mut stream: TcpStream, script: Script, tell: mpsc::UnboundedSender<Request>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let _ = tell.send(request);
    match script {
        Script::Send(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            // Closing with unread bytes would reset; the client closes first.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        // A linger of zero makes closing send a reset.
        Script::Reset => stream.set_zero_linger().expect("an open socket"),
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|l| l.split_once(": "))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
        .collect();
    let length = headers.iter().find(|(n, _)| n == "content-length");
    let length: usize = length.map_or(0, |(_, v)| v.parse().expect("a length"));
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { line, headers, body: String::from_utf8(body).ok()? })
}

pub fn endpoint(method: &str, url: &str) -> Endpoint {
    Endpoint { method: method.to_owned(), url: url.to_owned(), headers: BTreeMap::new() }
}

/// A first attempt at `to`, at store time 1,000 s.
pub fn call(to: Endpoint) -> Call {
    let (_, cancelled) = Canceller::pair();
    let run = RunId::from_random(1, 2);
    let task = TaskId { step: StepIx(0), item: 0 };
    Call {
        run,
        task,
        step: "work".to_owned(),
        name: "act".to_owned(),
        action: Some(Arc::new(Action {
            kind: retrial::policy::ActionKind::default(),
            target: Target::Http(to),
            idempotent: None,
            inner_attempts: None,
        })),
        args: json!({}),
        attempt: 1,
        retries_left: Some(2),
        timeout: None,
        receipt: task.receipt(run),
        at: Timestamp::from_nanos(Nanos::from_secs(1_000).get()),
        cancelled,
    }
}
